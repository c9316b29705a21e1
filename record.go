package main

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"time"
)

// Writing down how an attempt ended, and with which status that leaves onceonly.

// record writes the end. The lease is kept if there may be another attempt.
func (r *run) record(w *watch, status syscall.WaitStatus, took time.Duration) (e *exit, again bool) {
	end := r.ending(w, status, took)
	own := statusOf(status)
	if w.why != "" || (own == 0 && end.State == "failed") {
		own = exitNotDone
	}
	receipt, err := r.write(end)
	if err != nil {
		return r.unrecorded(w, end, own, err), false
	}
	return r.close(w, end, receipt, own), end.Kept && receipt.Verdict != "stale"
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
	e.Kept = e.State == "failed" && r.mayRetry(w)
	return e
}

// write sends the end until it is written, or until the lease is over. The signals that ask to stop end it.
func (r *run) write(e end) (*receipt, error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), min(requestTimeout, max(r.lease.ends().until(), shortest)))
		receipt, err := r.lease.finish(ctx, e)
		cancel()
		if err == nil || r.lease.ends().past() {
			return receipt, err
		}
		// The place of the spool: from the first failure on, the end is on disk too.
		if r.rest(jitter(endPause)) != nil {
			return nil, err
		}
	}
}

// unrecorded is the exit where the ledger does not know the end.
func (r *run) unrecorded(w *watch, e end, own int, err error) *exit {
	if e.State == "done" {
		return &exit{status: exitUnrecorded, msg: fmt.Sprintf("%s: done, not recorded: %s", r.name(), cause(err))}
	}
	if w.why != "" {
		return &exit{status: own, msg: r.name() + ": " + w.stopped(r, nil)}
	}
	how := "exit " + e.Exit
	if e.Signal != "" {
		how = e.Signal
	}
	return &exit{status: own, msg: fmt.Sprintf("%s: %s, not recorded: %s", r.name(), how, cause(err))}
}

// close says what the ledger answered to an end that is written.
func (r *run) close(w *watch, e end, receipt *receipt, own int) *exit {
	if w.why != "" {
		return &exit{status: own, msg: r.name() + ": " + w.stopped(r, receipt.Entry)}
	}
	switch {
	case receipt.Verdict == "stale":
	case e.Reason == "interrupted" && e.Exit == "0":
		return &exit{status: own, msg: r.name() + ": interrupted: the command was told to stop, and exited 0"}
	default:
		return &exit{status: own}
	}
	if own == 0 {
		own = exitNotDone
	}
	return &exit{status: own, msg: fmt.Sprintf("%s: attempt %d ended after attempt %d had begun on %s; that one stands",
		r.name(), e.Number, receipt.Entry.Attempt, holderOf(receipt.Entry))}
}
