package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
)

// The examples of README.md, of the manual and of the help are run as their reader would run them: by a shell, with the
// real onceonly and a real Redis. Only the programs that they name are others: recorders, which keep what they were given.

// A recorder is a folder of programs that write down how they are called, and end with $RECORDED_STATUS.
type recorder struct {
	t   *testing.T
	dir string
}

const recorderProgram = `#!/bin/sh
said=${0##*/}
for word; do said="$said <$word>"; done
echo "$said" >>"${0%/*}/calls"
exit "${RECORDED_STATUS:-0}"
`

func newRecorder(t *testing.T, programs ...string) *recorder {
	t.Helper()
	r := &recorder{t, t.TempDir()}
	for _, name := range programs {
		r.program(name, recorderProgram)
	}
	return r
}

func (r *recorder) program(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// calls are the programs' calls so far: psql <-f> <range.sql>.
func (r *recorder) calls() []string { return lines(filepath.Join(r.dir, "calls")) }

// host has the recorder's programs before all others.
func (r *recorder) host(name string, env ...string) *host {
	h := newHost(r.t, name)
	h.env = append(h.env, "PATH="+r.dir+":"+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	h.env = append(h.env, env...)
	return h
}

// here is a command line in which the places of an example are the recorder's folder.
func (r *recorder) here(line string) string {
	return strings.NewReplacer("/usr/bin/", r.dir+"/", "/srv/", r.dir+"/", "/srv", r.dir).Replace(line)
}

// shell runs what a user types, or cron starts.
func (h *host) shell(line string) result {
	h.t.Helper()
	var out, err strings.Builder
	cmd := exec.Command("sh", "-c", line)
	cmd.Env, cmd.Stdout, cmd.Stderr = slices.Clone(h.env), &out, &err
	return result{exitStatus(h.t, cmd.Run()), out.String(), err.String()}
}

// wordsOf splits what a user types, up to an operator of the shell or a comment.
func wordsOf(t *testing.T, line string) []string {
	t.Helper()
	p := shellwords.NewParser()
	p.ParseComment = true
	words, err := p.Parse(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return words
}

// commandOf is what a command line of onceonly's is to start.
func commandOf(t *testing.T, line string) []string {
	t.Helper()
	_, line, _ = strings.Cut(" "+line, " onceonly ")
	words := wordsOf(t, line)
	at := slices.Index(words, "--")
	if at < 0 || at == len(words)-1 {
		t.Fatalf("no -- and command: %q", line)
	}
	return words[at+1:]
}

// programsOf are the names of the programs that a command line of onceonly's is to start, in their order.
func programsOf(t *testing.T, line string) []string {
	t.Helper()
	command := commandOf(t, line)
	if command[0] != "sh" {
		return []string{path.Base(command[0])}
	}
	var names []string
	for part := range strings.SplitSeq(command[2], "&&") {
		names = append(names, path.Base(wordsOf(t, part)[0]))
	}
	return names
}

// runCrontab runs a crontab line on two hosts. Its programs are called by one of them, and by the other only if a new
// slot has begun meanwhile; nobody prints a byte.
func runCrontab(t *testing.T, line string) {
	t.Helper()
	command, programs := crontabCommand(t, line), programsOf(t, line)
	r := newRecorder(t, programs...)
	slots := filepath.Join(r.dir, "slots")
	r.program(programs[0], strings.Replace(recorderProgram, "\n", "\necho \"$ONCEONLY_SLOT\" >>"+slots+"\n", 1))
	for _, web := range []string{"web-1", "web-2"} {
		silent(t, line, r.host(web).shell(r.here(command)))
	}
	ran := lines(slots)
	if n := len(ran); n == 0 || n == 2 && ran[0] == ran[1] {
		t.Fatalf("%q ran for %q", line, ran)
	}
	for i, call := range r.calls() {
		if name, _, _ := strings.Cut(call, " "); name != programs[i%len(programs)] || strings.Contains(call, "{") {
			t.Errorf("%q called %q, want %q", line, r.calls(), programs)
		}
	}
	if len(r.calls()) != len(ran)*len(programs) {
		t.Errorf("%q called %q, want %q", line, r.calls(), programs)
	}
}

// crontabCommand is the command of a crontab line. Cron must take its fields, and not take a '%' for its end; a --schedule
// says what the fields say.
func crontabCommand(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 6 {
		t.Fatalf("not five fields and a command: %q", line)
	}
	fields := strings.Join(words[:5], " ")
	if _, err := parseSchedule(fields); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	command := line
	for _, field := range words[:5] {
		command = strings.TrimLeft(strings.TrimPrefix(command, field), " \t")
	}
	if strings.Contains(strings.ReplaceAll(command, `\%`, ""), "%") {
		t.Errorf("%q: cron ends the command at %%", line)
	}
	if all := wordsOf(t, strings.ReplaceAll(command, "&&", " ")); slices.Contains(all, "--schedule") &&
		all[slices.Index(all, "--schedule")+1] != fields {
		t.Errorf("%q: --schedule says otherwise than the line", line)
	}
	return command
}

// runByHand runs what is typed, one line after the other, where each job that a line starts has run before.
func runByHand(t *testing.T, shown []string) {
	t.Helper()
	r := newRecorder(t)
	h := r.host("web-1")
	for _, line := range shown {
		if words := wordsOf(t, line); words[1] == "status" {
			continue
		}
		for _, name := range programsOf(t, line) {
			r.program(name, recorderProgram)
			silent(t, name, h.run("run", "--date", "2026-01-01", "--", filepath.Join(r.dir, name)))
		}
	}
	for _, line := range shown {
		before := len(r.calls())
		got, words := h.shell(r.here(line)), wordsOf(t, line)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%s: %v", line, got)
		}
		called := r.calls()[before:]
		switch {
		case words[1] == "run":
			if want := programsOf(t, line); got.stdout != "" || !slices.Equal(called, want) {
				t.Errorf("%s: called %q, want %q; %v", line, called, want, got)
			}
		case len(called) > 0:
			t.Errorf("%s: called %q", line, called)
		case words[1] == "explain" && !strings.Contains(got.stdout, ": would run, attempt 1 of "),
			words[1] == "status" && !strings.HasPrefix(got.stdout, words[2]+" "):
			t.Errorf("%s: %v", line, got)
		}
	}
}
