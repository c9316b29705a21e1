package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Asking Redis whether the slot is to be run here, until there is an answer.

const (
	firstPause   = 50 * time.Millisecond // between two questions to a Redis that does not answer; doubled each time
	longestPause = 5 * time.Second
	shortest     = 100 * time.Millisecond // that one question is given
	farewell     = 500 * time.Millisecond // for telling Redis that an attempt is not started after all
)

var errTooLate = errors.New("its answers come after the lease")

// An answer is what came of sending one question.
type answer struct {
	reply  *reply
	err    error
	remedy remedy
}

// begin asks for a first attempt, under a run ID of its own.
func (r *run) begin() *exit {
	r.lease = newLease(r.ledger, r.command.job, fmt.Sprintf("%s:%d", r.asker.Host, r.asker.PID), r.settings.lease)
	r.lease.wall, r.lease.attempt, r.try = r.wall, r.end, 1
	return r.askUntil()
}

// askUntil asks until there is an answer, for as long as --redis-wait allows. A question that was sent and not answered
// may hold the lease, so it is asked again until that lease is over: else every other host would find the slot busy, and
// nobody would run it.
func (r *run) askUntil() *exit {
	asked, mayHold := bootNow(), boot(0)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		patience := requestTimeout
		if left := r.redisWait - time.Duration(bootNow()-asked); mayHold == 0 && left < patience {
			patience = max(left, shortest)
		}
		a, stopped := r.ask(patience)
		if stopped == nil && a.err == nil && (a.reply.Verdict != "run" || r.inTime()) {
			r.reply = a.reply
			if r.leaves(mayHold) {
				r.unstarted(0)
			}
			return nil
		}
		waited := time.Duration(bootNow() - asked)
		if sent := stopped != nil || a.err == nil || a.remedy == unknown; sent && (mayHold == 0 || waited < r.redisWait) {
			mayHold = bootNow().add(r.lease.ttl)
		}
		if stopped == nil {
			stopped = r.giveUp(a, waited, mayHold)
		}
		if stopped == nil {
			stopped = r.rest(min(jitter(pause), max(r.redisWait-waited, mayHold.until())))
		}
		if stopped != nil {
			if mayHold != 0 {
				r.unstarted(0)
			}
			return stopped
		}
	}
}

// leaves says whether this run ID is given up although it may have begun, or may yet, by a question that is under way. Who
// waits asks again under another one.
func (r *run) leaves(mayHold boot) bool {
	switch r.reply.Verdict {
	case "run":
		return false
	case "lost", "ended": // begun by a question whose answer came too late
		return true
	}
	return mayHold != 0
}

// question is the call's, for this try.
func (r *run) question() question {
	q := r.call.question()
	q.Try = r.try
	return q
}

// inTime says whether enough of a lease is left to start under it. An answer that came late is asked for again: that
// gives the same token, and a whole lease.
func (r *run) inTime() bool { return r.lease.kill().until() > r.lease.ttl/2 }

// ask sends the question once. A signal ends the wait for the answer, not the question.
func (r *run) ask(patience time.Duration) (answer, *exit) {
	var a answer
	stopped := r.attend(patience, func(ctx context.Context) {
		open := r.server.open.Load()
		if a.reply, a.err = r.lease.begin(ctx, r.question()); a.err != nil {
			a.remedy = r.server.judge(a.err, open)
		}
	})
	if stopped != nil { // the question is still under way, and what it writes is not to be read
		return answer{}, stopped
	}
	return a, nil
}

// attend does something that Redis is asked for, for so long at the most. A signal that asks to stop ends the wait for it;
// then it may still be under way.
func (r *run) attend(patience time.Duration, do func(context.Context)) *exit {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	done := make(chan struct{})
	go func() {
		defer cancel()
		do(ctx)
		close(done)
	}()
	return r.await(done)
}

// await waits, and hears the run's own signals.
func (r *run) await(done <-chan struct{}) *exit {
	e := await(r.signals, done)
	r.interrupted = r.interrupted || e != nil
	return e
}

// await waits for what is done or said elsewhere. A signal that asks to stop ends it.
func await(signals <-chan os.Signal, done <-chan struct{}) *exit {
	for {
		select {
		case <-done:
			return nil
		case s := <-signals:
			if e := stoppedBy(s); e != nil {
				return e
			}
		}
	}
}

// giveUp returns the exit if asking again does not help or has gone on long enough, else nil.
func (r *run) giveUp(a answer, waited time.Duration, mayHold boot) *exit {
	final := a.err != nil && (a.remedy == denied || a.remedy == broken)
	if !final && (waited < r.redisWait || !mayHold.past()) {
		return nil
	}
	e := r.server.refusal(cmp.Or(a.err, errTooLate), waited, a.remedy)
	e.msg = r.name() + ": not run: " + e.msg
	return e
}

// rest waits before the next question. A signal ends it.
func (r *run) rest(pause time.Duration) *exit { return r.await(alarm(pause)) }

// alarm is closed when the pause is over.
func alarm(pause time.Duration) <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(pause, func() { close(over) })
	return over
}

// stoppedBy notes that a signal came which asks to stop.
func (r *run) stoppedBy(s os.Signal) *exit {
	r.interrupted = r.interrupted || asksToStop(s)
	return stoppedBy(s)
}

// stoppedBy is the exit of a signal that came while there is no command to pass it to; nil for one that does not ask to
// stop.
func stoppedBy(s os.Signal) *exit {
	if !asksToStop(s) {
		return nil
	}
	return &exit{status: exitSignal + int(s.(unix.Signal))}
}

func asksToStop(s os.Signal) bool {
	return s == unix.SIGHUP || s == unix.SIGINT || s == unix.SIGQUIT || s == unix.SIGTERM
}

// jitter spreads hosts that fire at the same instant.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(max(d, 1)) }

// unstarted tells the ledger that this attempt, begun or perhaps begun, is not started: it uses up no attempt, the lease
// is given back, and a question that arrives later does nothing. It is said once, and kept in the spool if that fails.
func (r *run) unstarted(status int) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	e := r.end()
	e.State, e.Reason = "unstarted", "not_started"
	if status != 0 {
		e.Exit = fmt.Sprint(status)
	}
	if _, err := r.ledger.finish(ctx, r.command.job, e); err != nil {
		r.spool.keep(r.command.job, e)
	}
}
