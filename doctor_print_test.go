//go:build !race

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What doctor prints: for programs, and on a terminal.

// SH-63: for programs: valid JSON with stable names; unknown options and files that are not there are usage errors.
func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), `cron "tab" 한국`)
	os.WriteFile(file, []byte("*/5 * * * * onceonly run --job 'a \"b\" 청구' -- true\n"), 0o644)
	r := newRedis(t)
	got := doctorOf(t, r.url(), file, "--json")
	var doc struct {
		Version, Host      string
		AsOf               time.Time `json:"as_of"`
		Failures, Warnings int
		Findings           []finding
		NotRead            []unread `json:"not_read"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.status != 1 || doc.Host != "web-1" || doc.NotRead == nil {
		t.Fatalf("%v: %v", err, got)
	}
	at := slices.IndexFunc(doc.Findings, func(f finding) bool { return f.Line == 1 })
	want := finding{Level: "FAIL", Subject: "line 1", File: file, Line: 1, Job: `a "b" 청구`, Fields: "*/5 * * * *", Every: "day",
		Text: "only the first of a day would run", Hint: "add --schedule '*/5 * * * *'"}
	if at < 0 || doc.Findings[at] != want || doc.Failures != 1 {
		t.Errorf("%+v", doc)
	}
	h := newHost(t, "web-1")
	h.run("doctor", "--bogus").want(t, 64, "onceonly: no option --bogus\nonceonly: hint: onceonly doctor --help\n")
	h.run("doctor", "/no/such/file").want(t, 64, "onceonly: doctor: /no/such/file: no such file or directory\n")
	h.run("doctor", "--namespace", "").want(t, 64, "onceonly: --namespace \"\": empty\n")
	if r := h.run("doctor", "--help"); r.status != 0 || r.stdout != doctorText {
		t.Errorf("%v", r)
	}
	cmd := h.command("doctor", "--offline")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	cmd.Stdout = full
	if got := exitStatus(t, cmd.Run()); got != 74 {
		t.Errorf("status %d where nothing can be written", got)
	}
}

// Only FAIL is in colour, and only on a terminal.
func TestDoctorColour(t *testing.T) {
	t.Parallel()
	d := &doctor{settings: initial()}
	d.remark(failure, "memory", "x", "FAIL")
	d.remark(warning, "disk", "y", "")
	out := d.table(screen{columns: 80, terminal: true, colour: true})
	if !strings.Contains(out, "\x1b[31mFAIL\x1b[0m  memory   x\n               hint: FAIL\nwarn  disk     y\n") || strings.Count(out, "\x1b") != 2 {
		t.Errorf("%q", out)
	}
	if out := d.table(screen{columns: 80}); strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
}
