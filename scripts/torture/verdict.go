//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A verdict is what one scene has shown.
type verdict struct {
	scene      *plan
	violations []violation
	excused    map[string]int // invariant -> violations outside the promise
	figures    figures
}

// A violation is one broken invariant.
type violation struct{ invariant, text, story string }

// The invariants, and what is said of them.
var invariants = []struct{ name, what string }{
	{"I1", "fenced: the token never goes back, and has one run"},
	{"I2", "once: one effect per job and slot"},
	{"I3", "raw: no two attempts of a job at a time"},
	{"I4", "no write after the stop deadline and 0.1 s"},
	{"I5", "what ended is in the ledger, once, and as it ended"},
	{"I6", "the ledger's done has ended; uncertain has a reason"},
	{"I7", "no more starts than allowed, none beside a lease, none after done"},
	{"I8", "exit statuses say what happened"},
	{"I9", "every slot comes to its end once all is well"},
	{"I10", "nothing of a command two leases after its onceonly"},
	{"I11", "lease and token are linearizable"},
}

// verdict judges the scene.
func (s *scene) verdict() (*verdict, error) {
	v := &verdict{scene: s.plan, excused: map[string]int{}}
	conn, err := pgx.Connect(context.Background(), s.stage.judge.url())
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.Background())
	var all []*dossier
	if s.kind == sentinel && !slices.Contains(s.nemeses, "N6") && s.topology.moved() {
		s.stage.logf("s%d: the Sentinels made another master by themselves", s.number)
		s.lossy = true
	}
	for _, l := range s.lines {
		d, err := s.gather(conn, l)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
		d.judgeEffects(v)
		d.judgeEnds(v)
		d.judgeStarts(v)
		d.judgeSettled(v)
		if !s.lossy && !s.stepped && (s.kind == alone || s.kind == appended) {
			d.judgeHistory(v)
		}
	}
	s.judgeProcesses(v)
	v.figures = s.count(v.figures, all)
	told := map[string]int{}
	for _, x := range v.violations {
		if told[x.invariant]++; slices.Contains(s.expected, x.invariant) || told[x.invariant] > 2 {
			continue
		}
		s.stage.logf("s%d %s %s: %s: %s%s", s.number, s.title(), s.kind, x.invariant, x.text, x.story)
	}
	return v, nil
}

func (v *verdict) violated(invariant, format string, args ...any) {
	v.violations = append(v.violations, violation{invariant: invariant, text: fmt.Sprintf(format, args...)})
}

// because adds the story of some runs to the newest violation.
func (v *verdict) because(d *dossier, at boot, runs ...string) {
	v.violations[len(v.violations)-1].story = d.trace(at, runs...)
}

// found says whether one of the invariants is broken.
func (v *verdict) found(names ...string) bool {
	return slices.ContainsFunc(v.violations, func(x violation) bool { return slices.Contains(names, x.invariant) })
}
