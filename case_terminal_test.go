//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The terminal is the command's while it runs, and the shell's before and after.

// A terminal is a session on a pseudo-terminal, and what it showed.
type terminal struct {
	*caseProc
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer
}

// openTerminal opens a pseudo-terminal; what is left on it at the test's end gets HUP.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	return master, slave
}

// newTerminal runs a shell line as the leader of a session on a terminal. $RUN is onceonly's words up to the job.
func newTerminal(t *testing.T, shell ...string) *terminal {
	t.Helper()
	master, slave := openTerminal(t)
	t.Cleanup(func() { slave.Close() }) // not before: with the last of its kind what was just written may be lost
	tty := &terminal{master: master}
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Env = append(newHost(t, "web-1").env, "RUN=onceonly run --date "+caseDay+" --job")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	tty.caseProc = caseStart(t, cmd)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.master.Read(buf)
			tty.mu.Lock()
			tty.shown.Write(buf[:n])
			tty.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return tty
}

func (tty *terminal) screen() string {
	tty.mu.Lock()
	defer tty.mu.Unlock()
	return tty.shown.String()
}

// expect waits until the terminal shows something.
func (tty *terminal) expect(what string) {
	tty.t.Helper()
	defer func() {
		if tty.t.Failed() {
			tty.t.Logf("the terminal shows %q", tty.screen())
		}
	}()
	eventually(tty.t, "the terminal shows "+what, func() bool { return strings.Contains(tty.screen(), what) })
}

func (tty *terminal) typed(keys string) { io.WriteString(tty.master, keys) }

// play types, and waits for what is shown then, by turns.
func (tty *terminal) play(steps ...string) {
	tty.t.Helper()
	for step := range slices.Chunk(steps, 2) {
		tty.typed(step[0])
		tty.expect(step[1])
	}
}

// At a terminal the command can read what is typed, and when it is over the shell can: also through an onceonly inside an
// onceonly, and when the command died. (SH-52)
func TestCaseTerminal(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"plain":  `$RUN a -- sh -c 'read x; echo got-$x'; echo status-$?; read y; echo back-$y`,
		"nested": `$RUN a -- $RUN b -- sh -c 'read x; echo got-$x'; echo status-$?; read y; echo back-$y`,
		"twice":  `$RUN a -- sh -c 'read x; echo got-$x'; $RUN b -- true; $RUN b -- true; echo status-$?; read y; echo back-$y`,
		"absent": `$RUN a -- /no/such/command; read x; echo got-$x; $RUN b -- true; echo status-$?; read y; echo back-$y`,
		"killed": `$RUN a -- sh -c 'read x; echo got-$x; kill -9 $$'; [ $? = 137 ]; echo status-$?; read y; echo back-$y`,
		"piped":  `echo one | $RUN a -- sh -c 'read x; echo got-$x'; echo status-$?; read z; read y; echo back-$y`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t, "sh", "-c", line)
			tty.play("one\n", "got-one", "", "status-0", "two\n", "back-two")
			tty.wait()
		})
	}
}

// ^C is the command's, not onceonly's: it ends as without it, and the shell goes on.
func TestCaseTerminalInterrupt(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t, "sh", "-c", `trap : INT; $RUN tty -- cat; echo status-$?; read y; echo back-$y`)
	tty.play("up\n", "up\r\nup", // the terminal's, and cat's
		"\x03", "status-130", "two\n", "back-two")
	tty.wait()
	if e := entryOf(t, "tty", caseDay); e.State != "failed" || e.Signal != "INT" || !e.ByHand {
		t.Errorf("entry %+v", e)
	}
}

// ^C, or ^\, that ends the command ends the script too, and no attempt follows, as a shell does where onceonly is not between.
func TestCaseTerminalScriptEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ shell, input, key, status string }{
		"sh":       {"sh", "", "\x03", "130"},
		"bash":     {"bash", "", "\x03", "130"},
		"quit":     {"sh", "", "\x1c", "131"},
		"no-input": {"bash", "</dev/null", "\x03", "130"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t, "sh", "-c", `trap : INT QUIT
				$0 -c "$RUN tty --attempts 2 --retry-delay 1h -- sh -c 'echo up; read x <\"\$0\"' $2 $1; echo it-goes-on"; echo status-$?; read y; echo back-$y`, c.shell, c.input, newFIFO(t))
			tty.play("", "up", c.key, "status-"+c.status, "two\n", "back-two")
			tty.wait()
			if strings.Contains(tty.screen(), "it-goes-on") {
				t.Errorf("the terminal shows %q", tty.screen())
			}
			if e := entryOf(t, "tty", caseDay); e.State != "failed" || e.Reason != "interrupted" || e.Signal == "" {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

// SH-42: one ^C, and one TERM to the whole group of onceonly as systemd sends it, are one signal to the command.
func TestCaseOneSignal(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]unix.Signal{"INT": unix.SIGINT, "TERM": unix.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log, end := filepath.Join(dir, "log"), filepath.Join(dir, "end")
			tty := newTerminal(t, "sh", "-c", `trap : INT TERM; $RUN "$0" -- "$@"; echo status-$?`, name,
				caseSelf(t), "case:signals", log, end)
			eventually(t, "the command runs", hasLine(log, "ready"))
			if s == unix.SIGINT {
				tty.typed("\x03")
			} else { // the shell has no job control: onceonly is in its group
				unix.Kill(-tty.Process.Pid, s)
			}
			eventually(t, "it is heard", hasLine(log, unix.SignalName(s)))
			unix.Kill(-tty.Process.Pid, unix.SIGWINCH) // onceonly passes on in order, and the kernel hands over the lower number first
			eventually(t, "what came after it is heard", hasLine(log, "SIGWINCH"))
			caseTouch(t, end, "5")
			tty.wait()
			if got := lines(log)[1:]; !slices.Equal(got, []string{unix.SignalName(s), "SIGWINCH"}) {
				t.Errorf("heard %q", got)
			}
			if e := entryOf(t, name, caseDay); e.State != "failed" || e.Exit == nil || *e.Exit != 5 {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

// In the background of a shell with job control nothing takes the terminal away from the shell: a command there would not
// have had it without onceonly either.
func TestCaseTerminalBackground(t *testing.T) {
	t.Parallel()
	end := filepath.Join(t.TempDir(), "end")
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty -- sh -c 'echo up; until [ -e "$0" ]; do sleep 0.02; done; echo down' "$0" &
		read y; echo back-$y; : >"$0"; wait; echo over`, end)
	tty.play("", "up", "two\n", "back-two", "", "over")
	tty.wait()
}
