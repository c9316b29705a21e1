//go:build !race

// They run the binary, which has no race detector in it.

package main

import (
	"context"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The command does not outlive onceonly, nor its lease: --timeout and --kill-after, process groups, and the guard.

var _ = caseHelper("guard:inherit", helpInherit)

// helpInherit FILE command... runs a command as the process that inherits orphans, and writes how many it inherited.
func helpInherit(args []string) int {
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Run()
	time.Sleep(300 * time.Millisecond)
	n := 0
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != nil || pid <= 0 {
			break
		}
		n++
	}
	os.WriteFile(args[0], []byte(strconv.Itoa(n)), 0o600)
	return cmd.ProcessState.ExitCode()
}

// A procStat is what /proc says of a process.
type procStat struct {
	pid, parent, group int
	state              string
}

// processes are all that there are.
func processes() (all []procStat) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		if i := strings.LastIndex(string(text), ") "); i > 0 {
			var p procStat
			p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if n, _ := fmt.Sscan(string(text[i+2:]), &p.state, &p.parent, &p.group); n == 3 {
				all = append(all, p)
			}
		}
	}
	return all
}

// aliveIn are the living processes of a group. A dead one that nobody has reaped is none.
func aliveIn(group int) (pids []int) {
	for _, p := range processes() {
		if p.group == group && p.state != "Z" && p.state != "X" {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// guardsOf are the guards of a group, as ps shows them.
func guardsOf(group int) (pids []int) {
	want := fmt.Sprint("onceonly: guard ", group)
	for _, p := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " ") == want {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// guardOf waits for the guard of a group.
func guardOf(t *testing.T, group int) (pid int) {
	t.Helper()
	eventually(t, "a guard", func() bool {
		all := guardsOf(group)
		if len(all) > 0 {
			pid = all[0]
		}
		return len(all) == 1
	})
	return pid
}

func groupOf(t *testing.T, log, host string) int {
	t.Helper()
	eventually(t, "it begins", beats(log, host))
	return beatsBy(log, host)[0].group
}

// under runs a command two shells down, as a crontab's lines do.
func under(command []string) []string {
	return append([]string{"sh", "-c", `("$0" "$@"); true`}, command...)
}

// onceonly alone is killed with -9. Its guard sees that the whole group is dead, also a grandchild that is deaf to TERM,
// and the next host takes over after it. (SH-04, DESIGN §1, §5)
//
// Manual: the host dies, or onceonly is killed
func TestGuardOnceonlyKilled(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	smallest, slowest := time.Hour, time.Duration(0)
	round := func(k int) {
		job, log := fmt.Sprint("j", k), filepath.Join(t.TempDir(), "log")
		a := caseStart(t, newHost(t, "web-1").command(caseRun(job, "--lease 2s --attempts 2", under(beating(t, log, "2ms", "20s", "deaf"))...)...))
		group := groupOf(t, log, "web-1")
		guardOf(t, group)
		b := caseStart(t, newHost(t, "web-2").command(caseRun(job, "--lease 2s --attempts 2 --standby", beating(t, log, "5ms", "100ms")...)...))
		time.Sleep(mathrand.N(time.Second)) // the case itself: at a random moment between two renewals
		at := bootNow()
		a.say(unix.SIGKILL)
		eventually(t, "the group is dead", func() bool { return len(aliveIn(group)) == 0 })
		dead := bootNow()
		if len(beatsBy(log, "web-2")) > 0 {
			t.Errorf("%s: the next host began before", job)
		}
		if r := b.wait(); r.status != 0 {
			t.Errorf("%s: the next host: %v", job, r)
		}
		all := beatsBy(log, "web-1")
		margin := handover(t, log, "web-1", "web-2")
		eventually(t, "the guard is gone", func() bool { return len(guardsOf(group)) == 0 })
		mu.Lock()
		defer mu.Unlock()
		smallest, slowest = min(smallest, margin), max(slowest, time.Duration(all[len(all)-1].at-at))
		if margin <= 0 {
			t.Errorf("%s: two ran together for %v (seen dead after %v)", job, -margin, time.Duration(dead-at))
		}
	}
	n := rounds(10, 50)
	for k := 0; k < n; k += 2 {
		atOnce([]int{k, k + 1}, round)
	}
	t.Logf("%d rounds, lease 2s: last sign of life at most %v after the kill, smallest margin %v", n, slowest, smallest)
}

// onceonly is frozen past its deadline: the group is dead before the lease ends. When it wakes, it knows that it has lost.
//
// Manual: onceonly is frozen, or the machine is suspended
func TestGuardOnceonlyFrozen(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	smallest := time.Hour
	n := rounds(4, 50)
	round := func(k int) {
		job, log := fmt.Sprint("j", k), filepath.Join(t.TempDir(), "log")
		a := caseStart(t, newHost(t, "web-1").command(caseRun(job, "--lease 2s --attempts 2", under(beating(t, log, "2ms", "20s", "deaf"))...)...))
		group := groupOf(t, log, "web-1")
		guardOf(t, group)
		b := caseStart(t, newHost(t, "web-2").command(caseRun(job, "--lease 2s --attempts 2 --standby", beating(t, log, "5ms", "100ms")...)...))
		time.Sleep(mathrand.N(time.Second)) // the case itself: at a random moment between two renewals
		a.say(unix.SIGSTOP)
		eventually(t, "the group is dead", func() bool { return len(aliveIn(group)) == 0 })
		if r := b.wait(); r.status != 0 {
			t.Errorf("%s: the next host: %v", job, r)
		}
		a.say(unix.SIGCONT)
		a.wait().wantMatch(t, 75, lostLine(job, "web-2", 2)) // Redis was not away
		if e := entryOf(t, job, caseDay); e.State != "done" || e.Host != "web-2" || e.Attempt != 2 || e.Stale != 1 {
			t.Errorf("%s: entry %+v", job, e)
		}
		margin := handover(t, log, "web-1", "web-2")
		mu.Lock()
		defer mu.Unlock()
		if smallest = min(smallest, margin); margin <= 0 {
			t.Errorf("%s: two ran together for %v", job, -margin)
		}
	}
	for k := 0; k < n; k += 2 {
		atOnce([]int{k, k + 1}, round)
	}
	t.Logf("%d rounds, lease 2s: smallest margin %v", n, smallest)
}

// The guard is there while the command runs, named so that ps tells what it is, deaf to the signals that a terminal or a
// shutdown sends it, with none of the command's streams. Killed, it is followed by another, and the command goes on; that
// one does its work, too. When the command has ended it is gone.
func TestGuardLife(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 4s", beating(t, log, "20ms", "4s")...)...))
	group := groupOf(t, log, "web-1")
	first := guardOf(t, group)
	for fd := range 3 {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", first, fd)); to != "/dev/null" {
			t.Errorf("the guard's descriptor %d is %q", fd, to)
		}
	}
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", first))
	for _, name := range all {
		if to, _ := os.Readlink(name); strings.HasPrefix(to, "socket:") || to == p.out || to == p.err {
			t.Errorf("the guard holds %s", to)
		}
	}
	if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", first)); cwd != "/" {
		t.Errorf("the guard is in %s", cwd)
	}
	eventually(t, "the guard listens", func() bool { return ignores(first, unix.SIGTERM) })
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
		unix.Kill(first, s)
	}
	time.Sleep(200 * time.Millisecond) // a guard that ends does so at once
	if now := guardsOf(group); !slices.Equal(now, []int{first}) {
		t.Errorf("after HUP INT QUIT TERM: guards %v, want %d", now, first)
	}
	unix.Kill(first, unix.SIGKILL)
	var second int
	eventually(t, "another guard", func() bool {
		now := guardsOf(group)
		if len(now) == 1 {
			second = now[0]
		}
		return len(now) == 1 && second != first
	})
	for _, proc := range processes() {
		if proc.pid == first && proc.parent == p.Process.Pid {
			t.Errorf("the killed guard is still there, in state %s", proc.state)
		}
	}
	p.wait().want(t, 0, "")
	eventually(t, "the guard is gone", func() bool { return len(guardsOf(group)) == 0 })
	if got := beatWords(log); !slices.Equal(got, []string{"web-1 begin", "web-1 end"}) {
		t.Errorf("%q", got)
	}
	wantEntry(t, "j", "done", 0, "", "")
}

// ignores says whether a process ignores a signal.
func ignores(pid int, s unix.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, mask, _ := strings.Cut(string(text), "SigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	n, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && n>>(s-1)&1 == 1
}

// The second guard, too, kills the group when onceonly is killed.
func TestGuardSecondKills(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 20s", under(beating(t, log, "20ms", "30s", "deaf"))...)...))
	group := groupOf(t, log, "web-1")
	first := guardOf(t, group)
	unix.Kill(first, unix.SIGKILL)
	eventually(t, "another guard", func() bool {
		now := guardsOf(group)
		return len(now) == 1 && now[0] != first
	})
	p.say(unix.SIGKILL)
	at := time.Now()
	eventually(t, "the group is dead", func() bool { return len(aliveIn(group)) == 0 })
	if took := time.Since(at); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// The guard, and onceonly, leave nobody a process to reap: below something that never does, as in many containers, each run
// would leave a zombie.
func TestGuardLeavesNoProcess(t *testing.T) {
	t.Parallel()
	defer underLoad()()
	var mu sync.Mutex
	runs, left := 0, 0
	for range rounds(2, 10) {
		atOnce([]string{"a", "b", "c", "d", "e", "f", "g", "h"}, func(job string) {
			count := filepath.Join(t.TempDir(), "count")
			h := newHost(t, "web-1", "ONCEONLY_NAMESPACE="+namespaceOf(t)+filepath.Base(filepath.Dir(count)))
			cmd := exec.Command(caseSelf(t), slices.Concat([]string{"guard:inherit", count, binary}, caseRun(job, "", "sleep", "1.1"))...)
			cmd.Env = h.env
			caseStart(t, cmd).wait().want(t, 0, "")
			n, err := strconv.Atoi(strings.Join(lines(count), ""))
			mu.Lock()
			defer mu.Unlock()
			if runs++; err != nil || n > 0 {
				left++
			}
		})
	}
	if left > 0 {
		t.Errorf("%d of %d runs left a dead process to whoever inherits it", left, runs)
	}
}

// `onceonly run … | cat` ends when the command ends: nothing else holds the pipe.
func TestGuardHoldsNoStream(t *testing.T) {
	t.Parallel()
	out, in := casePipe(t)
	log := filepath.Join(t.TempDir(), "log")
	cmd := newHost(t, "web-1").command(caseRun("j", "", beating(t, log, "20ms", "1500ms")...)...)
	cmd.Stdout, cmd.Stderr = in, in
	p := caseStart(t, cmd)
	in.Close()
	guardOf(t, groupOf(t, log, "web-1"))
	if text, _ := io.ReadAll(out); len(text) > 0 {
		t.Errorf("read %q", text)
	}
	all := beatsOf(log)
	if last := all[len(all)-1]; last.word != "end" || time.Duration(bootNow()-last.at) > 500*time.Millisecond {
		t.Errorf("the pipe ended %v after the command's %s", time.Duration(bootNow()-last.at), last.word)
	}
	p.wait().want(t, 0, "")
}

// underLoad keeps the processors busy until what it returns is called.
func underLoad() (end func()) {
	var stop atomic.Bool
	var busy sync.WaitGroup
	for range 3 {
		busy.Go(func() {
			for n := 0; !stop.Load(); n++ {
			}
		})
	}
	return func() { stop.Store(true); busy.Wait() }
}

// No false alarm: runs that a guard is just started for, under load, with a runtime as slow as it gets.
func TestGuardNoFalseAlarm(t *testing.T) {
	t.Parallel()
	defer underLoad()()
	h := newHost(t, "web-1", "GOMAXPROCS=1", "GOGC=1")
	var jobs []string
	for k := range 20 {
		jobs = append(jobs, fmt.Sprint("j", k))
	}
	for group := range slices.Chunk(jobs, 5) {
		atOnce(group, func(job string) {
			caseStart(t, h.command(caseRun(job, "", "sleep", "1.2")...)).wait().want(t, 0, "")
			wantEntry(t, job, "done", 0, "", "")
		})
	}
}

// What a command leaves in the background is left alone, also where a guard watched the command: onceonly ends within a
// second of it, with its status, and the lease is free. (SH-46)
func TestGuardLeavesTheBackground(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words  string
		status int
	}{
		"background": {`sleep 60 & echo $!; sleep 1.2; exit 0`, 0}, "fails": {`sleep 60 & echo $!; sleep 1.2; exit 4`, 4},
		"setsid": {`setsid sleep 60 & echo $!; sleep 1.2; exit 0`, 0}, "short": {`sleep 60 & echo $!; exit 0`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := caseStart(t, newHost(t, "web-1").command(caseRun("j", "", "sh", "-c", c.words)...)).wait()
			r.want(t, c.status, "")
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			left, err := strconv.Atoi(strings.TrimSpace(r.stdout))
			if err != nil {
				t.Fatalf("%v", r)
			}
			defer unix.Kill(left, unix.SIGKILL)
			time.Sleep(300 * time.Millisecond) // a guard that were wrong would strike now
			if !slices.ContainsFunc(processes(), func(p procStat) bool { return p.pid == left && p.state != "Z" }) {
				t.Error("what ran in the background is dead")
			}
			if isHeld(t, "j") {
				t.Error("the lease is still held")
			}
			wantEntry(t, "j", map[bool]string{true: "done", false: "failed"}[c.status == 0], c.status, "", "")
		})
	}
}

func timeoutLine(job, limit string) string {
	return "onceonly: " + job + " " + caseDay + ": stopped: longer than --timeout " + limit + "\n"
}

// SH-14: a command that hangs is stopped by --timeout: TERM, 124, one line, not done, the lease free at once. Without, the
// status shows who holds it, and since when.
func TestCaseTimeout(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	h := newHost(t, "web-1")
	p := caseStart(t, h.command(caseRun("hung", "--timeout 2s", beating(t, log, "20ms", "15s")...)...))
	other := caseStart(t, h.command(caseRun("open", "", "sleep", "15")...))
	p.wait().want(t, 124, timeoutLine("hung", "2s"))
	if isHeld(t, "hung") {
		t.Error("the lease is still held")
	}
	wantEntry(t, "hung", "failed", 3, "", "timeout")
	all := beatsOf(log)
	if got := beatWords(log); !slices.Equal(got, []string{"web-1 begin", "web-1 term"}) {
		t.Errorf("%q", got)
	}
	if ran := time.Duration(all[len(all)-1].at - all[0].at); ran < 1700*time.Millisecond || ran > 2700*time.Millisecond {
		t.Errorf("TERM after %v", ran)
	}
	r := h.run("status", "open", "--json")
	if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "web-1") || !strings.Contains(r.stdout, fmt.Sprint(other.Process.Pid)) {
		t.Errorf("status: %v", r)
	}
	if r := h.run("status", "open"); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "running") || !strings.Contains(r.stdout, "web-1") {
		t.Errorf("status: %v", r)
	}
	other.say(unix.SIGTERM)
	other.wait()
}

// A time-out is a failure like another: with attempts left the same process tries again, each attempt with the whole time;
// a command that ends by itself in time is not touched. (DESIGN §2, §4)
func TestCaseTimeoutPerAttempt(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	h := newHost(t, "web-1")
	r := h.run(caseRun("j", "--timeout 1s --attempts 2 --retry-delay 100ms", under(beating(t, log, "20ms", "15s"))...)...)
	if r.status != 124 || strings.Count(r.stderr, timeoutLine("j", "1s")) != 2 {
		t.Errorf("got %v", r)
	}
	if e := entryOf(t, "j", caseDay); e.State != "failed" || e.Attempt != 2 || e.Reason != "timeout" || e.Kept {
		t.Errorf("entry %+v", e)
	}
	if isHeld(t, "j") {
		t.Error("the lease is still held")
	}
	h.run(caseRun("short", "--timeout 5s", "true")...).want(t, 0, "")
	h.run(caseRun("own", "--timeout 5s", "sh", "-c", "exit 124")...).want(t, 124, "")
	wantEntry(t, "own", "failed", 124, "", "")
}

// SH-44: a command that ignores TERM is killed --kill-after later, and the lease is not given back before it is dead: the
// successor begins after.
func TestCaseDeafToTerm(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	a := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--timeout 1s --kill-after 2s --attempts 1", beating(t, log, "5ms", "15s", "deaf")...)...))
	group := groupOf(t, log, "web-1")
	b := caseStart(t, newHost(t, "web-2").command(caseRun("j", "--attempts 2 --standby", beating(t, log, "5ms", "50ms")...)...))
	eventually(t, "the successor begins", beats(log, "web-2"))
	if left := aliveIn(group); len(left) > 0 {
		t.Errorf("alive when the successor began: %v", left)
	}
	a.wait().want(t, 124, timeoutLine("j", "1s"))
	if r := b.wait(); r.status != 0 {
		t.Errorf("the successor: %v", r)
	}
	all := beatsBy(log, "web-1")
	if ran := time.Duration(all[len(all)-1].at - all[0].at); ran < 2500*time.Millisecond || ran > 3500*time.Millisecond {
		t.Errorf("killed after %v, want 3s", ran)
	}
	if margin := handover(t, log, "web-1", "web-2"); margin <= 0 {
		t.Errorf("two ran together for %v", -margin)
	}
}

// The time from TERM to KILL is the command's also where a shell stands above it, which TERM ends at once: what cleans up
// has the time to do so. (DESIGN §2: --kill-after)
func TestCaseGraceBelowAShell(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"timeout", "term"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			log, options := filepath.Join(t.TempDir(), "log"), "--kill-after 5s"
			if end == "timeout" {
				options += " --timeout 1s"
			}
			p := caseStart(t, newHost(t, "web-1").command(caseRun("j", options, "sh", "-c",
				`(trap 'sleep 0.5; echo clean >>"$0"; exit' TERM; echo up >>"$0"; while :; do sleep 0.05; done); true`, log)...))
			eventually(t, "it begins", hasLine(log, "up"))
			if end == "term" {
				p.say(unix.SIGTERM)
			}
			p.wait()
			if got := lines(log); !slices.Equal(got, []string{"up", "clean"}) {
				t.Errorf("%q: killed within its grace", got)
			}
		})
	}
}

// A guard that was held up past an old deadline, and finds newer ones when it comes to itself, strikes nobody.
func TestGuardHeldUp(t *testing.T) {
	t.Parallel()
	atOnce([]string{"a", "b", "c", "d"}, func(job string) {
		log := filepath.Join(t.TempDir(), "log")
		p := caseStart(t, newHost(t, "web-1").command(caseRun(job, "--lease 2s", beating(t, log, "20ms", "6s")...)...))
		guard := guardOf(t, groupOf(t, log, "web-1"))
		unix.Kill(guard, unix.SIGSTOP)
		time.Sleep(3 * time.Second)
		unix.Kill(guard, unix.SIGCONT)
		if r := p.wait(); r.status != 0 {
			t.Errorf("%v", r)
		}
	})
}

// A guard that does not read what it is told must not hold up the renewals. It is killed, and replaced as one that died.
func TestGuardDoesNotRead(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &guard{process: cmd.Process, pipe: write, ended: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(g.ended)
	}()
	told := 0
	for alive := true; alive; told++ {
		g.tell(bootNow())
		select {
		case <-g.gone():
			alive = false
		default:
		}
	}
	if told < 1000 {
		t.Errorf("killed when it had been told %d deadlines", told)
	}
	g.dismiss()
}

// SH-43: a shell in between, grandchildren, one of them deaf: however it comes to the end, TERM to onceonly, a time-out, a
// lease that another has, nothing of the group is left.
func TestCaseNothingOfTheGroupIsLeft(t *testing.T) {
	t.Parallel()
	commands := map[string][]string{
		"shell": {"sh", "-c", `echo $$ >>"$0"; sleep 100; true`}, "pipe": {"sh", "-c", `echo $$ >>"$0"; (sleep 100) | cat`},
		"deaf": {"sh", "-c", `echo $$ >>"$0"; (trap "" TERM; sleep 100; sleep 100) & sleep 100; true`},
	}
	for what, command := range commands {
		for _, end := range []string{"term", "timeout", "lost"} {
			t.Run(what+" "+end, func(t *testing.T) {
				t.Parallel()
				log, options := filepath.Join(t.TempDir(), "log"), "--lease 3s --attempts 2 --kill-after 500ms --retry-delay 50ms"
				if end == "timeout" {
					options = "--lease 3s --kill-after 500ms --timeout 1s"
				}
				px := newProxy(t, shared.address())
				p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", options, append(slices.Clone(command), log)...)...))
				eventually(t, "it begins", func() bool { return len(lines(log)) > 0 })
				group, err := strconv.Atoi(lines(log)[0])
				if err != nil {
					t.Fatal(err)
				}
				switch end {
				case "term":
					p.say(unix.SIGTERM)
					if r := p.wait(); r.status != 143 && r.status != 75 {
						t.Errorf("got %v", r)
					}
				case "timeout":
					p.wait().want(t, 124, timeoutLine("j", "1s"))
				case "lost":
					renewalPasses(t, px)
					shared.rdb.Del(context.Background(), lockKey(t, "j"))
					b := caseStart(t, newHost(t, "web-2").command(caseRun("j", options, "sh", "-c", "sleep 3; exit 0", log)...))
					p.wait().wantMatch(t, 75, lostLine("j", "web-2", 2))
					defer b.wait()
				}
				at := time.Now()
				eventually(t, "nothing is left", func() bool { return len(aliveIn(group)) == 0 })
				if took := time.Since(at); took > 2*time.Second {
					t.Errorf("left for %v", took)
				}
			})
		}
	}
}

// Redis goes away for good: TERM a quarter of the lease before KILL, however long the grace, and KILL before the lease is
// over. The guard has the same deadline, and still it is onceonly that says why. (DESIGN §5)
func TestGuardAndOnceonlyAgree(t *testing.T) {
	t.Parallel()
	px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "--lease 4s --kill-after 1h", beating(t, log, "5ms", "15s", "deaf")...)...))
	guardOf(t, groupOf(t, log, "web-1"))
	renewalPasses(t, px)
	at := bootNow()
	px.refuse()
	r := p.wait()
	if !regexp.MustCompile(`^`+notRenewed("j")+`onceonly: j `+caseDay+`: stopped: Redis away since `+faultClock+`, the lease is over at `+faultClock+"\n$").MatchString(r.stderr) || r.status != 75 {
		t.Errorf("got %v", r)
	}
	all := beatsOf(log)
	if last := time.Duration(all[len(all)-1].at - at); last > 4*time.Second-200*time.Millisecond+50*time.Millisecond || last < 3*time.Second {
		t.Errorf("killed %v after the last renewal, the lease is 4s", last)
	}
	if i := slices.IndexFunc(all, func(b beat) bool { return b.word == "term" }); i < 0 {
		t.Error("never told to stop")
	} else if d := time.Duration(all[i].at - at); d < 2300*time.Millisecond || d > 3300*time.Millisecond {
		t.Errorf("TERM after %v, want 2.8s", d)
	}
}

// onceonly is killed with -9 in the command's first second, before there is a guard: the command itself dies with it.
func TestGuardKilledInTheFirstSecond(t *testing.T) {
	t.Parallel()
	slowest := time.Duration(0)
	for k := range rounds(10, 50) {
		job, log := fmt.Sprint("j", k), filepath.Join(t.TempDir(), "log")
		p := caseStart(t, newHost(t, "web-1").command(caseRun(job, "--lease 2s", beating(t, log, "2ms", "10s", "deaf")...)...))
		group := groupOf(t, log, "web-1")
		time.Sleep(mathrand.N(900 * time.Millisecond))
		at := bootNow()
		p.say(unix.SIGKILL)
		eventually(t, "the command is dead", func() bool { return len(aliveIn(group)) == 0 })
		all := beatsOf(log)
		if last := time.Duration(all[len(all)-1].at - at); last > 500*time.Millisecond {
			t.Errorf("lived %v longer", last)
		} else {
			slowest = max(slowest, last)
		}
	}
	t.Logf("last sign of life at most %v after the kill", slowest)
}

// onceonly is frozen, and meanwhile the command ends by itself, in time. When onceonly wakes, its lease is over, and nobody
// has begun since: the command was not stopped, it has succeeded, so the slot is done. (DESIGN §4: failed is …)
func TestGuardFrozenWhileTheCommandEnds(t *testing.T) {
	t.Parallel()
	log, h := filepath.Join(t.TempDir(), "log"), newHost(t, "web-1")
	args := caseRun("j", "--lease 2s --attempts 2 --exit-done 9", beating(t, log, "20ms", "1400ms")...)
	p := caseStart(t, h.command(args...))
	guardOf(t, groupOf(t, log, "web-1"))
	p.say(unix.SIGSTOP)
	eventually(t, "the command ends", func() bool { return slices.Equal(beatWords(log), []string{"web-1 begin", "web-1 end"}) })
	eventually(t, "the lease is over", func() bool { return !isHeld(t, "j") })
	p.say(unix.SIGCONT)
	p.wait().want(t, 0, "")
	wantEntry(t, "j", "done", 0, "", "")
	h.run(args...).want(t, 9, "")
	if n := len(slices.DeleteFunc(beatWords(log), func(w string) bool { return w != "web-1 begin" })); n != 1 {
		t.Errorf("%d starts", n)
	}
}
