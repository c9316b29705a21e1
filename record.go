package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"
)

// Writing down how an attempt ended, and with which status that leaves onceonly.

var errUntried = errors.New("untried")

// record writes the end. The lease is kept if there may be another attempt.
func (r *run) record(w *watch, status syscall.WaitStatus, took time.Duration) (e *exit, again bool) {
	end := r.ending(w, status, took)
	own := statusOf(status)
	switch {
	case w.why == whyTimeout:
		own = exitTimeout
	case w.why != "" || (own == 0 && end.State == "failed"):
		own = exitNotDone
	}
	said, err := r.write(end)
	if err != nil {
		return r.unrecorded(w, end, own, err), false
	}
	return r.close(w, end, said, own), end.Kept && said.Verdict != "stale"
}

// ending is the end of a command that ran.
func (r *run) ending(w *watch, status syscall.WaitStatus, took time.Duration) end {
	e := r.end()
	e.Took, e.Reason, e.State = took.Milliseconds(), w.reason(), "failed"
	switch {
	case status.Signaled():
		e.Signal = signalName(status.Signal())
	default:
		e.Exit = strconv.Itoa(status.ExitStatus())
		if status.ExitStatus() == 0 && e.Reason == "" {
			e.State = "done"
		}
	}
	e.Kept = e.State == "failed" && r.mayTryAgain(w)
	return e
}

// write sends the end until it is written, or until the lease is over. From the first failure on it is on disk too, so
// that it is not lost with this process. The signals that ask to stop end the wait.
func (r *run) write(e end) (*reply, error) {
	for r.unkept = errUntried; ; {
		said, stopped, err := r.writeOnce(e)
		if err == nil {
			if r.unkept == nil {
				r.spool.drop(e)
			}
			return said, nil
		}
		if r.unkept != nil {
			r.unkept = r.spool.keep(r.command.job, e)
		}
		if stopped || r.lease.ends().past() || r.rest(jitter(endPause)) != nil {
			return nil, err
		}
	}
}

// writeOnce sends the end once. A signal that asks to stop leaves it a moment more, for a Redis that is merely slow.
func (r *run) writeOnce(e end) (_ *reply, stopped bool, _ error) {
	ctx, cancel := context.WithTimeout(context.Background(), min(requestTimeout, max(r.lease.ends().until(), farewell)))
	answers, done := make(chan answer, 1), make(chan struct{})
	go func() {
		defer cancel()
		said, err := r.lease.finish(ctx, e)
		answers <- answer{reply: said, err: err}
		close(done)
	}()
	if stopped = r.await(done) != nil; stopped {
		select {
		case <-done:
		case <-time.After(farewell):
			return nil, true, context.DeadlineExceeded
		}
	}
	a := <-answers
	return a.reply, stopped, a.err
}

// unrecorded is the exit where the ledger does not know the end.
func (r *run) unrecorded(w *watch, e end, own int, err error) *exit {
	if w.why != "" && e.State != "done" {
		return &exit{status: own, msg: r.name() + ": " + w.stopped(r, nil)}
	}
	how := e.how()
	if e.State == "done" {
		own, how = exitUnrecorded, "done"
	}
	kept := "kept in " + r.spool.dir + ", delivered by the next onceonly here"
	if r.unkept != nil {
		kept = "nor kept: " + r.spool.dir + ": " + cause(r.unkept)
	}
	return &exit{status: own, msg: fmt.Sprintf("%s: %s, not recorded: %s; %s", r.name(), how, cause(err), kept)}
}

// close says what the ledger answered to an end that is written.
func (r *run) close(w *watch, e end, said *reply, own int) *exit {
	if w.why != "" {
		return &exit{status: own, msg: r.name() + ": " + w.stopped(r, said.Entry)}
	}
	switch {
	case said.Verdict == "stale":
	case e.Reason == "interrupted" && e.Exit == "0":
		return &exit{status: own, msg: r.name() + ": interrupted: the command was told to stop, and exited 0"}
	default:
		return &exit{status: own}
	}
	if own == 0 {
		own = exitNotDone
	}
	if by := said.Entry.Resolved; by != nil {
		return &exit{status: own, msg: fmt.Sprintf("%s: attempt %d ended after %s had settled the slot; that stands", r.name(),
			e.Number, by.By)}
	}
	return &exit{status: own, msg: fmt.Sprintf("%s: attempt %d ended after attempt %d had begun on %s; that one stands",
		r.name(), e.Number, said.Entry.Attempt, holderOf(said.Entry))}
}
