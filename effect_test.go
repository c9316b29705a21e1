package main

import (
	"fmt"
	"strings"
	"testing"
)

// A command whose effects can be read afterwards: two runs at a time, or tokens that do not rise, are seen there.

// effects is a command that writes to a file when it starts and when it ends, and does something in between.
func effects(log, between string) []string {
	return []string{"--", "sh", "-c", `echo "START $ONCEONLY_SLOT $ONCEONLY_FENCING_TOKEN $ONCEONLY_ATTEMPT $$" >>"$0"
` + between + `
echo "END $ONCEONLY_SLOT $ONCEONLY_FENCING_TOKEN" >>"$0"`, log}
}

// An effect is a START in the log.
type effect struct {
	slot    string
	token   int64
	attempt int
	pid     int
}

// readEffects reads the log, and fails the test if two runs overlap or tokens do not rise. A run that was killed has no
// END; then its process must be gone before the next START, which is for the test to see.
func readEffects(t *testing.T, log string, killed bool) []effect {
	t.Helper()
	var all []effect
	open := false
	for _, l := range lines(log) {
		if strings.HasPrefix(l, "END ") {
			open = false
			continue
		}
		var e effect
		if _, err := fmt.Sscanf(l, "START %s %d %d %d", &e.slot, &e.token, &e.attempt, &e.pid); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if open && !killed {
			t.Errorf("%s started before the run before it had ended: %q", e.slot, lines(log))
		}
		if n := len(all); n > 0 && e.token <= all[n-1].token {
			t.Errorf("token %d came after %d", e.token, all[n-1].token)
		}
		open, all = true, append(all, e)
	}
	return all
}

// started is whether a run of the slot has started, by the log.
func started(log string) func() bool { return func() bool { return len(lines(log)) > 0 } }
