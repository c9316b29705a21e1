//go:build linux

package main

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Figures are what was counted in scenes of one nemesis, or pair.
type figures struct {
	scenes     int
	asks       int // onceonly processes
	runs       int // commands started
	writes     int // of theirs
	faulted    int // of these, while something was wrong
	slots      int
	uncertain  int
	refused    int // stale writes that the fence did not take
	stale      int // ends that came after another attempt
	falseStops int // stopped, though nothing was wrong for two leases
	stalled    int // violations and stops that came of this machine standing still
	linear     int // questions in histories found linearizable
	undecided  int
	inTime     int // slots that were done before anybody asked for them again
	overlaps   []time.Duration
	unguarded  []time.Duration // of these, those of a command that had no guard awake
	takeovers  []time.Duration
	delays     []time.Duration // from a command's end to that in the ledger
	hits       map[string]int  // step -> kills
	acts       map[string]int  // nemesis -> faults that took effect
}

// overlap counts a time in which two attempts of a job wrote.
func (f *figures) overlap(d time.Duration, guarded bool) {
	f.overlaps = append(f.overlaps, d)
	if !guarded {
		f.unguarded = append(f.unguarded, d)
	}
}

// count fills in what the dossiers show; what the invariants counted is kept.
func (s *scene) count(v figures, all []*dossier) figures {
	f := v
	f.scenes, f.asks, f.hits, f.acts = 1, len(s.history.asks), map[string]int{}, maps.Clone(s.history.acts)
	for _, k := range s.history.kills {
		a := s.history.byPID[k.wrapper]
		if k.hit && (k.target == "guard" || k.target == "command" || a != nil && a.status == 137) && s.really(k) {
			f.hits[k.step]++
			f.acts["N1"]++
		}
	}
	for _, a := range s.history.asks {
		if a.old {
			f.acts["N11"]++
		}
	}
	maps.DeleteFunc(f.acts, func(nemesis string, _ int) bool { return !slices.Contains(s.nemeses, nemesis) }) // what looked like one
	for _, d := range all {
		d.count(&f)
	}
	for _, a := range s.history.asks {
		if strings.Contains(a.text, "stopped: ") && !strings.Contains(a.text, "--timeout") &&
			!s.history.faulted(a.host, a.ended-boot(2*s.lease(a.job)), a.ended) && !s.touched(a.pid) {
			if s.history.stood(a.ended-boot(2*s.lease(a.job)), a.ended) {
				f.stalled++
				continue
			}
			f.falseStops++
			if len(s.expected) > 0 {
				continue
			}
			s.stage.logf("s%d: %s stopped for nothing: %s%s", s.number, a.who(), a.text, s.history.before(a.host, a.ended))
		}
	}
	return f
}

// really says whether a step that cannot be held was the one that was hit.
func (s *scene) really(k *kill) bool {
	begun := slices.ContainsFunc(s.history.requests, func(r *request) bool { return r.pid == k.wrapper && r.kind == "begin" })
	started := slices.ContainsFunc(s.history.order, func(l *life) bool { return l.run == k.run })
	switch k.step {
	case stepSpawned:
		return !begun
	case stepAnswered:
		return !started
	}
	return true
}

// touched says whether a process, or what is below it, was killed or frozen.
func (s *scene) touched(wrapper int) bool {
	return slices.ContainsFunc(s.history.kills, func(k *kill) bool { return k.wrapper == wrapper }) ||
		slices.ContainsFunc(s.history.freezes, func(z *freeze) bool { return z.wrapper == wrapper })
}

func (d *dossier) count(f *figures) {
	for _, e := range d.entries {
		f.slots++
		if e.State == "running" {
			f.uncertain++
		}
		if w := d.byToken[e.Token]; e.State == "done" && w != nil && w.ask != nil && !w.ask.last {
			f.inTime++
		}
		f.stale += e.Stale
	}
	for i, w := range d.works {
		f.refused += w.refused
		f.writes += w.writes
		if w.life == nil {
			continue
		}
		f.runs++
		for _, r := range d.requests {
			if r.kind == "finish" && r.run == w.run && r.token == w.token && r.verdict != "" && w.life.exits != never {
				f.delays = append(f.delays, r.executed.sub(w.life.exits))
				break
			}
		}
		end := min(w.life.exits, max(w.last, w.life.began))
		if d.touched(w.life.wrapper) || d.history.faulted(w.life.host, w.life.began, end) {
			f.faulted++
		}
		if d.line.standby && w.ask != nil && w.ask.dead() {
			next := slices.IndexFunc(d.works[i+1:], func(n *work) bool { return n.slot == w.slot && n.ask != nil })
			if next >= 0 && d.works[i+1+next].ask != w.ask && !d.works[i+1+next].ask.last {
				f.takeovers = append(f.takeovers, d.works[i+1+next].sign().sub(w.ask.killed))
			}
		}
	}
}

// add sums up.
func (f *figures) add(g figures) {
	f.scenes += g.scenes
	f.asks += g.asks
	f.runs += g.runs
	f.writes += g.writes
	f.faulted += g.faulted
	f.slots += g.slots
	f.uncertain += g.uncertain
	f.refused += g.refused
	f.stale += g.stale
	f.falseStops += g.falseStops
	f.stalled += g.stalled
	f.linear += g.linear
	f.undecided += g.undecided
	f.overlaps = append(f.overlaps, g.overlaps...)
	f.unguarded = append(f.unguarded, g.unguarded...)
	f.takeovers = append(f.takeovers, g.takeovers...)
	f.inTime += g.inTime
	f.delays = append(f.delays, g.delays...)
	if f.hits == nil {
		f.hits = map[string]int{}
	}
	for step, n := range g.hits {
		f.hits[step] += n
	}
	if f.acts == nil {
		f.acts = map[string]int{}
	}
	for nemesis, n := range g.acts {
		f.acts[nemesis] += n
	}
}

// quantile of durations, 0 if there are none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
