package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// The command's end, and onceonly's exit status after it.

// Each exit status of a command is onceonly's and the ledger's; only 0 settles the day. (SH-36)
func TestCaseExitStatus(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for n := range 256 {
		job := fmt.Sprint("exit", n)
		h.run(caseRun(job, "", "sh", "-c", "exit "+strconv.Itoa(n))...).want(t, n, "")
		state := "failed"
		if n == 0 {
			state = "done"
		}
		wantEntry(t, job, state, n, "", "")
	}
}

// A command that a signal killed ends with 128+n, as for a shell, and the ledger names the signal. (SH-37)
func TestCaseKilledBySignal(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for name, status := range map[string]int{"HUP": 129, "INT": 130, "QUIT": 131, "KILL": 137, "USR1": 138, "SEGV": 139,
		"PIPE": 141, "ALRM": 142, "TERM": 143} {
		cmd := h.command(caseRun(name, "", "sh", "-c", "ulimit -c 0; kill -"+name+" $$; sleep 20")...)
		p := caseStart(t, cmd)
		p.wait().want(t, status, "")
		wantEntry(t, name, "failed", -1, name, "")
		if isHeld(t, name) {
			t.Errorf("%s: the lease is still held", name)
		}
	}
}

// A command that cannot be started: 127 if it is not there, 126 if it cannot be executed, one line says why. The day is
// not done, the lease is free at once, and no attempt is used up, so the next host that asks has it. (SH-38)
func TestCaseCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	caseTouch(t, path("no-x"), "#!/bin/sh\n")
	caseTouch(t, path("no-interpreter"), "#!/no/such/interpreter\n")
	caseTouch(t, path("text"), "echo no shell guesses\n")
	for _, name := range []string{"no-interpreter", "text"} {
		if err := os.Chmod(path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job, command string
		status       string
		why          string
	}{
		{"absent", path("absent"), "127", "no such file or directory"},
		{"bare", "no-such-command-of-ours", "127", ".*not found.*|no such file or directory"},
		{"no-x", path("no-x"), "126", "permission denied"},
		{"no-interpreter", path("no-interpreter"), "12[67]", ".*no such file or directory.*"},
		{"folder", path("folder"), "126", "is a directory|permission denied"},
		{"text", path("text"), "126", "exec format error.*"},
	} {
		for _, attempts := range []string{"1", "2"} {
			job := c.job + attempts
			r := newHost(t, "web-1").run(caseRun(job, "--attempts "+attempts, c.command, "x")...)
			if !regexp.MustCompile("^" + c.status + "$").MatchString(strconv.Itoa(r.status)) {
				t.Errorf("%s: status %d, want %s", job, r.status, c.status)
			}
			r.wantMatch(t, r.status, "onceonly: "+job+" "+caseDay+": "+regexp.QuoteMeta(c.command)+": (?:"+c.why+")\n")
			if e := entryOf(t, job, caseDay); e.State == "done" || e.State == "running" || e.Reason != "not_started" {
				t.Errorf("%s: entry %s, reason %q", job, e.State, e.Reason)
			}
			if isHeld(t, job) {
				t.Errorf("%s: the lease is still held", job)
			}
		}
	}
}

// The next host that asks runs what the first could not start, also with one attempt; and it is attempt 1, for a command
// that never began used none up. A real failure after it does. (SH-38)
func TestCaseCannotStartUsesNoAttempt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, log := filepath.Join(dir, "report"), filepath.Join(dir, "log")
	for _, host := range []string{"web-1", "web-2", "web-1"} {
		if r := newHost(t, host).run(caseRun("report", "", script)...); r.status != 127 {
			t.Errorf("%s: %v", host, r)
		}
	}
	writeProgram(t, script, "#!/bin/sh\necho $ONCEONLY_ATTEMPT >>"+log+"\nexit 3\n")
	newHost(t, "web-3").run(caseRun("report", "", script)...).want(t, 3, "")
	if got := newHost(t, "web-1").run(caseRun("report", "", script)...); got.status != 75 {
		t.Errorf("after a real failure: %v", got)
	}
	if got := lines(log); !slices.Equal(got, []string{"1"}) {
		t.Errorf("attempts that began: %q, want one, numbered 1", got)
	}
}

// Who branches on "somebody else did it" chooses the status; what is no status is refused. (SH-39)
func TestCaseSkipStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	up, end := filepath.Join(dir, "up"), filepath.Join(dir, "end")
	h, other := newHost(t, "web-1"), newHost(t, "web-2")
	command := []string{"sh", "-c", `: >"$0"; until [ -e "$1" ]; do sleep 0.02; done`, up, end}
	p := caseStart(t, h.command(caseRun("j", "", command...)...))
	eventually(t, "the command runs", func() bool { _, err := os.Stat(up); return err == nil })
	for _, n := range []int{0, 1, 75, 255} {
		other.run(caseRun("j", fmt.Sprint("--exit-done 7 --exit-busy ", n), command...)...).want(t, n, "")
	}
	caseTouch(t, end, "")
	p.wait().want(t, 0, "")
	for _, n := range []int{0, 1, 75, 255} {
		other.run(caseRun("j", fmt.Sprint("--exit-busy 7 --exit-done ", n), command...)...).want(t, n, "")
	}
	for _, option := range []string{"--exit-busy", "--exit-done", "--exit-failed"} {
		for _, bad := range []string{"256", "-1", "600", "abc", "1.5", "0x4b", " 1"} {
			r := other.run(slices.Insert(caseRun("j", "", command...), 1, option+"="+bad)...)
			r.wantMatch(t, 64, "onceonly: "+option+` "`+bad+"\": .+\n(onceonly: hint: .+\n)?")
		}
	}
}

// Started with CHLD ignored, as some supervisors do, onceonly still learns its command's status. (SH-36)
func TestCaseChildIgnored(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", append([]string{"-c", `trap '' CHLD; exec "$@"`, "sh", binary}, caseRun("j", "", "sh", "-c", "exit 7")...)...)
	cmd.Env = newHost(t, "web-1").env
	caseStart(t, cmd).wait().want(t, 7, "")
	wantEntry(t, "j", "failed", 7, "", "")
}

// What a command leaves running in the background is its own affair: onceonly does not wait for it, and does not end it.
func TestCaseBackgroundIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir, life := t.TempDir(), newLifeline(t)
	end := filepath.Join(dir, "end")
	p := caseStart(t, newHost(t, "web-1").command(caseRun("daemon", "", "sh", "-c",
		`(exec 9>"$0"; n=0; until [ -e "$1" ] || [ $n = 1000 ]; do sleep 0.02; n=$((n+1)); done) &`, life.name, end)...))
	p.wait().want(t, 0, "")
	if !life.held() {
		t.Error("what ran in the background is dead")
	}
	if isHeld(t, "daemon") {
		t.Error("the lease is still held")
	}
	caseTouch(t, end, "")
	life.cut(t)
}
