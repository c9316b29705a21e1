//go:build linux

package main

import (
	"slices"
	"strings"
	"time"
)

// The ledger: what it says of every attempt, and that it says enough.

// judgeEnds is I5, and I6's first half: an end that was reached is in the ledger, once, and as it was.
func (d *dossier) judgeEnds(v *verdict) {
	told := map[int64][]event{}
	for _, e := range d.events {
		if e.state != "unstarted" && (e.what == "end" || e.what == "stale" || e.what == "late") {
			told[e.token] = append(told[e.token], e)
		}
	}
	for _, w := range d.works {
		if n := len(told[w.token]); n > 1 && !d.lossy {
			v.violated("I5", "%s %s attempt %d: its end was written %d times: %v", w.job, w.slot, w.attempt, n, told[w.token])
			v.because(d, w.sign(), w.run)
		}
		for _, e := range told[w.token] {
			if e.state == "done" && (w.ended == never || w.status != 0) {
				v.violated("I6", "%s %s attempt %d is done in the log, and never came to its end", w.job, w.slot, w.attempt)
			}
		}
		if len(told[w.token]) == 0 && !d.lossy && d.mustReport(w) {
			v.violated("I5", "%s %s attempt %d (%s) ended, and the ledger does not know", w.job, w.slot, w.attempt, w.who())
			v.because(d, w.sign(), w.run)
		}
	}
	for slot, e := range d.entries {
		if e.State == "done" {
			if w := d.byToken[e.Token]; w == nil || w.ended == never || w.life == nil || w.life.status != 0 {
				v.violated("I6", "%s %s is done by token %d, and that never came to its end", d.line.job, slot, e.Token)
			}
		}
	}
}

// mustReport says whether an attempt's onceonly lived to write its end, or to keep it.
func (d *dossier) mustReport(w *work) bool {
	return w.ask != nil && w.ask.ended != never && !w.ask.dead() && !d.roomless(w.ask)
}

// dead says whether onceonly was killed.
func (a *ask) dead() bool { return a.killed != 0 && a.status == 137 }

// judgeStarts is I7. The ledger holds it, whatever Redis's clock does; only that no lease is granted beside another needs the
// clock.
func (d *dossier) judgeStarts(v *verdict) {
	if d.lossy {
		return
	}
	starts := map[string]int{}
	for _, w := range d.works {
		if w.life != nil {
			starts[w.slot]++
		}
	}
	for slot, n := range starts {
		if n > d.line.attempts {
			v.violated("I7", "%s %s: %d starts, %d allowed", d.line.job, slot, n, d.line.attempts)
		}
	}
	d.judgeGrants(v)
}

// judgeGrants: no lease is granted while another may last by the clock, and no slot that is done.
func (d *dossier) judgeGrants(v *verdict) {
	var holder *request // the newest grant
	until := boot(0)    // how long it lasts at least, if it is not given back
	finished := map[string]*request{}
	for _, r := range d.requests {
		switch {
		case r.kind == "begin" && r.verdict == "run":
			if holder != nil && holder.run != r.run && r.executed < until && !d.stepped && !d.gaveBack(holder, r.executed) {
				v.violated("I7", "%s: %s begun by %.6s %v before the lease of %.6s was over", d.line.job, r.slot, r.run,
					until.sub(r.executed).Round(time.Millisecond), holder.run)
				v.because(d, r.executed, r.run, holder.run)
			}
			if f := finished[r.slot]; f != nil && f.executed < r.received {
				v.violated("I7", "%s: %s begun again, and was done", d.line.job, r.slot)
				v.because(d, r.executed, r.run, f.run)
			}
			holder, until = r, r.received.add(d.line.lease-leaseGrain)
		case holder != nil && r.run == holder.run && r.extends():
			until = max(until, r.received.add(d.line.lease-leaseGrain))
		}
		if r.kind == "finish" && r.state == "done" && r.verdict == "ok" {
			finished[r.slot] = r
		}
	}
}

// leaseGrain: Redis counts in milliseconds, from its own reading of the clock at the beginning of a command.
const leaseGrain = 3 * time.Millisecond

// gaveBack says whether the run of a grant may have given its lease back by then: with an end, or with a question for
// another attempt that was not granted, or of which nobody knows.
func (d *dossier) gaveBack(grant *request, by boot) bool {
	return slices.ContainsFunc(d.requests, func(r *request) bool {
		return r.run == grant.run && r.received >= grant.received && r.received <= by &&
			(r.kind == "finish" && !r.kept || (r.kind == "begin" || r.kind == "regain") && !r.extends())
	})
}

// judgeSettled is I9, and I6's second half: after all, every slot is done, failed, or uncertain with a reason.
func (d *dossier) judgeSettled(v *verdict) {
	for _, slot := range d.slots(d.line.job) {
		e, before := d.entries[slot], len(v.violations)
		switch {
		case e == nil || !slices.Contains([]string{"done", "failed", "running"}, e.State):
			v.violated("I9", "%s %s was asked for again, and is %s", d.line.job, slot, stateOf(e))
		case e.State != "done" && e.Attempt < d.line.attempts:
			v.violated("I9", "%s %s is %s in attempt %d of %d, and was not tried again", d.line.job, slot, e.State, e.Attempt,
				d.line.attempts)
		case e.State == "running" && !d.lossy && !d.reason(e):
			v.violated("I6", "%s %s is uncertain, and its onceonly (%s:%d) was not killed", d.line.job, slot, e.Host, e.PID)
		}
		if len(v.violations) > before {
			v.violations[before].story = d.asked(slot)
			if e != nil {
				v.violations[before].story += d.trace(boot(0).add(d.sawLast(e.RunID)), e.RunID)
			}
		}
	}
}

// sawLast is when a run was last heard of.
func (d *dossier) sawLast(run string) (last time.Duration) {
	for _, r := range d.requests {
		if r.run == run {
			last = max(last, time.Duration(r.received))
		}
	}
	return last
}

func stateOf(e *entry) string {
	if e == nil {
		return "not in the ledger"
	}
	return e.State
}

// reason says whether there is one for an attempt's never having reported: its onceonly was killed, or had nowhere to
// keep the end.
func (d *dossier) reason(e *entry) bool {
	a := d.history.byPID[e.PID]
	if a == nil || a.job != d.line.job {
		return false
	}
	return a.dead() || d.roomless(a)
}

// roomless says whether an onceonly may have had no room to keep an end.
func (d *dossier) roomless(a *ask) bool {
	if strings.Contains(a.text, "nor kept") {
		return true
	}
	return d.full && a.ended != never && slices.ContainsFunc(d.history.faults, func(f *fault) bool {
		return f.what == "state directory full" && f.host == a.host && f.begin <= a.ended && f.end >= a.began
	})
}
