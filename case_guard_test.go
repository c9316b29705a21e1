//go:build !race

package main

import (
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The command outlives neither onceonly nor its lease: the guard, and what it does when onceonly cannot.

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

// guardOf waits for the guard of a group, which is another one than those before.
func guardOf(t *testing.T, group int, before ...int) (pid int) {
	t.Helper()
	eventually(t, "a guard", func() bool {
		all := guardsOf(group)
		if len(all) > 0 {
			pid = all[0]
		}
		return len(all) == 1 && !slices.Contains(before, pid)
	})
	return pid
}

// onceonly alone is killed with -9. Its guard sees that the whole group is dead, also a grandchild that is deaf to TERM,
// and the next host takes over after it. (SH-04)
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
		strikeAfter(mathrand.N(time.Second)) // of two intervals between renewals
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
		strikeAfter(mathrand.N(time.Second)) // of two intervals between renewals
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

// The same, and nobody else has begun: on waking it says that it was frozen. Redis was not away.
func TestGuardFrozenAlone(t *testing.T) {
	t.Parallel()
	e := newEnder(t)
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 2s", e.command("0")...)...))
	guardOf(t, childOf(t, p.Process.Pid))
	p.say(unix.SIGSTOP)
	e.life.cut(t)
	p.say(unix.SIGCONT)
	p.wait().wantMatch(t, 75, "onceonly: j "+caseDay+": stopped: frozen since "+faultClock+", the lease is over at "+faultClock+"\n")
	wantEntry(t, "j", "failed", -1, "KILL", "lease_lost")
}

// The second guard, too, kills the group when onceonly is killed.
func TestGuardSecondKills(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 20s", under(beating(t, log, "20ms", "30s", "deaf"))...)...))
	group := groupOf(t, log, "web-1")
	first := guardOf(t, group)
	unix.Kill(first, unix.SIGKILL)
	guardOf(t, group, first)
	p.say(unix.SIGKILL)
	at := time.Now()
	eventually(t, "the group is dead", func() bool { return len(aliveIn(group)) == 0 })
	if took := time.Since(at); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// Redis goes away for good: TERM a quarter of the lease before KILL, however long the grace, and KILL before the lease is
// over. The guard has the same deadline, and still it is onceonly that says why.
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
		strikeAfter(mathrand.N(900 * time.Millisecond)) // of the second in which there is no guard
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
// has begun since: the command was not stopped, it has succeeded, so the slot is done.
func TestGuardFrozenWhileTheCommandEnds(t *testing.T) {
	t.Parallel()
	e, h := newEnder(t), newHost(t, "web-1")
	args := caseRun("j", "--lease 2s --attempts 2 --exit-done 9", e.command("0")...)
	p := caseStart(t, h.command(args...))
	guardOf(t, childOf(t, p.Process.Pid))
	p.say(unix.SIGSTOP)
	e.end(t)
	eventually(t, "the lease is over", func() bool { return !isHeld(t, "j") })
	p.say(unix.SIGCONT)
	p.wait().want(t, 0, "")
	wantEntry(t, "j", "done", 0, "", "")
	h.run(args...).want(t, 9, "")
	if n := len(lines(e.upFile)); n != 1 {
		t.Errorf("%d starts", n)
	}
}
