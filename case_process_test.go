package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The case_*_test.go hold what happened to real users; the numbers are those of the collection of cases. Here: the
// command's end, signals, and what a command inherits.

// caseDay is the slot of tests that need no particular one: no midnight falls into a test.
const caseDay = "2024-02-29"

// caseRun is a command line of run, for caseDay.
func caseRun(job, options string, command ...string) []string {
	return slices.Concat([]string{"run", "--job", job, "--date", caseDay}, strings.Fields(options), []string{"--"}, command)
}

// The tests' helper programs are the test binary itself: with such a first argument it does that, and no test.
var caseHelpers = map[string]func(args []string) int{}

func caseHelper(name string, f func(args []string) int) bool {
	caseHelpers[name] = f
	return true
}

var _ = caseHelper("case:signals", helpSignals)

func init() {
	if len(os.Args) > 1 && caseHelpers[os.Args[1]] != nil {
		os.Exit(caseHelpers[os.Args[1]](os.Args[2:]))
	}
}

func caseSelf(t *testing.T) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

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

// A caseProc is a started process, and the files that it writes into.
type caseProc struct {
	*exec.Cmd
	t        *testing.T
	out, err string
	ended    chan error
}

// caseStart starts a process. Files take what it prints, so that nobody waits for what it leaves running.
func caseStart(t *testing.T, cmd *exec.Cmd) *caseProc {
	t.Helper()
	dir := t.TempDir()
	p := &caseProc{cmd, t, filepath.Join(dir, "out"), filepath.Join(dir, "err"), make(chan error, 1)}
	if cmd.Stdout == nil {
		cmd.Stdout = caseCreate(t, p.out)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = caseCreate(t, p.err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { p.ended <- cmd.Wait(); close(gone) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-gone })
	return p
}

func caseCreate(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// wait waits for the end, with a deadline. The status is what a shell sees.
func (p *caseProc) wait() result {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(20 * time.Second):
		out, _ := os.ReadFile(p.out)
		said, _ := os.ReadFile(p.err)
		p.t.Fatalf("%q never ended; stdout %q, stderr %q", p.Args, out, said)
	}
	out, _ := os.ReadFile(p.out)
	said, _ := os.ReadFile(p.err)
	return result{shellStatus(p.ProcessState), string(out), string(said)}
}

func shellStatus(state *os.ProcessState) int {
	if w := state.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal())
	}
	return state.ExitCode()
}

// say sends a signal to the process alone.
func (p *caseProc) say(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Errorf("%v: %v", s, err)
	}
}

// A lifeline is a FIFO that a command's processes hold open for writing: gone is closed when the last of them is dead.
type lifeline struct {
	name string
	gone chan struct{}
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	l := &lifeline{filepath.Join(t.TempDir(), "lifeline"), make(chan struct{})}
	if err := unix.Mkfifo(l.name, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.Open(l.name)
		if err != nil {
			return
		}
		io.Copy(io.Discard, f)
		close(l.gone)
	}()
	return l
}

func (l *lifeline) cut(t *testing.T) {
	t.Helper()
	select {
	case <-l.gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the command's processes never died")
	}
}

func (l *lifeline) held() bool {
	select {
	case <-l.gone:
		return false
	default:
		return true
	}
}

// heldFor says whether it is held now and in a while.
func (l *lifeline) heldFor(d time.Duration) bool {
	select {
	case <-l.gone:
		return false
	case <-time.After(d):
		return true
	}
}

// lockKey is where redislock keeps the lease of a job in the test's namespace.
func lockKey(t *testing.T, job string) string { return namespaceOf(t) + ":{" + job + "}:lock" }

// isHeld says whether anybody has the lease of a job in the shared Redis.
func isHeld(t *testing.T, job string) bool {
	t.Helper()
	n, err := shared.rdb.Exists(context.Background(), lockKey(t, job)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
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

func caseTouch(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func hasLine(name, line string) func() bool {
	return func() bool { return slices.Contains(lines(name), line) }
}

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
// that never began used none up. A real failure after it does. (SH-38, DESIGN §4)
func TestCaseCannotStartUsesNoAttempt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, log := filepath.Join(dir, "report"), filepath.Join(dir, "log")
	for _, host := range []string{"web-1", "web-2", "web-1"} {
		if r := newHost(t, host).run(caseRun("report", "", script)...); r.status != 127 {
			t.Errorf("%s: %v", host, r)
		}
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho $ONCEONLY_ATTEMPT >>"+log+"\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
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
// USR2, CONT or WINCH has done its work. (SH-41, DESIGN §5)
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
// any other status is the command's own. Either way this process tries no further attempt. (DESIGN §11.13)
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

// A second INT or TERM means KILL, and that to the whole group. (DESIGN §5)
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

// Told to stop before the command begins, onceonly starts nothing and ends with 128+n. (DESIGN §7)
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

// A signal that onceonly was started ignoring stays ignored: by it, and by the command. nohup is the known one. (DESIGN §5)
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

// Started with CHLD ignored, as some supervisors do, onceonly still learns its command's status. (SH-36)
func TestCaseChildIgnored(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", append([]string{"-c", `trap '' CHLD; exec "$@"`, "sh", binary}, caseRun("j", "", "sh", "-c", "exit 7")...)...)
	cmd.Env = newHost(t, "web-1").env
	caseStart(t, cmd).wait().want(t, 7, "")
	wantEntry(t, "j", "failed", 7, "", "")
}

// What a command leaves running in the background is its own affair: onceonly does not wait for it, and does not end it.
// (DESIGN §5)
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

// TERM may come at any time: before the command, at its start, at its end. Whenever it comes, the lease is free afterwards,
// no attempt is left without its end, and status and ledger tell the same. (SH-40, DESIGN §7)
func TestCaseTermAtAnyTime(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	told := map[int]int{}
	for i := range 150 {
		job := fmt.Sprint("j", i)
		p := caseStart(t, h.command(caseRun(job, "", "sh", "-c", "read x </dev/null; exit 0")...))
		time.Sleep(time.Duration(i) * 100 * time.Microsecond) // not to be safe: to come at another time each
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
