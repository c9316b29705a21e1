package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The case_*_test.go hold what happened to real users; the numbers are those of the collection of cases. Here: a case's
// command line, and what is wanted of its end.

// long is whether to run the numbers that users gave, where fewer serve by default.
var long = os.Getenv("ONCEONLY_TEST_LONG") != ""

// rounds are few by default, many where they are to be long.
func rounds(few, many int) int {
	if long {
		return many
	}
	return few
}

// caseDay is the slot of tests that need no particular one: no midnight falls into a test.
const caseDay = "2024-02-29"

// caseRun is a command line of run, for caseDay.
func caseRun(job, options string, command ...string) []string {
	return slices.Concat([]string{"run", "--job", job, "--date", caseDay}, strings.Fields(options), []string{"--"}, command)
}

// wantMatch fails the test if a process did not leave this status, and on stderr what the pattern says, all of it.
func (r result) wantMatch(t *testing.T, status int, pattern string) {
	t.Helper()
	if r.status != status || !regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(r.stderr) {
		t.Errorf("got %v\nwant status %d, stderr like %q", r, status, pattern)
	}
}

// wantEntry fails the test if the ledger does not say this of caseDay.
func wantEntry(t *testing.T, job, state string, exit int, signal, reason string) {
	t.Helper()
	e := entryOf(t, job, caseDay)
	got := -1
	if e.Exit != nil {
		got = *e.Exit
	}
	if e.State != state || got != exit || e.Signal != signal || e.Reason != reason {
		t.Errorf("entry of %s: %s, exit %d, signal %q, reason %q; want %s, exit %d, signal %q, reason %q", job, e.State, got,
			e.Signal, e.Reason, state, exit, signal, reason)
	}
}

// wantOut fails the test if a process did not end with 0 and exactly this on stdout, and nothing on stderr.
func (r result) wantOut(t *testing.T, stdout string) {
	t.Helper()
	if r.status != 0 || r.stdout != stdout || r.stderr != "" {
		t.Errorf("got %v\nwant status 0, stdout %q", r, stdout)
	}
}

// wantLike fails the test if a process did not leave this status, nothing on stdout, and such a text on stderr.
func (r result) wantLike(t *testing.T, status int, stderr string) {
	t.Helper()
	if r.status != status || r.stdout != "" || !regexp.MustCompile(`^(?s:`+stderr+`)$`).MatchString(r.stderr) {
		t.Errorf("got %v\nwant status %d, stderr like %q", r, status, stderr)
	}
}

// silent fails the test unless an onceonly that had nothing to do ended with 0 and without a byte.
func silent(t *testing.T, what string, r result) {
	t.Helper()
	if r.status != 0 || r.stdout != "" || r.stderr != "" {
		t.Errorf("%s: got %v\nwant status 0 and not a byte", what, r)
	}
}
