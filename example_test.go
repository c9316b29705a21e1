package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
	writeProgram(r.t, filepath.Join(r.dir, name), text)
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
		if words := wordsOf(t, part); words[0] != "onceonly" {
			names = append(names, path.Base(words[0]))
		}
	}
	return names
}

// before sees to it that the job is done for which a command line waits.
func (r *recorder) before(line string) {
	r.t.Helper()
	if _, job, found := strings.Cut(line, "onceonly wait "); found {
		silent(r.t, line, r.host("web-9").run("run", "--job", wordsOf(r.t, job)[0], "--", "true"))
	}
}

// runCrontab runs a crontab line on two hosts. Its programs are called by one of them, and by the other only if a new
// slot has begun meanwhile; nobody prints a byte.
func runCrontab(t *testing.T, line string) {
	t.Helper()
	command, programs := crontabCommand(t, line), programsOf(t, line)
	r := newRecorder(t, programs...)
	slots := filepath.Join(r.dir, "slots")
	r.program(programs[0], strings.Replace(recorderProgram, "\n", "\necho \"$ONCEONLY_SLOT\" >>"+slots+"\n", 1))
	r.before(line)
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

// runByHand runs what is typed, each line in a namespace of its own, where the jobs of all of them have run before.
func runByHand(t *testing.T, shown []string) {
	t.Helper()
	r := newRecorder(t)
	for i, line := range shown {
		h, words := r.host("web-1", fmt.Sprintf("ONCEONLY_NAMESPACE=%s.%d", namespaceOf(t), i)), wordsOf(t, line)
		switch words[1] {
		case "run", "explain", "status":
			for _, other := range shown {
				if words := wordsOf(t, other); words[1] == "run" || words[1] == "explain" {
					for _, name := range programsOf(t, other) {
						r.program(name, recorderProgram)
						h.run("run", "--date", "2026-01-01", "--", filepath.Join(r.dir, name)).want(t, 0, "")
					}
				}
			}
		case "doctor":
		default:
			h.run("run", "--job", words[2], "--", "true").want(t, 0, "")
		}
		r.byHand(h, line, words)
	}
}

// untilDay is a day that is to come when the manual is written, and will have passed.
var untilDay = regexp.MustCompile(`--until \d{4}-\d\d-\d\d`)

// byHand runs one line that is typed.
func (r *recorder) byHand(h *host, line string, words []string) {
	t := r.t
	t.Helper()
	before := len(r.calls())
	line = untilDay.ReplaceAllString(line, "--until "+time.Now().AddDate(0, 0, 2).Format(time.DateOnly))
	got := h.shell(r.here(line))
	doctor := words[1] == "doctor" // which may find something here
	if (got.status != 0 && !doctor) || got.stderr != "" {
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
	case words[1] == "resolve" && !strings.Contains(h.run("status", words[2], "--date", words[slices.Index(words, "--date")+1]).stdout, "   done"),
		words[1] == "pause" && !strings.Contains(h.run("status", words[2], "--json").stdout, `"reason": "`),
		doctor && !strings.Contains(got.stdout, "\nok    rights "),
		words[1] == "explain" && !strings.Contains(got.stdout, ": would run, attempt 1 of "),
		words[1] == "status" && !strings.HasPrefix(got.stdout, map[bool]string{true: "HOST", false: words[2]}[slices.Contains(words, "--hosts")]+" "):
		t.Errorf("%s: %v", line, got)
	}
}
