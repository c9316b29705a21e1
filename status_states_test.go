package main

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Every state that a script or the program gives to a slot has its glyph, its letter in the help, and its word in the JSON.
func TestStates(t *testing.T) {
	t.Parallel()
	states := []string{"stale", "unstarted"} // of an attempt, never of a slot
	help := manualRead(t, "man/status.txt")
	for _, g := range glyphs {
		if g.state == "helped" { // a way to be done
			continue
		}
		states = append(states, g.state)
		if !regexp.MustCompile(`(?m)(?:^|\s)` + regexp.QuoteMeta(g.letter) + ` ` + g.state + `\b`).MatchString(help) {
			t.Errorf("man/status.txt, States: lacks %q, with the letter %q", g.state, g.letter)
		}
		if !statusForms["state"].MatchString(g.state) {
			t.Errorf("status_fields_test.go, statusForms: lacks the state %q", g.state)
		}
	}
	given := regexp.MustCompile(`(?i)\b(?:state(?:(?:, [\w.]+)* =|:) |history\()["'](\w+)["']`)
	scripts, _ := filepath.Glob("scripts/*.lua")
	for _, name := range slices.AppendSeq(scripts, maps.Keys(programFiles(t))) {
		for _, m := range given.FindAllStringSubmatch(manualRead(t, name), -1) {
			if !slices.Contains(states, m[1]) {
				t.Errorf("%s gives the state %q, which table.go, glyphs, lacks", name, m[1])
			}
		}
	}
}
