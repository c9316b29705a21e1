//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What the terminal has stopped, with ^Z or because it was in the background, goes on when the shell says so.
//
// No command here starts others meanwhile: where ^Z stops a process between vfork and exec, its parent is never told to be
// stopped, with onceonly or without it.

// ^Z stops the command and onceonly with it, so that the shell has its terminal; fg gives it back, and both go on. The lease
// runs on meanwhile.
func TestCaseTerminalSuspended(t *testing.T) {
	t.Parallel()
	for k := range rounds(8, 50) { // whether onceonly stands still before it goes on is a matter of threads
		job := fmt.Sprint("tty", k)
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t, "sh", "-c", `set -m
				$RUN $0 -- sh -c 'read x; echo got-$x; read y; echo got-$y'; echo stopped-$?
				read z; echo shell-$z; fg; echo status-$?; read w; echo back-$w`, job)
			tty.play("one\n", "got-one", "\x1a", "stopped-1")
			if !isHeld(t, job) {
				t.Error("the lease is free, and the command may go on")
			}
			tty.play("two\n", "shell-two", "three\n", "got-three", "", "status-0", "four\n", "back-four")
			tty.wait()
			wantEntry(t, job, "done", 0, "", "")
		})
	}
}

// What was stopped and goes on in the background leaves the terminal to the shell when it ends.
func TestCaseTerminalLeftAlone(t *testing.T) {
	t.Parallel()
	end := newFIFO(t)
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty -- sh -c 'read x; echo got-$x; read end <"$0"; echo down' "$0"
		echo stopped-$?; bg; read y; echo back-$y; echo >"$0"; wait; echo over; read z; echo still-$z`, end)
	tty.play("one\n", "got-one", "\x1a", "stopped-1", "two\n", "back-two", "", "over", "three\n", "still-three")
	tty.wait()
	wantEntry(t, "tty", "done", 0, "", "")
}

// What was stopped, goes on in the background and asks for the terminal there is stopped once more; fg gives it what it asks for.
func TestCaseTerminalAskedForInBackground(t *testing.T) {
	t.Parallel()
	for k := range rounds(8, 50) {
		job := fmt.Sprint("tty", k)
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t, "sh", "-c", `set -m
				$RUN $0 -- sed -u s/^/got-/; echo stopped-$?; bg
				until jobs >"$1" && grep -q Stopped "$1"; do sleep 0.02; done
				echo again; fg; echo status-$?; read y; echo back-$y`, job, filepath.Join(t.TempDir(), "jobs"))
			tty.play("one\n", "got-one", "\x1a", "stopped-1", "", "again", "two\n", "got-two", "\x04", "status-0", "three\n", "back-three")
			tty.wait()
			wantEntry(t, job, "done", 0, "", "")
		})
	}
}

// ^Z stops a whole pipeline at once, each time, and fg brings all of it back.
func TestCaseTerminalPipeline(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty -- sh -c 'read x; echo got-$x >&2; read y; echo got-$y >&2; read z; echo out-$z' | (cat; echo cat-over)
		echo stopped-$?; read s; echo shell-$s; fg; echo again-$?; read s; echo shell-$s; fg; echo status-$?`)
	tty.play("one\n", "got-one", "\x1a", "stopped-1", "two\n", "shell-two", "three\n", "got-three",
		"\x1a", "again-1", "four\n", "shell-four", "five\n", "out-five", "", "cat-over", "", "status-0")
	tty.wait()
}

// A command in the background that wants the terminal is stopped, and onceonly with it; brought to the foreground it has
// the terminal.
func TestCaseTerminalAskedFor(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty -- sh -c 'echo up; read x; echo got-$x' &
		until jobs >"$0" && grep -q Stopped "$0"; do sleep 0.02; done
		echo stopped; fg; echo status-$?; read y; echo back-$y`, filepath.Join(t.TempDir(), "jobs"))
	tty.play("", "up", "", "stopped", "one\n", "got-one", "", "status-0", "two\n", "back-two")
	tty.wait()
	wantEntry(t, "tty", "done", 0, "", "")
}

// A command that asks on the terminal, though its standard input is none, as for a password, gets what is typed, also through
// an onceonly inside an onceonly.
func TestCaseTerminalAskedInPipeline(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]string{"plain": "$RUN tty", "nested": "$RUN around -- $RUN tty"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t, "sh", "-c", `set -m
				echo sql | `+run+` -- sh -c 'read x; read y </dev/tty; echo got-$x-$y'; echo status-$?; read z; echo back-$z`)
			tty.play("secret\n", "got-sql-secret", "", "status-0", "two\n", "back-two")
			tty.wait()
			wantEntry(t, "tty", "done", 0, "", "")
		})
	}
}

// A pager behind the command has the keys.
func TestCaseTerminalPager(t *testing.T) {
	t.Parallel()
	end := newFIFO(t)
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty -- sh -c 'echo first; read end <"$0"; echo out' "$0" | (
			read first; read x </dev/tty; echo key-$x; echo >"$0"; cat)
		echo status-$?; read z; echo back-$z`, end)
	tty.play("one\n", "key-one", "", "out", "", "status-0", "two\n", "back-two")
	tty.wait()
	wantEntry(t, "tty", "done", 0, "", "")
}

// ^Z stops a command whose standard input is no terminal, and onceonly with it, each time; fg brings both back.
func TestCaseTerminalWithoutInput(t *testing.T) {
	t.Parallel()
	begun, end := filepath.Join(t.TempDir(), "begun"), newFIFO(t)
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty -- sh -c 'echo $$ >"$0"; read end <"$1"; echo down' "$0" "$1" </dev/null; echo stopped-$?
		read s; echo shell-$s; fg; echo again-$?; read s; echo shell-$s; fg; echo status-$?`, begun, end)
	eventually(t, "it begins", func() bool { return len(lines(begun)) > 0 })
	pid, _ := strconv.Atoi(lines(begun)[0])
	for k, said := range []string{"stopped-1", "again-1"} {
		tty.typed("\x1a")
		tty.expect(said)
		if !isStopped(pid) {
			t.Error("the command goes on")
		}
		tty.typed(fmt.Sprintln(k))
		tty.expect(fmt.Sprint("shell-", k))
		eventually(t, "the command goes on", func() bool { return !isStopped(pid) })
	}
	caseTouch(t, end, "\n")
	tty.play("", "down", "", "status-0")
	tty.wait()
	wantEntry(t, "tty", "done", 0, "", "")
}

// Who stops a command that is not at the terminal, by hand and from elsewhere, stops it alone; the lease is kept.
func TestCaseStoppedByHand(t *testing.T) {
	t.Parallel()
	begun, end := filepath.Join(t.TempDir(), "begun"), newFIFO(t)
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty --lease 2s -- sh -c 'echo $$ >"$0"; read end <"$1"; echo down' "$0" "$1" </dev/null; echo status-$?`, begun, end)
	eventually(t, "it begins", func() bool { return len(lines(begun)) > 0 })
	pid, _ := strconv.Atoi(lines(begun)[0])
	unix.Kill(-pid, unix.SIGSTOP)
	eventually(t, "the command is stopped", func() bool { return isStopped(pid) })
	_, _, left := lockOf(t, "tty")
	eventually(t, "its lease is renewed", func() bool { _, _, now := lockOf(t, "tty"); defer func() { left = now }(); return now > left })
	unix.Kill(-pid, unix.SIGCONT)
	caseTouch(t, end, "\n")
	tty.play("", "down", "", "status-0")
	tty.wait()
	wantEntry(t, "tty", "done", 0, "", "")
}

// Where nobody could let it go on, as below ssh -t, ^Z does nothing, as without onceonly.
func TestCaseTerminalOrphaned(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t, "sh", "-c", `exec $RUN tty -- sh -c 'read x; echo got-$x; read y; echo got-$y'`)
	tty.play("one\n", "got-one", "\x1a", "^Z", "two\n", "got-two")
	tty.wait().want(t, 0, "")
	wantEntry(t, "tty", "done", 0, "", "")
}

// A second attempt ignores no signal that the first did not.
func TestCaseTerminalSecondAttempt(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t, "sh", "-c", `$RUN tty --attempts 2 --retry-delay 100ms -- sh -c 'grep SigIgn: /proc/self/status; exit 1'; echo status-$?`)
	tty.expect("status-1")
	tty.wait()
	ignored := regexp.MustCompile("SigIgn:[^\r]+").FindAllString(tty.screen(), -1)
	if len(ignored) != 2 || ignored[0] != ignored[1] {
		t.Errorf("ignored %q", ignored)
	}
}

// A stopped command hears that it is to end, as it does without onceonly when its terminal is closed.
func TestCaseStoppedIsToldToEnd(t *testing.T) {
	t.Parallel()
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGTERM} {
		job := unix.SignalName(s)
		p := caseStart(t, newHost(t, "web-1").command(caseRun(job, "", "sh", "-c", "kill -STOP $$; sleep 60")...))
		eventually(t, "the command is stopped", func() bool {
			for _, pid := range childrenOf(p.Process.Pid) {
				if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(text), ") T ") {
					return true
				}
			}
			return false
		})
		p.Process.Signal(s)
		p.wait().wantMatch(t, 128+int(s), "(?s).*")
	}
}
