package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cases of real users about a run that dies in the middle, and about its slot: it is free, another takes over, or
// nobody knows, and that is told.

// SH-05: killed at any moment there is no lock without an expiry; and what comes of it is a clean state, a run that is
// done, or an uncertain one: never a slot that may run a second time.
func TestCaseKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	times, web, rival := 60, newHost(t, "web-1"), newHost(t, "web-2")
	if long {
		times = 300
	}
	folder := t.TempDir()
	line := func(i int, lease string) []string {
		return append([]string{"run", "--job", fmt.Sprint("j", i), "--date", "yesterday", "--lease", lease},
			effects(filepath.Join(folder, fmt.Sprint(i)), "sleep 0.01")...)
	}
	moments := make([]time.Duration, times)
	for i := range times {
		moments[i] = rand.N(30 * time.Millisecond)
		if i%2 == 0 {
			moments[i] = rand.N(8 * time.Millisecond) // where the steps are
		}
		p := web.start(line(i, "1s")...)
		strikeAfter(moments[i] - time.Since(p.began)) // of 30 ms, in which the whole run lies
		p.kill()
		if _, value, ttl := lockOf(t, fmt.Sprint("j", i)); ttl == -1 {
			t.Errorf("killed after %v: the lock %q lives for ever", moments[i], value)
		}
	}
	count := map[string]int{}
	for i := range times {
		job, log := fmt.Sprint("j", i), filepath.Join(folder, fmt.Sprint(i))
		eventually(t, "the lock lapses", func() bool { _, _, ttl := lockOf(t, job); return ttl == -2 })
		count[settled(t, rival, job, log, moments[i], line(i, "1m"))]++
	}
	t.Log(count)
	if count["uncertain"] == 0 || count["clean"]+count["done"] == 0 {
		t.Errorf("%v: the moments do not show anything", count)
	}
}

// settled asks again for a slot whose run was killed, and says what it found: clean, done or uncertain.
func settled(t *testing.T, rival *host, job, log string, moment time.Duration, args []string) string {
	t.Helper()
	slot := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	l := &ledger{shared.rdb, namespaceOf(t)}
	known := shared.rdb.HExists(context.Background(), l.keys(job)[2], slot).Val()
	before := len(readEffects(t, log, true))
	state := "clean"
	if known {
		state = entryOf(t, job, slot).State
	}
	r := rival.run(args...)
	after := readEffects(t, log, true)
	switch {
	case !known && before == 0 && len(after) == 1:
		silent(t, job, r)
		return "clean"
	case state == "done" && before == 1 && len(after) == 1:
		silent(t, job, r)
		return "done"
	case state == "running" && before <= 1 && len(after) == before:
		if !regexp.MustCompile(uncertainLine(job, slot, "web-1")).MatchString(r.stderr) || r.status != 75 || r.stdout != "" {
			t.Errorf("%s, killed after %v: got %v", job, moment, r)
		}
		return "uncertain"
	}
	t.Errorf("%s, killed after %v: entry %q, %d starts, then %v and %d starts", job, moment, state, before, r, len(after))
	return state
}

func uncertainLine(job, slot, host string) string {
	return fmt.Sprintf(`^onceonly: %[1]s %[2]s: not run: uncertain: %[3]s:\d+ began at (\d\d-\d\d )?\d\d:\d\d:\d\d and never reported; it may have done all, part or nothing
onceonly: hint: find out, then onceonly resolve %[1]s --date %[2]s --done or --reopen, --reason TEXT
$`, job, slot, host)
}

// SH-05: the same, at each step by turns: the reply to a request is held back for ever, and onceonly is killed while it
// waits. Or Redis never saw the request.
func TestCaseKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for step, want := range []string{"clean", "uncertain", "done"} {
		t.Run(fmt.Sprintf("no reply to request %d", step+1), func(t *testing.T) {
			t.Parallel()
			p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			line := func(lease string) []string {
				return append([]string{"run", "--job", "j", "--date", "yesterday", "--lease", lease}, effects(log, "true")...)
			}
			newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "") // the first has a request more
			p.dropReply("", step+1, false)
			web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(line("1s")...)
			eventually(t, "the request is executed", func() bool { return p.dropsLeft() == 0 })
			if _, value, ttl := lockOf(t, "j"); ttl == -1 {
				t.Errorf("the lock %q lives for ever", value)
			}
			web.kill()
			eventually(t, "the lock lapses", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 })
			if got := settled(t, newHost(t, "web-2"), "j", log, 0, line("1m")); got != want {
				t.Errorf("left %s, want %s", got, want)
			}
		})
	}
}

// A job's first run dies before the job is in the list of jobs: whoever asks and hears of it puts it there, so that status
// shows what nobody may overlook.
func TestCaseFirstRunDiesUnlisted(t *testing.T) {
	t.Parallel()
	p, e := newProxy(t, shared.address()), newEnder(t)
	p.answer("-LOADING Redis is loading the dataset in memory", "SADD")
	args := caseRun("j", "--lease 1s", e.command("0")...)
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(args...)
	eventually(t, "the command runs", e.up)
	web.kill()
	eventually(t, "the lock lapses", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 })
	other := newHost(t, "web-2")
	other.run("status").wantOut(t, "no jobs yet in namespace "+namespaceOf(t)+"\n")
	other.run(args...).wantMatch(t, exitNotDone, uncertainLine("j", caseDay, "web-1"))
	if got := other.run("status", "--json"); !strings.Contains(got.stdout, `"state": "uncertain"`) {
		t.Errorf("status: %v", got)
	}
}

// SH-04: the whole host dies. With an attempt left another takes over when the lease is over, not before it and at most a
// second after it, with a greater token; and says so.
func TestCaseTakeover(t *testing.T) {
	t.Parallel()
	log, lease := filepath.Join(t.TempDir(), "log"), 2*time.Second
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "2", "--lease", "2s"}, effects(log, `test $ONCEONLY_ATTEMPT = 2 || exec sleep 30`)...)
	dead := dieInTheMiddle(t, newHost(t, "web-1"), log, args)
	_, _, left := lockOf(t, "j")
	killed, rival := time.Now(), newHost(t, "web-2")
	if left > lease || left < 0 {
		t.Fatalf("the lease is %v", left)
	}
	var r result
	eventually(t, "another takes over", func() bool {
		if r = rival.run(args...); len(lines(log)) == 1 {
			silent(t, "before the lease is over", r)
		}
		return len(lines(log)) > 1
	})
	if took := time.Since(killed); took < left-50*time.Millisecond || took > lease+time.Second {
		t.Errorf("taken over after %v, with %v of the lease left", took, left)
	}
	want := fmt.Sprintf(`^onceonly: j 2026-01-05: taking over, attempt 2 of 2: web-1:%d not heard of for [1-3]s\n$`, dead)
	if r.status != 0 || r.stdout != "" || !regexp.MustCompile(want).MatchString(r.stderr) {
		t.Errorf("got %v\nwant status 0, %s", r, want)
	}
	if got := readEffects(t, log, true); len(got) != 2 || got[1].attempt != 2 || got[1].slot != "2026-01-05" {
		t.Errorf("starts %v, want two, the second as attempt 2", got)
	}
	if e := entryOf(t, "j", "2026-01-05"); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" {
		t.Errorf("entry %+v", e)
	}
	silent(t, "afterwards", newHost(t, "web-3").run(args...))
}

// dieInTheMiddle starts a run, kills onceonly and its command when that has started, and returns onceonly's process ID.
func dieInTheMiddle(t *testing.T, web *host, log string, args []string) int {
	t.Helper()
	p := web.start(args...)
	eventually(t, "it starts", started(log))
	command := readEffects(t, log, true)[0].pid
	p.cmd.Process.Kill() // first: it must not see its command die
	syscall.Kill(-command, syscall.SIGKILL)
	<-p.done
	eventually(t, "the command is gone", func() bool { return syscall.Kill(command, 0) != nil })
	return p.cmd.Process.Pid
}

// A whole host dies. With an attempt left the next host that asks takes over when the lease is over, not before and not more
// than a second later, and its token is greater. (SH-04)
func TestWholeHostDies(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	options := []string{"run", "--job", "etl", "--date", "2025-06-10", "--attempts", "2", "--lease", "3s"}
	one := newHost(t, "web-1").hold(log, options...)
	one.die()
	left, killed := ttlOf(t, "etl"), time.Now()
	var two *heldRun
	gate := filepath.Join(t.TempDir(), "gate")
	os.WriteFile(gate, []byte("0"), 0o600)
	for competitor := newHost(t, "web-2"); time.Since(killed) < 15*time.Second && len(gateTraces(t, log)) < 2; {
		two = competitor.launch(append(options, gated(log, gate)...)...)
		if r := two.wait(); r.status != 0 {
			t.Errorf("the competitor: %v", r)
		}
	}
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2")
	all := gateTraces(t, log)
	if len(all) < 2 {
		return
	}
	if after := all[1].at.Sub(killed); after < left-100*time.Millisecond || after > left+time.Second {
		t.Errorf("taken over %v after the kill, when the lease had %v left", after, left)
	}
	if all[1].token <= all[0].token || all[1].runID == all[0].runID {
		t.Errorf("the second attempt's token and run ID: %+v after %+v", all[1], all[0])
	}
	if e := entryOf(t, "etl", "2025-06-10"); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" || e.Token != all[1].token {
		t.Errorf("the entry: %+v", e)
	}
	if !strings.HasPrefix(two.stderr.String(), "onceonly: etl 2025-06-10: taking over, attempt 2 of 2: web-1:") {
		t.Errorf("it says %q", two.stderr.String())
	}
}

// SH-04: twenty hosts ask at the instant at which the dead one's lease is over. One takes over.
func TestCaseTakeoverByMany(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "2", "--lease", "2s"}, effects(log, `test $ONCEONLY_ATTEMPT = 2 || exec sleep 30; sleep 0.1`)...)
	dieInTheMiddle(t, newHost(t, "dead"), log, args)
	said := 0
	eventually(t, "the lease is nearly over", func() bool { _, _, ttl := lockOf(t, "j"); return ttl < 50*time.Millisecond })
	for len(lines(log)) == 1 {
		for n, r := range atOneInstant(t, 20, args) {
			if r.status != 0 || r.stdout != "" || r.stderr != "" && !strings.HasPrefix(r.stderr, "onceonly: j 2026-01-05: taking over, attempt 2 of 2: dead:") {
				t.Errorf("web-%d: %v", n, r)
			}
			said += strings.Count(r.stderr, "\n")
		}
	}
	if got := readEffects(t, log, true); len(got) != 2 || got[1].attempt != 2 || said != 1 || len(lines(log)) != 3 {
		t.Errorf("%q, told %d times; want a second start, which ends, and one line", lines(log), said)
	}
}

// SH-04: with one attempt nobody guesses: while the lease lives the slot is busy, then it is uncertain: 75 for everybody,
// and one line from the first in the fleet that asks.
//
// Manual: the host dies, or onceonly is killed
func TestCaseUncertain(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "1s"}, effects(log, `exec sleep 30`)...)
	dieInTheMiddle(t, newHost(t, "web-1"), log, args)
	if _, _, ttl := lockOf(t, "j"); ttl > 300*time.Millisecond {
		silent(t, "before the lease is over", newHost(t, "web-2").run(args...))
	}
	eventually(t, "the lease is over", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 })
	said := 0
	for n, r := range atOneInstant(t, 10, args) {
		if r.status != 75 || r.stdout != "" || r.stderr != "" && !regexp.MustCompile(uncertainLine("j", "2026-01-05", "web-1")).MatchString(r.stderr) {
			t.Errorf("web-%d: %v", n, r)
		}
		if r.stderr != "" {
			said++
		}
	}
	newHost(t, "web-2").run(args...).want(t, 75, "")
	if got := readEffects(t, log, true); len(got) != 1 || said != 1 {
		t.Errorf("%d starts, told %d times; want 1 and 1", len(got), said)
	}
	if e := entryOf(t, "j", "2026-01-05"); e.State != "running" || e.Attempt != 1 {
		t.Errorf("entry %+v", e)
	}
	// Another slot of the job is not held up by it.
	newHost(t, "web-2").run("run", "--job", "j", "--date", "2026-01-06", "--", "echo", "ran")
	if e := entryOf(t, "j", "2026-01-06"); e.State != "done" {
		t.Errorf("the next slot: %+v", e)
	}
}

// An uncertain slot is told once to whoever asks for it, and once more by the next slot's run; it does not block that.
// An interrupted one likewise.
func TestUncertainToldOnce(t *testing.T) {
	t.Parallel()
	kill := func(t *testing.T, job string) string {
		one := newHost(t, "web-1").hold(filepath.Join(t.TempDir(), "log"), "run", "--job", job, "--date", "2025-06-10", "--lease", "1s")
		one.die()
		eventually(t, "the lease is over", func() bool { return slotLock(t, job) == "" })
		return fmt.Sprintf(`uncertain: web-1:%d began at [^\n]* and never reported`, one.cmd.Process.Pid)
	}
	interrupt := func(command, ending string, status int) func(t *testing.T, job string) string {
		return func(t *testing.T, job string) string {
			began := filepath.Join(t.TempDir(), "began")
			one := newHost(t, "web-1").launch("run", "--job", job, "--date", "2025-06-10", "--lease", "1s", "--", "sh", "-c", command, began)
			eventually(t, "the command has begun", func() bool { return len(lines(began)) > 0 })
			one.cmd.Process.Signal(syscall.SIGTERM)
			if r := one.wait(); r.status != status {
				t.Errorf("interrupted: %v", r)
			}
			if e := entryOf(t, job, "2025-06-10"); e.State != "failed" || e.Reason != "interrupted" {
				t.Errorf("interrupted: %+v", e)
			}
			return `failed on web-1 at [^\n]* \(` + regexp.QuoteMeta(ending) + `\)`
		}
	}
	for job, before := range map[string]func(*testing.T, string) string{
		"killed":      kill,
		"interrupted": interrupt(`echo x >>"$0"; exec sleep 600`, "TERM, interrupted", 143),
		"obedient":    interrupt(`trap 'exit 0' TERM; echo x >>"$0"; while :; do sleep 0.02; done`, "interrupted, exit 0", exitNotDone),
		"stubborn":    interrupt(`trap 'exit 4' TERM; echo x >>"$0"; while :; do sleep 0.02; done`, "interrupted, exit 4", 4),
	} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			ask := func(name, day string) result {
				return newHost(t, name).run("run", "--job", job, "--date", day, "--", "true")
			}
			said := before(t, job)
			hint := "\nonceonly: hint: [^\n]*onceonly resolve " + job + " --date 2025-06-10 --done or --reopen, --reason TEXT\n"
			ask("web-2", "2025-06-10").wantLike(t, exitNotDone, "onceonly: "+job+" 2025-06-10: not run: "+said+"[^\n]*"+hint)
			ask("web-3", "2025-06-10").want(t, exitNotDone, "")
			ask("web-2", "2025-06-10").want(t, exitNotDone, "")
			ask("web-3", "2025-06-11").wantLike(t, 0, "onceonly: "+job+" 2025-06-10: "+said+"[^\n]*"+hint)
			ask("web-2", "2025-06-11").want(t, 0, "")
			ask("web-2", "2025-06-12").want(t, 0, "")
			if e := entryOf(t, job, "2025-06-10"); e.Attempt != 1 {
				t.Errorf("the entry: %+v", e)
			}
		})
	}
}
