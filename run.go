package main

import (
	"context"
	"fmt"
	"os"
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

const endPause = time.Second // between two tries to write an end

// A run is one call that may run the command.
type run struct {
	*call
	voice   *voice
	signals chan os.Signal
	lease   *lease
	reply   *reply // begin's, with the verdict run
	listed  bool   // the job is in the list of jobs
}

// execute runs the command if its slot is to be run here.
func (c *call) execute(v *voice) *exit {
	r := &run{call: c, voice: v, signals: listen()}
	for {
		if e := r.begin(); e != nil {
			return e
		}
		switch r.reply.Verdict {
		case "run":
			return r.attempt()
		case "lost", "ended": // begun by a question whose answer came too late: under a new run ID it is asked afresh
			r.unstarted(0)
		default:
			return c.refuse(r.reply)
		}
	}
}

// attempt starts the command, keeps the lease while it runs, and writes how it ended.
func (r *run) attempt() *exit {
	r.began(r.voice, r.reply)
	r.list()
	select {
	case s := <-r.signals:
		if e := stoppedBy(s); e != nil {
			r.unstarted(0)
			return e
		}
	default:
	}
	argv, environ := r.prepare(os.Environ())
	started := bootNow()
	child, err := startChild(argv, environ)
	if err != nil {
		return r.notStarted(err)
	}
	w := r.watch(child)
	status := child.reap(w.why != "")
	return r.record(w, status, time.Duration(bootNow()-started))
}

// list puts the job into the list of jobs, if no run before has left a mark that it is there. The mark is set by finish,
// so that one without the other is made good by the next run.
func (r *run) list() {
	if r.reply.Listed == "" {
		r.listed = r.ledger.list(context.Background(), r.command.job) == nil
	}
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
		"ONCEONLY_FIRST_SLOT=" + values["slot"], "ONCEONLY_LAST_SLOT=" + values["slot"]}
	inherited := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return slices.ContainsFunc(own, func(o string) bool {
			return strings.HasPrefix(v, o[:strings.IndexByte(o, '=')+1])
		})
	})
	return argv, append(inherited, own...)
}

// question is what begin is asked.
func (c *call) question() question {
	return question{attempt: attempt{Try: 1}, asker: c.asker, terms: c.terms(), Slot: c.slot.name,
		Begins: millis(c.slot.begins), Overlap: "wait", Minute: c.minute, Dated: c.date != ""}
}

// terms are the line, as the ledger keeps it.
func (c *call) terms() terms {
	t := terms{Every: c.every, Schedule: c.schedule, DayStart: "00:00", Attempts: c.attempts,
		Lease: c.settings.lease.Milliseconds(), Keep: 400, Zone: c.line.zone.String(), Offsets: c.line.offsets(time.Now()),
		ZoneFrom: "default", Args: c.command.argsHash(), Line: c.command.lineHash()}
	switch {
	case c.date != "":
		t.ZoneFrom = "date"
	case c.from["tz"] != "":
		t.ZoneFrom = "explicit"
	}
	return t
}

// end is an end of this attempt, but for how it ended.
func (r *run) end() end {
	e := end{attempt: attempt{Try: 1}, asker: r.asker, terms: r.terms(), Slot: r.slot.name, Begins: millis(r.slot.begins),
		Listed: r.listed, Channel: r.ledger.channel(r.command.job)}
	if r.reply != nil {
		e.Number, e.Token, e.Began = r.reply.Attempt, r.reply.Token, r.reply.Time
	}
	return e
}

// record writes how the attempt ended, and says with which status that leaves onceonly.
func (r *run) record(w *watch, status syscall.WaitStatus, took time.Duration) *exit {
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
	own := statusOf(status)
	if w.why != "" || (own == 0 && e.State == "failed") {
		own = exitNotDone
	}
	receipt, err := r.write(e)
	if err != nil {
		return r.unrecorded(e, own, err)
	}
	return r.close(w, e, receipt, own)
}

// write sends the end until it is written, or until the lease is over. The signals that ask to stop end it.
func (r *run) write(e end) (*receipt, error) {
	for {
		receipt, err := r.lease.finish(context.Background(), e)
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
func (r *run) unrecorded(e end, own int, err error) *exit {
	if e.State == "done" {
		return &exit{status: exitUnrecorded, msg: fmt.Sprintf("%s: done, not recorded: %s", r.name(), cause(err))}
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
	if receipt.Verdict != "stale" {
		return &exit{status: own}
	}
	if own == 0 {
		own = exitNotDone
	}
	return &exit{status: own, msg: fmt.Sprintf("%s: attempt %d ended after attempt %d had begun on %s; that one stands",
		r.name(), e.Number, receipt.Entry.Attempt, holderOf(receipt.Entry))}
}
