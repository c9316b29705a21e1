//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

// The controls: onceonly with one guard taken out. A torture that does not catch each of them proves nothing.

// A control is what is taken out, which nemeses bring it to light, and which invariants must then be broken.
type control struct {
	name    string
	edits   []edit
	loose   bool // the judge's fence is what is taken out
	mood    string
	nemeses []string
	shows   []string
}

var controls = []control{
	{"no ownership check", []edit{{"scripts/begin.lua", "local mine = string.sub(held, 1, 32) == q.run_id or", "local mine = true or"}},
		false, "", []string{"N1"}, []string{"I1", "I3", "I7", "I11"}},
	{"no list of ended attempts", []edit{{"scripts/entry.lua", "for k, a in ipairs(e.earlier or {}) do\n    if", "for k, a in ipairs({}) do\n    if"}},
		false, tedious, []string{"N2", "N3"}, []string{"I1", "I5", "I6", "I7"}},
	{"token apart from the lease", []edit{
		{"lock.go", "q.RunID, q.Now = s.runID, millis(s.wall())",
			"q.RunID, q.Now = s.runID, millis(s.wall())\n\tapart, _ := s.ledger.Incr(ctx, s.ledger.keys(s.job)[1]).Result()"},
		{"lock.go", "if err == nil && r.Verdict == \"run\" {", "if err == nil && r.Verdict == \"run\" {\n\t\tr.Token = apart"}},
		false, brisk, []string{"N4"}, []string{"I1"}},
	{"no guard process", []edit{{"guard.go", "= time.Second // a command that ends sooner", "= time.Hour // a command that ends sooner"}},
		false, tedious, []string{"N2"}, []string{"I3", "I4", "I10"}},
	{"deadline at 1.2 of the lease", []edit{{"lock.go", "s.ends().add(-s.ttl / killMargin)", "s.ends().add(s.ttl / 5)"}},
		false, tedious, []string{"N3"}, []string{"I3", "I4"}},
	{"release before finish", []edit{{"lock.go", "s.step.compose(releaseLua, finishLua, e)",
		"s.ledger.Del(ctx, s.ledger.keys(s.job)[0])\n\ts.step.compose(releaseLua, finishLua, e)"}},
		false, quarrelsome, []string{"N1", "N4"}, []string{"I7", "I11"}},
	{"fence checked, then written", nil, true, tedious, []string{"N2"}, []string{"I1"}},
}

const controlScene = 8 * time.Second

// build makes the control's program.
func (c control) build(t *torture) (err error) {
	program := t.program
	if len(c.edits) > 0 {
		program, err = buildEdited(t.root, t.stage.dir, strings.ReplaceAll(c.name, " ", "-"), c.edits)
	}
	t.weak[c.name] = program
	return err
}

// tryControl plays scenes with the control until it is caught.
func (t *torture) tryControl(c control, allowed time.Duration) (string, error) {
	began := time.Now()
	for scenes := 1; ; scenes++ {
		v, err := t.playOne(&plan{kind: alone, nemeses: c.nemeses, lasts: controlScene, program: t.weak[c.name], loose: c.loose,
			mood: c.mood, expected: c.shows})
		if err != nil {
			return "", err
		}
		if v.found(c.shows...) {
			return fmt.Sprintf("caught in %v by %s, overlaps %s", time.Since(began).Round(time.Second), broken(v),
				spread(v.figures.overlaps)), nil
		}
		if time.Since(began) > allowed {
			return "", fmt.Errorf("control %q not caught in %d scenes, %v", c.name, scenes, time.Since(began).Round(time.Second))
		}
	}
}

// broken names the invariants that a scene broke.
func broken(v *verdict) string {
	var names []string
	for _, i := range invariants {
		if v.found(i.name) {
			names = append(names, i.name)
		}
	}
	return strings.Join(names, " ")
}
