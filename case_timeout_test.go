//go:build !race

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Users' cases of --timeout and --kill-after.

func timeoutLine(job, limit string) string {
	return "onceonly: " + job + " " + caseDay + ": stopped: longer than --timeout " + limit + "\n"
}

// SH-14: a command that hangs is stopped by --timeout: TERM, 124, one line, not done, the lease free at once. Without, the
// status shows who holds it, and since when.
func TestCaseTimeout(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	h := newHost(t, "web-1")
	p := caseStart(t, h.command(caseRun("hung", "--timeout 2s", beating(t, log, "20ms", "15s")...)...))
	other := caseStart(t, h.command(caseRun("open", "", "sleep", "15")...))
	p.wait().want(t, 124, timeoutLine("hung", "2s"))
	if isHeld(t, "hung") {
		t.Error("the lease is still held")
	}
	wantEntry(t, "hung", "failed", 3, "", "timeout")
	all := beatsOf(log)
	if got := beatWords(log); !slices.Equal(got, []string{"web-1 begin", "web-1 term"}) {
		t.Errorf("%q", got)
	}
	if ran := time.Duration(all[len(all)-1].at - all[0].at); ran < 1700*time.Millisecond || ran > 2700*time.Millisecond {
		t.Errorf("TERM after %v", ran)
	}
	r := h.run("status", "open", "--json")
	if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "web-1") || !strings.Contains(r.stdout, fmt.Sprint(other.Process.Pid)) {
		t.Errorf("status: %v", r)
	}
	if r := h.run("status", "open"); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "running") || !strings.Contains(r.stdout, "web-1") {
		t.Errorf("status: %v", r)
	}
	other.say(unix.SIGTERM)
	other.wait()
	h.run(caseRun("short", "--timeout 300ms", "sleep", "15")...).want(t, 124, timeoutLine("short", "300ms"))
}

// A time-out is a failure like another: with attempts left the same process tries again, each attempt with the whole time;
// a command that ends by itself in time is not touched.
func TestCaseTimeoutPerAttempt(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	h := newHost(t, "web-1")
	r := h.run(caseRun("j", "--timeout 1s --attempts 2 --retry-delay 100ms", under(beating(t, log, "20ms", "15s"))...)...)
	if r.status != 124 || strings.Count(r.stderr, timeoutLine("j", "1s")) != 2 {
		t.Errorf("got %v", r)
	}
	if e := entryOf(t, "j", caseDay); e.State != "failed" || e.Attempt != 2 || e.Reason != "timeout" || e.Kept {
		t.Errorf("entry %+v", e)
	}
	if isHeld(t, "j") {
		t.Error("the lease is still held")
	}
	h.run(caseRun("short", "--timeout 5s", "true")...).want(t, 0, "")
	h.run(caseRun("own", "--timeout 5s", "sh", "-c", "exit 124")...).want(t, 124, "")
	wantEntry(t, "own", "failed", 124, "", "")
}

// SH-44: a command that ignores TERM is killed --kill-after later, and the lease is not given back before it is dead: the
// successor begins after.
func TestCaseDeafToTerm(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	a := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--timeout 1s --kill-after 2s --attempts 1", beating(t, log, "5ms", "15s", "deaf")...)...))
	group := groupOf(t, log, "web-1")
	b := caseStart(t, newHost(t, "web-2").command(caseRun("j", "--attempts 2 --standby", beating(t, log, "5ms", "50ms")...)...))
	eventually(t, "the successor begins", beats(log, "web-2"))
	if left := aliveIn(group); len(left) > 0 {
		t.Errorf("alive when the successor began: %v", left)
	}
	a.wait().want(t, 124, timeoutLine("j", "1s"))
	if r := b.wait(); r.status != 0 {
		t.Errorf("the successor: %v", r)
	}
	all := beatsBy(log, "web-1")
	if ran := time.Duration(all[len(all)-1].at - all[0].at); ran < 2500*time.Millisecond || ran > 3500*time.Millisecond {
		t.Errorf("killed after %v, want 3s", ran)
	}
	if margin := handover(t, log, "web-1", "web-2"); margin <= 0 {
		t.Errorf("two ran together for %v", -margin)
	}
}

// The time from TERM to KILL is the command's also where a shell stands above it, which TERM ends at once: what cleans up
// has the time to do so.
func TestCaseGraceBelowAShell(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"timeout", "term"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			log, options := filepath.Join(t.TempDir(), "log"), "--kill-after 5s"
			if end == "timeout" {
				options += " --timeout 1s"
			}
			p := caseStart(t, newHost(t, "web-1").command(caseRun("j", options, "sh", "-c",
				`(trap 'sleep 0.5; echo clean >>"$0"; exit' TERM; echo up >>"$0"; while :; do sleep 0.05; done); true`, log)...))
			eventually(t, "it begins", hasLine(log, "up"))
			if end == "term" {
				p.say(unix.SIGTERM)
			}
			p.wait()
			if got := lines(log); !slices.Equal(got, []string{"up", "clean"}) {
				t.Errorf("%q: killed within its grace", got)
			}
		})
	}
}
