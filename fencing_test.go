package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every recipe of onceonly-fencing(7) is taken from the page and run against the real thing: by one writer as it stands,
// then by two of which one is stale, and wakes at every point where waking could do harm. The same test shows that the
// wrong form of the recipe lets the stale one through.
//
//	old:  ... step ─ ─ ─ ─ ─ ─ step ...      frozen at each of its steps in turn
//	new:           all of it                  begins meanwhile, and may have to wait for the old one

// raceRounds is how often the two meet, for each recipe.
var raceRounds = map[bool]int{false: 200, true: 10_000}[long]

// roundsOf are fewer for a wrong form, whose every few rounds go wrong.
func roundsOf(wrong bool) int {
	if wrong {
		return min(raceRounds, 60)
	}
	return raceRounds
}

// fencingTexts are what each display of the page is found by.
var fencingTexts = map[string]*regexp.Regexp{
	"tables":     regexp.MustCompile(`^CREATE TABLE onceonly_fence \(\n  resource text PRIMARY`),
	"values":     regexp.MustCompile(`^#!/bin/sh\nexec psql .*-v job=`),
	"first":      regexp.MustCompile(`^BEGIN;\nSET LOCAL lock_timeout .*;\nINSERT INTO onceonly_fence`),
	"share":      regexp.MustCompile(`^BEGIN;\nSELECT 1 AS mine FROM onceonly_fence`),
	"once":       regexp.MustCompile(`^BEGIN;\nWITH new AS`),
	"line":       regexp.MustCompile(`^0 2 \* \* \*  onceonly run --pg -- `),
	"unchanged":  regexp.MustCompile(`^#!/bin/sh\nexec psql -X -q -v ON_ERROR_STOP=1 -f /srv/report.sql$`),
	"trigger":    regexp.MustCompile(`^CREATE FUNCTION onceonly_guard`),
	"by hand":    regexp.MustCompile(`^BEGIN;\nALTER TABLE report DISABLE TRIGGER`),
	"table":      regexp.MustCompile(`^CREATE TABLE onceonly_fence \(\n  resource TEXT PRIMARY`),
	"sqlite":     regexp.MustCompile(`^#!/bin/sh\nexec sqlite3 `),
	"publish":    regexp.MustCompile(`^#!/bin/sh\nset -eu\ndir=`),
	"idempotent": regexp.MustCompile(`^#!/bin/sh\nset -eu\ncurl `),
	"pointer":    regexp.MustCompile(`^#!/bin/sh\nset -eu\nurl=`),
}

// fencingWords are literal texts of the page within a sentence, which are words of the displays or of a server.
var fencingWords = []string{`\gset`, "FOR KEY SHARE", "ON_ERROR_STOP", "onceonly_fence", "stale_token", "If-None-Match: *",
	"idle_in_transaction_session_timeout"}

// TestFencingTexts wants each text of the page to be one that a test runs, and each of those on the page once.
func TestFencingTexts(t *testing.T) {
	found := map[string]int{}
	for _, text := range manualTexts(t, fencingFile) {
		known := slices.Contains(fencingWords, text)
		for name, begins := range fencingTexts {
			if begins.MatchString(text) {
				found[name]++
				known = true
			}
		}
		if !known {
			t.Errorf("no test runs this text of the page: %q", text)
		}
	}
	for name := range fencingTexts {
		if found[name] != 1 {
			t.Errorf("%d texts of the page are %q", found[name], name)
		}
	}
}

// fencingText is a display of the page.
func fencingText(t *testing.T, name string) string {
	t.Helper()
	for _, text := range manualTexts(t, fencingFile) {
		if fencingTexts[name].MatchString(text) {
			return text + "\n"
		}
	}
	t.Fatalf("the page has no text %q", name)
	return ""
}

// changed is a text with one thing replaced, which must be there.
func changed(t *testing.T, text, from, to string) string {
	t.Helper()
	if strings.Count(text, from) != 1 {
		t.Fatalf("%q is %d times in %q", from, strings.Count(text, from), text)
	}
	return strings.Replace(text, from, to, 1)
}

// A writer is a run as its command sees it.
type writer struct {
	token int
	run   string
}

// env is what onceonly gives it.
func (w writer) env() []string {
	return []string{"ONCEONLY_JOB=report", "ONCEONLY_SLOT=2026-11-29", "ONCEONLY_BUSINESS_DATE=2026-11-29", "ONCEONLY_KEY=report/2026-11-29",
		"ONCEONLY_FENCING_TOKEN=" + strconv.Itoa(w.token), "ONCEONLY_RUN_ID=" + w.run}
}

// meet are the writers of round i: the old one and the new one.
func meet(i int) (older, newer writer) {
	const first = 1795885200000
	return writer{first + 2*i, "0123456789abcdef0123456789abcde0"}, writer{first + 2*i + 1, "0123456789abcdef0123456789abcde1"}
}

// newScript writes a program of the page into a folder, with the places that it names replaced.
func newScript(t *testing.T, dir, name, text string, places ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	writeProgram(t, path, strings.NewReplacer(places...).Replace(text))
	return path
}

// A publishing is a script of the page at work.
type publishing struct {
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan struct{}
}

func publish(t *testing.T, cmd *exec.Cmd, env []string) *publishing {
	t.Helper()
	p := &publishing{cmd: cmd, ended: make(chan struct{})}
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &p.said, &p.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(p.ended)
	}()
	return p
}

func (p *publishing) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// status waits for the end.
func (p *publishing) status() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// want fails the test unless the script ended so: 1 is that it was stale, and said so.
func (p *publishing) want(t *testing.T, status int) {
	t.Helper()
	if got := p.status(); got != status || strings.Contains(p.said.String(), "stale token") != (status == 1) {
		t.Errorf("status %d, want %d: %s", got, status, p.said.String())
	}
}
