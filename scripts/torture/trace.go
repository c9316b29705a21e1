//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// trace tells the story of a violation: what was asked about some runs, and what was done to their host, in seconds
// before or after an instant.
func (d *dossier) trace(at boot, runs ...string) string {
	type moment struct {
		at   boot
		text string
	}
	var all []moment
	say := func(t boot, format string, args ...any) {
		if t != never && t.sub(at).Abs() < 15*time.Second {
			all = append(all, moment{t, fmt.Sprintf(format, args...)})
		}
	}
	for _, r := range d.requests {
		if slices.Contains(runs, r.run) {
			say(r.received, "%.6s %s asks %s %s %s try %d", r.run, r.host, r.kind, r.slot, r.state, r.try)
			say(r.executed, "%.6s %s %s: %s %s token %d, received %v", r.run, r.host, r.kind, r.verdict, r.failed, r.token,
				r.received.sub(at).Round(time.Millisecond))
			say(r.delivered, "%.6s %s %s delivered", r.run, r.host, r.kind)
		}
	}
	for _, w := range d.works {
		if slices.Contains(runs, w.run) {
			say(w.sign(), "%.6s starts, attempt %d, %s", w.run, w.attempt, w.who())
			say(w.first, "%.6s writes first", w.run)
			say(w.last, "%.6s writes last", w.run)
			say(w.deadline, "%.6s deadline", w.run)
			if w.ask != nil {
				say(w.ask.ended, "%.6s onceonly left with %d: %s", w.run, w.ask.status, strings.TrimSpace(w.ask.text))
			}
		}
	}
	for _, k := range d.history.kills {
		if slices.Contains(runs, k.run) {
			say(k.at, "%.6s kill -9 of %s, hit %t, at %q", k.run, k.target, k.hit, k.step)
		}
	}
	for _, f := range d.history.faults {
		say(f.begin, "fault %s %s begins", f.what, f.host)
		say(f.end, "fault %s %s ends", f.what, f.host)
	}
	for _, x := range d.history.stalls {
		if x.late > d.line.lease/40 {
			say(x.at, "stall of %v", x.late.Round(time.Millisecond))
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "\n\t%8.3f %s", m.at.sub(at).Seconds(), m.text)
	}
	return b.String()
}

// asked tells who asked for a slot, and how each left.
func (d *dossier) asked(slot string) string {
	var b strings.Builder
	for _, a := range d.history.asks {
		if a.job == d.line.job && a.slot == slot {
			fmt.Fprintf(&b, "\n\tasked by %s for %v, last %t, killed %t: %d %s", a.who(), a.ended.sub(a.began).Round(time.Millisecond),
				a.last, a.dead(), a.status, strings.TrimSpace(a.text))
		}
	}
	return b.String()
}
