package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Signals to onceonly: which are passed on, to whom, and what that makes of the run.

var _ = caseHelper("case:signals", helpSignals)

var caseSignals = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGCONT, unix.SIGWINCH}

// helpSignals writes every signal that it gets into a file, and ends with the status that it finds in another.
func helpSignals(args []string) int {
	log, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 99
	}
	got := make(chan os.Signal, 100)
	signal.Notify(got, caseSignals...)
	fmt.Fprintln(log, "ready")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		select {
		case s := <-got:
			fmt.Fprintln(log, unix.SignalName(s.(syscall.Signal)))
		case <-time.After(5 * time.Millisecond):
			text, _ := os.ReadFile(args[1])
			if status, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				return status
			}
		}
	}
	return 99
}

// heeded are the signals that ask to stop, without those that these tests were started ignoring (nohup, a shell's &): they stay
// ignored.
func heeded() (all []syscall.Signal) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// A deploy sends TERM to onceonly alone. The command hears it once and finishes what it is at; the lease is held until
// then, its status is onceonly's, and only then another host has its turn. (SH-40)
func TestCaseTermIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, end := filepath.Join(dir, "log"), filepath.Join(dir, "end")
	command := []string{"sh", "-c", `
		[ $ONCEONLY_ATTEMPT = 2 ] && echo START 2 >>"$0" && exit
		trap 'echo TERM >>"$0"' TERM
		echo START 1 >>"$0"
		until [ -e "$1" ]; do sleep 0.02; done
		echo END 1 >>"$0"
		exit 7`, log, end}
	p := caseStart(t, newHost(t, "web-1").command(caseRun("etl", "--attempts 2", command...)...))
	eventually(t, "the command runs", hasLine(log, "START 1"))
	p.say(unix.SIGTERM)
	eventually(t, "the command hears TERM", hasLine(log, "TERM"))
	rival := newHost(t, "web-2")
	for range 3 {
		rival.run(caseRun("etl", "--attempts 2", command...)...).want(t, 0, "")
		if !isHeld(t, "etl") {
			t.Error("the lease is free, and the command runs")
		}
	}
	caseTouch(t, end, "")
	eventually(t, "the rival has its turn", func() bool {
		rival.run(caseRun("etl", "--attempts 2", command...)...).wantMatch(t, 0, "(onceonly: etl .*\n)?")
		return hasLine(log, "START 2")()
	})
	if r := p.wait(); r.status != 7 {
		t.Errorf("status %d, want the command's 7: %v", r.status, r)
	}
	if got, want := lines(log), []string{"START 1", "TERM", "END 1", "START 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	wantEntry(t, "etl", "done", 0, "", "")
}

// Every signal that is passed on reaches every process of the command's group once; a command that ends with 0 after USR1,
// USR2, CONT or WINCH has done its work. (SH-41)
func TestCaseSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	p, logs, end := startSignals(t, "ok")
	var sent []string
	for _, s := range []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGCONT, unix.SIGWINCH, unix.SIGUSR1} {
		sent = pass(t, p, s, sent, logs)
	}
	caseTouch(t, end, "0")
	p.wait().want(t, 0, "")
	wantEntry(t, "ok", "done", 0, "", "")
	for _, log := range logs {
		if got := lines(log)[1:]; !slices.Equal(got, sent) {
			t.Errorf("heard %q, sent %q", got, sent)
		}
	}
}

// startSignals starts a command of two processes that write down what they hear.
func startSignals(t *testing.T, job string) (p *caseProc, logs []string, end string) {
	t.Helper()
	dir := t.TempDir()
	logs, end = []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}, filepath.Join(dir, "end")
	p = caseStart(t, newHost(t, "web-1").command(caseRun(job, "--attempts 2", "sh", "-c",
		`"$0" case:signals "$1" "$3" & exec "$0" case:signals "$2" "$3"`, caseSelf(t), logs[0], logs[1], end)...))
	for _, log := range logs {
		eventually(t, "the command runs", hasLine(log, "ready"))
	}
	return p, logs, end
}

// pass sends a signal to onceonly and waits until both processes have heard it.
func pass(t *testing.T, p *caseProc, s syscall.Signal, sent, logs []string) []string {
	t.Helper()
	p.say(s)
	for _, log := range logs {
		eventually(t, unix.SignalName(s)+" is heard", func() bool { return len(lines(log)) > len(sent)+1 })
	}
	return append(sent, unix.SignalName(s))
}

// Told to stop, a command may end with its work half done and status 0: that is a failure, and onceonly's status is 75;
// any other status is the command's own. Either way this process tries no further attempt.
func TestCaseInterrupted(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
		for status, want := range map[int]int{0: 75, 7: 7} {
			job := fmt.Sprint(unix.SignalName(s), status)
			t.Run(job, func(t *testing.T) {
				t.Parallel()
				p, logs, end := startSignals(t, job)
				sent := pass(t, p, unix.SIGWINCH, nil, logs)
				sent = pass(t, p, s, sent, logs)
				if s == unix.SIGHUP || s == unix.SIGQUIT { // only INT and TERM mean more when they come again
					sent = pass(t, p, s, sent, logs)
				}
				caseTouch(t, end, strconv.Itoa(status))
				p.wait().wantMatch(t, want, "(onceonly: "+job+" "+caseDay+": .*\n)?")
				wantEntry(t, job, "failed", status, "", "interrupted")
				for _, log := range logs {
					if got := lines(log)[1:]; !slices.Equal(got, sent) {
						t.Errorf("heard %q, sent %q", got, sent)
					}
				}
			})
		}
	}
}

// A second INT or TERM means KILL, and that to the whole group.
func TestCaseSecondTermKills(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]syscall.Signal{{unix.SIGTERM, unix.SIGTERM}, {unix.SIGINT, unix.SIGINT}, {unix.SIGINT, unix.SIGTERM}} {
		job := unix.SignalName(pair[0]) + unix.SignalName(pair[1])
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			log, life := filepath.Join(t.TempDir(), "log"), newLifeline(t)
			p := caseStart(t, newHost(t, "web-1").command(caseRun(job, "", "sh", "-c", `exec 9>"$0" 2>/dev/null
				trap 'echo heard >>"$1"' INT TERM
				(trap '' INT TERM; while :; do sleep 0.02; done) &
				echo up >>"$1"
				while :; do sleep 0.02; done`, life.name, log)...))
			eventually(t, "the command runs", hasLine(log, "up"))
			p.say(pair[0])
			eventually(t, "the command hears the first", hasLine(log, "heard"))
			if !life.held() || !isHeld(t, job) {
				t.Error("the first signal was the end of it")
			}
			p.say(pair[1])
			p.wait().wantMatch(t, 137, "(onceonly: "+job+" "+caseDay+": .*\n)?")
			life.cut(t)
			wantEntry(t, job, "failed", -1, "KILL", "interrupted")
			if isHeld(t, job) {
				t.Error("the lease is still held")
			}
		})
	}
}

// Told to stop before the command begins, onceonly starts nothing and ends with 128+n.
func TestCaseToldBeforeTheCommand(t *testing.T) {
	t.Parallel()
	for s, status := range map[syscall.Signal]int{unix.SIGHUP: 129, unix.SIGINT: 130, unix.SIGTERM: 143} {
		job := unix.SignalName(s)
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, shared.address())
			p.swallow(true, true)
			ran := filepath.Join(t.TempDir(), "ran")
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
			proc := caseStart(t, h.command(caseRun(job, "", "touch", ran)...))
			eventually(t, "it asks", func() bool { return len(p.requests()) > 0 })
			asked := time.Now()
			proc.say(s)
			proc.wait().wantMatch(t, status, "(onceonly: "+job+" "+caseDay+": .*\n)?")
			if took := time.Since(asked); took > 10*time.Second {
				t.Errorf("ended %v after it was told to", took)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

// A signal that onceonly was started ignoring stays ignored: by it, and by the command. nohup is the known one.
// The Go runtime has taken all others but these for itself before the first line of ours, and forgotten what they were.
func TestCaseIgnoredStaysIgnored(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HUP", "INT", "TSTP"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log, end := filepath.Join(dir, "log"), filepath.Join(dir, "end")
			script := `grep SigIgn /proc/self/status >>"$0"; echo up >>"$0"; until [ -e "$1" ]; do sleep 0.02; done`
			start := func(words ...string) *caseProc {
				cmd := exec.Command("sh", append([]string{"-c", "trap '' " + name + `; exec "$@"`, "sh"}, words...)...)
				cmd.Env = newHost(t, "web-1").env
				return caseStart(t, cmd)
			}
			direct := filepath.Join(dir, "direct")
			start("sh", "-c", `grep SigIgn /proc/self/status >>"$0"`, direct).wait()
			p := start(append([]string{binary}, caseRun(name, "", "sh", "-c", script, log, end)...)...)
			eventually(t, "the command runs", hasLine(log, "up"))
			p.say(unix.SignalNum("SIG" + name))
			caseTouch(t, end, "")
			p.wait().want(t, 0, "")
			wantEntry(t, name, "done", 0, "", "")
			if got, want := lines(log)[0], lines(direct)[0]; got != want {
				t.Errorf("the command has %q, without onceonly it has %q", got, want)
			}
		})
	}
}

// TERM may come at any time: before the command, at its start, at its end. Whenever it comes, the lease is free afterwards,
// no attempt is left without its end, and status and ledger tell the same. (SH-40)
func TestCaseTermAtAnyTime(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	told := map[int]int{}
	began := time.Now()
	h.run(caseRun("whole", "", "sh", "-c", "read x </dev/null; exit 0")...).want(t, 0, "")
	whole := time.Since(began)
	for i := range 150 {
		job := fmt.Sprint("j", i)
		p := caseStart(t, h.command(caseRun(job, "", "sh", "-c", "read x </dev/null; exit 0")...))
		strikeAfter(whole * time.Duration(i) / 120) // of a whole run and a quarter more
		p.Process.Signal(unix.SIGTERM)
		r := p.wait()
		told[r.status]++
		e := &entry{State: "absent"}
		if text, _ := shared.rdb.HGet(context.Background(), namespaceOf(t)+":{"+job+"}:ledger", caseDay).Result(); text != "" {
			var err error
			if e, err = decode[entry](text); err != nil {
				t.Fatal(err)
			}
		}
		story := fmt.Sprintf("status %d; ledger: %s, signal %q, reason %q; lease held: %v", r.status, e.State, e.Signal, e.Reason, isHeld(t, job))
		switch {
		case isHeld(t, job):
			t.Errorf("%d: %s", i, story)
		case e.State == "done" && r.status == 0:
		case e.State == "failed" && e.Reason == "interrupted" && (r.status == 143 && e.Signal == "TERM" || r.status == 75 && e.Signal == ""):
		case (e.State == "absent" || e.Reason == "not_started") && r.status == 143:
		default:
			t.Errorf("%d: %s", i, story)
		}
	}
	t.Log("statuses and how often: ", told)
}
