//go:build linux

package main

import (
	"fmt"
	"time"
)

// Effects: what the judge's sinks show.

// judgeEffects checks I1 to I4.
func (d *dossier) judgeEffects(v *verdict) {
	d.judgeFence(v)
	for slot, n := range d.once {
		if n > 1 {
			v.violated("I2", "%s %s: %d effects", d.line.job, slot, n)
		}
	}
	d.judgeOverlap(v)
	for _, w := range d.works {
		d.judgeDeadline(v, w)
	}
}

// judgeFence is I1. Only a Redis that has lost its data and whose clock went back may break it.
func (d *dossier) judgeFence(v *verdict) {
	if d.lossy && d.stepped {
		return
	}
	newest, runs := int64(0), map[int64]string{}
	for _, row := range d.fenced {
		if row.token < newest {
			v.violated("I1", "%s: a write with token %d after one with %d", d.line.job, row.token, newest)
			return
		}
		if run, ok := runs[row.token]; ok && run != row.run {
			v.violated("I1", "%s: token %d has two runs, %.6s and %.6s", d.line.job, row.token, run, row.run)
			return
		}
		newest, runs[row.token] = row.token, row.run
	}
	d.judgeOrder(v)
	if !d.lossy {
		d.judgeTokens(v)
	}
}

// judgeTokens: an attempt that is granted twice, because it asked twice, has one token.
func (d *dossier) judgeTokens(v *verdict) {
	granted := map[string]*request{}
	for _, r := range d.requests {
		if r.kind != "begin" || r.verdict != "run" {
			continue
		}
		name := fmt.Sprint(r.run, r.try)
		if before := granted[name]; before != nil && before.token != r.token {
			v.violated("I1", "%s: %s of %.6s was begun twice, with tokens %d and %d", d.line.job, r.slot, r.run, before.token, r.token)
			v.because(d, r.executed, r.run)
			return
		}
		granted[name] = r
	}
}

// judgeOrder: a command that starts later has the greater token. Where Redis has lost the lock in between, one that was
// granted first may start last.
func (d *dossier) judgeOrder(v *verdict) {
	var before *work
	for _, w := range d.works {
		if w.life == nil || w.excused != "" {
			continue
		}
		if before != nil && w.token <= before.token && !(d.lossy && d.granted(w) < d.granted(before)) {
			v.violated("I1", "%s: %s attempt %d began after %s attempt %d, with a token that is not greater", d.line.job,
				w.slot, w.attempt, before.slot, before.attempt)
		}
		before = w
	}
}

// granted is when Redis executed an attempt's begin.
func (d *dossier) granted(w *work) boot {
	for _, r := range d.requests {
		if r.kind == "begin" && r.verdict == "run" && r.run == w.run && r.token == w.token {
			return r.executed
		}
	}
	return never
}

// judgeOverlap is I3. It needs a Redis that keeps what it has acknowledged, and its clock.
func (d *dossier) judgeOverlap(v *verdict) {
	for i, w := range d.works {
		for _, later := range d.works[i+1:] {
			if w.writes == 0 || later.writes == 0 || later.first > w.last {
				continue
			}
			by, guarded := min(w.last, later.last).sub(later.first), w.excused == "" && later.excused == ""
			switch {
			case d.lossy || d.stepped || !guarded:
				v.excused["I3"]++
				v.figures.overlap(by, guarded)
			case d.stalled(w):
				v.figures.stalled++
			default:
				v.figures.overlap(by, guarded)
				v.violated("I3", "%s: %s attempt %d (%s) and %s attempt %d (%s) wrote at once for %v", d.line.job, w.slot,
					w.attempt, w.who(), later.slot, later.attempt, later.who(), by.Round(time.Millisecond))
				v.because(d, later.first, w.run, later.run)
			}
		}
	}
}

const deadlineSlack = 100 * time.Millisecond

// judgeDeadline is I4.
func (d *dossier) judgeDeadline(v *verdict, w *work) {
	if w.deadline == 0 || w.last <= w.deadline.add(deadlineSlack) {
		return
	}
	switch {
	case w.excused != "":
		v.excused["I4"]++
		return
	case d.stalled(w):
		v.figures.stalled++
		return
	}
	v.violated("I4", "%s %s attempt %d (%s) wrote until %v after its deadline", d.line.job, w.slot, w.attempt, w.who(),
		w.last.sub(w.deadline).Round(time.Millisecond))
	v.because(d, w.deadline, w.run)
}

// who is host:pid of the onceonly above.
func (w *work) who() string {
	if w.ask == nil {
		return "unknown"
	}
	return w.ask.who()
}
