package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// One run, from the slot to the exit status:
//
//	slot → begin (lease, verdict, token) → command, lease kept → finish (end, lease given back) → exit status
//
// Nothing runs without the lease; nothing is given back before the end is written.

const (
	endPause     = time.Second // between two tries to write an end
	longestDelay = time.Hour   // between two attempts
)

// A run is one call that may run the command.
type run struct {
	*call
	voice   *voice
	signals chan os.Signal
	turn    *turn // set once it waits for another run
	lease   *lease
	try     int
	reply   *reply // begin's
	tried   bool   // to put the job into the list of jobs
	listed  bool   // and there it is

	unkept      error      // why the end is not in the spool, once it should be
	order       *stopOrder // a stop by hand, once it has come
	interrupted bool       // a signal that asks to stop came
}

// execute runs the command if its slot is to be run here.
func (c *call) execute(v *voice) *exit {
	return (&run{call: c, voice: v, signals: listen()}).decide()
}

// decide asks the ledger, and does what it says. Whoever waits asks again, and everything is decided anew. A status not
// 0 of a slot that was caught up with goes before this slot's.
func (r *run) decide() *exit {
	defer func() { r.turn.close() }()
	if e := r.deliverFirst(); e != nil {
		return e
	}
	caughtUp := 0
	for {
		if e := r.begin(); e != nil {
			return e
		}
		var e *exit
		switch {
		case r.reply.Verdict == "run":
			e = r.attempts()
		case r.reply.Verdict == "gap":
			caughtUp, e = r.catchUpFirst(caughtUp)
		case r.reply.Verdict == "lost" || r.reply.Verdict == "ended": // under a new run ID it is asked afresh
		case r.waits(r.reply.Verdict):
			r.arrears = arrears{} // meanwhile other slots may be skipped
			e = r.takeTurn()
		default:
			if r.reply.Verdict == "uncertain" { // the first run of a job may have died before it was in the list of jobs
				r.list()
			}
			e = r.refuse(r.reply)
		}
		if e != nil {
			return r.after(caughtUp, e)
		}
	}
}

// after is the exit of a slot where an earlier one has left this status.
func (r *run) after(status int, e *exit) *exit {
	if status == 0 {
		return e
	}
	r.voice.leave(e)
	return &exit{status: status}
}

// attempts runs the command, again and again while it fails and attempts are left, under one lease. It returns nil if it
// was too late to start, and everything is to be decided anew.
func (r *run) attempts() *exit {
	r.Caught = true // what lies before is seen to, for all attempts
	r.tellBefore()
	r.tellSkew()
	if stopped := r.list(); stopped != nil {
		r.unstarted(0)
		return stopped
	}
	if !r.inTime() { // that took long, and perhaps somebody else has begun
		r.unstarted(0)
		return nil
	}
	for delay := r.retryDelay; ; delay = min(delay+delay/2, longestDelay) {
		e, again := r.attempt()
		if !again {
			return e
		}
		r.voice.leave(e)
		if !r.delay(jitter(delay)) || !r.beginAgain() {
			return &exit{status: e.status}
		}
	}
}

// attempt starts the command, keeps the lease while it runs, and writes how it ended. It may be tried again if it failed
// by itself.
func (r *run) attempt() (e *exit, again bool) {
	select {
	case s := <-r.signals:
		if e := r.stoppedBy(s); e != nil {
			r.unstarted(0)
			return e, false
		}
	default:
	}
	// The parent-death signal comes when the thread that started the command ends; this one lives as long as it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	argv, environ := r.prepare(os.Environ())
	started := bootNow()
	child, err := startChild(argv, environ)
	if err != nil {
		return r.notStarted(err), false
	}
	w := r.watch(child)
	status := child.end(w.why != "" || w.interrupted || r.mayTryAgain(w))
	if w.why == "" && status.Signaled() && status.Signal() == syscall.SIGKILL && r.lease.kill().past() {
		w.why = whyAway // the guard was faster
	}
	w.interrupted = w.interrupted || child.typed != 0
	r.interrupted = w.interrupted
	if e, again = r.record(w, status, time.Duration(bootNow()-started)); e.status == exitSignal+int(child.typed) {
		e.typed = child.typed
	}
	return e, again
}

// mayTryAgain says whether a failure leaves this process another attempt: not after a signal or a lost lease.
func (r *run) mayTryAgain(w *watch) bool {
	return r.reply.Left > 0 && !w.interrupted && (w.why == "" || w.why == whyTimeout) && !r.rerun
}

// delay keeps the lease until the next attempt is due. It returns false if there is to be none: a signal came, or the
// lease is gone; then it is given back.
func (r *run) delay(d time.Duration) bool {
	r.lease.attempt = nil // nothing runs that a lapsed lease would be regained for
	if r.interrupted {    // while the end was written
		r.giveBack()
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	kept := r.keep(ctx)
	lost := kept
	timer := time.NewTimer(d)
	defer timer.Stop()
	for waiting, ok := true, true; ; {
		select {
		case <-timer.C:
			waiting = false
		case <-lost:
			waiting, ok = false, false
		case s := <-r.signals:
			ok = r.stoppedBy(s) == nil
			waiting = ok
		}
		if waiting {
			continue
		}
		cancel()
		for range kept { // until no renewal is under way
		}
		if ok = ok && !r.lease.term(r.killAfter).past(); !ok {
			r.giveBack()
		}
		return ok
	}
}

// giveBack releases a lease that was kept for another attempt.
func (r *run) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	e := r.end()
	e.State = "failed"
	r.lease.finish(ctx, e)
}

// beginAgain asks for one attempt more under the same lease. Every verdict but run gives it back.
func (r *run) beginAgain() bool {
	before := r.reply
	r.lease.attempt = r.end
	r.try++
	e := r.askUntil()
	if e == nil && r.reply.Verdict == "run" {
		r.tellBefore()
		return true
	}
	if e == nil {
		e = r.refuse(r.reply)
	}
	r.voice.leave(e)
	r.reply = before
	return false
}

// list puts the job into the list of jobs, if no run before has left a mark that it is there. The mark is set by finish,
// so that one without the other is made good by the next run.
func (r *run) list() *exit {
	if r.reply.Listed != "" || r.tried {
		return nil
	}
	r.tried = true
	listed := false
	stopped := r.attend(requestTimeout, func(ctx context.Context) {
		listed = r.ledger.list(ctx, r.command.job) == nil
	})
	r.listed = stopped == nil && listed
	return stopped
}

// notStarted is a command that cannot be executed: another host may have it, so it uses up no attempt.
func (r *run) notStarted(err error) *exit {
	status, reason := startFailure(err)
	r.unstarted(status)
	return &exit{status: status, msg: fmt.Sprintf("%s: %s: %s", r.name(), r.command.argv[0], reason)}
}

// prepare makes the arguments and the environment: what is documented, and nothing else, is changed.
func (r *run) prepare(environ []string) (argv, env []string) {
	values := map[string]string{"job": r.command.job, "slot": r.slot.name, "date": r.slot.date,
		"attempt": strconv.Itoa(r.reply.Attempt), "token": strconv.FormatInt(r.reply.Token, 10),
		"key": r.command.job + "/" + r.slot.name}
	argv = r.command.argv
	if r.expand {
		argv = r.command.expand(values)
	}
	own := []string{"ONCEONLY_JOB=" + values["job"], "ONCEONLY_SLOT=" + values["slot"],
		"ONCEONLY_BUSINESS_DATE=" + values["date"], "ONCEONLY_ATTEMPT=" + values["attempt"],
		"ONCEONLY_FENCING_TOKEN=" + values["token"], "ONCEONLY_RUN_ID=" + r.lease.runID, "ONCEONLY_KEY=" + values["key"],
		"ONCEONLY_FIRST_SLOT=" + cmp.Or(r.reply.First, values["slot"]), "ONCEONLY_LAST_SLOT=" + values["slot"]}
	inherited := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return slices.ContainsFunc(own, func(o string) bool {
			return strings.HasPrefix(v, o[:strings.IndexByte(o, '=')+1])
		})
	})
	if r.pg {
		inherited = withFence(inherited, values["job"], values["token"], r.lease.runID)
	}
	return argv, append(inherited, own...)
}

// end is an end of this attempt, but for how it ended.
func (r *run) end() end {
	e := end{attempt: attempt{r.lease.runID, r.try}, asker: r.asker, terms: r.terms(), Slot: r.slot.name,
		Begins: millis(r.slot.begins), Listed: r.listed && !r.lease.forgotten, Channel: r.ledger.channel(r.command.job)}
	if r.reply != nil {
		e.Number, e.Token, e.Began = r.reply.Attempt, r.reply.Token, r.reply.Time
	}
	return e
}
