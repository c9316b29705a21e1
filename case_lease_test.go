package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The lease while the command runs: it is renewed, Redis goes away, somebody else has it; what becomes of the command
// then, and of its end.

// A stopper is a command that says what becomes of it: a line when it is up, one with the time when it hears TERM, and
// its lifeline when it is dead. It ends at TERM or not.
func stopper(life *lifeline, log string, ends bool) []string {
	trap := "trap 'echo TERM >>\"$1\"; exit 0' TERM"
	if !ends {
		trap = "trap 'echo TERM >>\"$1\"' TERM"
	}
	return []string{"sh", "-c", `exec 9>"$0" 2>/dev/null
		` + trap + `
		(trap '' TERM; while :; do sleep 0.02; done) &
		echo up >>"$1"
		while :; do sleep 0.02; done`, life.name, log}
}

// The lease is renewed as long as the command runs, and a server that stands still for a while loses nothing: nobody else
// begins, the command is not stopped.
func TestCaseLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	e := newEnder(t)
	p := caseStart(t, h.command(caseRun("long", "--lease 2s", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	key := lockKey(t, "long")
	value := r.rdb.Get(ctx, key).Val()
	left := func() time.Duration { return r.rdb.PTTL(ctx, key).Val() }
	alive := func(now time.Duration) {
		if now <= 0 || r.rdb.Get(ctx, key).Val() != value {
			t.Fatalf("the lease is lost: %v left", now)
		}
	}
	began := time.Now()
	renewed(t, 3, 2*time.Second, left, alive)
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("3 renewals took %v: a quarter of the lease is 500 ms", took)
	}
	say := func(s unix.Signal) func() { return func() { r.cmd.Process.Signal(s) } }
	lasting(800*time.Millisecond, say(unix.SIGSTOP), say(unix.SIGCONT)) // longer than a renewal waits, shorter than what is left of the lease
	renewed(t, 3, 2*time.Second, left, alive)
	newHost(t, "web-2", "ONCEONLY_REDIS="+r.url()).run(caseRun("long", "--lease 2s --exit-busy 5", "sh", "-c", "true")...).want(t, 5, "")
	e.end(t)
	clock := `(\d\d-\d\d )?\d\d:\d\d:\d\d` // of another day than the slot's with its date
	p.wait().wantMatch(t, 0, "(onceonly: long "+caseDay+": lease not renewed for .+: .+; going on until "+clock+"\n)?")
}

// SH-30: Redis forgets its scripts again and again while a job runs: the lease is renewed, the end is written, the lock
// goes, and nobody hears of it.
func TestCaseScriptsForgotten(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), context.Background()
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "2s"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
	p := web.start(args...)
	eventually(t, "it starts", started(log))
	key := (&ledger{r.rdb, namespaceOf(t)}).keys("j")[0]
	holder := r.rdb.Get(ctx, key).Val()
	renewed(t, 4, 2*time.Second, func() time.Duration { return r.rdb.PTTL(ctx, key).Val() }, func(time.Duration) {
		if err := r.rdb.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if got := r.rdb.Get(ctx, key).Val(); got != holder || holder == "" {
			t.Fatalf("the lock is %q, was %q", got, holder)
		}
	})
	r.rdb.ScriptFlush(ctx)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	silent(t, "the holder", p.result(t))
	if n := r.rdb.Exists(ctx, key).Val(); n != 0 {
		t.Errorf("the lock is still there")
	}
	silent(t, "the next host", newHost(t, "web-2", "ONCEONLY_REDIS="+r.url()).run(args...))
	if got := readEffects(t, log, false); len(got) != 1 {
		t.Errorf("%d starts, want 1", len(got))
	}
}

// atOnce does something to each of several things, all at once: they wait more than they work.
func atOnce[T any](things []T, do func(T)) {
	var wg sync.WaitGroup
	for _, thing := range things {
		wg.Go(func() { do(thing) })
	}
	wg.Wait()
}

// Redis is gone for good. The command is told TERM, and is dead, with all its processes, before the lease ends, also if
// it does not listen; exit 75, one line that warned and one that says why.
func TestCaseRedisGoneForGood(t *testing.T) {
	t.Parallel()
	faults := map[string]func(p *proxy){
		"refused":   (*proxy).refuse,
		"swallowed": func(p *proxy) { p.swallow(true, true) },
		"unheard":   func(p *proxy) { p.swallow(false, true) },
		"readonly":  func(p *proxy) { p.answer("-READONLY You can't write against a read only replica.") },
		"reset":     (*proxy).reset,
	}
	atOnce(slices.Sorted(maps.Keys(faults)), func(name string) {
		atOnce([]bool{true, false}, func(ends bool) {
			job, life, log := fmt.Sprint(name, "-", ends), newLifeline(t), filepath.Join(t.TempDir(), "log")
			px := newProxy(t, shared.address())
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+px.url())
			p := caseStart(t, h.command(caseRun(job, "--lease 3s --attempts 2", stopper(life, log, ends)...)...))
			eventually(t, "the command runs", hasLine(log, "up"))
			value, _ := leaseOf(t, job)
			faults[name](px)
			eventually(t, job+": the command is dead", func() bool {
				if now, _ := leaseOf(t, job); now != value && life.heldFor(20*time.Millisecond) {
					over := time.Now()
					life.cut(t)
					t.Errorf("%s: the lease was over, and the command ran for %v more", job, time.Since(over)+20*time.Millisecond)
				}
				return !life.held()
			})
			clock := `(\d\d-\d\d )?\d\d:\d\d:\d\d` // of another day than the slot's with its date
			p.wait().wantMatch(t, 75, "onceonly: "+job+" "+caseDay+": lease not renewed for .+; going on until "+clock+"\n"+
				"onceonly: "+job+" "+caseDay+": stopped: Redis away since "+clock+", the lease is over at "+clock+"\n")
			if !slices.Contains(lines(log), "TERM") {
				t.Errorf("%s: it was never told TERM", job)
			}
		})
	})
}

// Somebody else's value stands in the lock: the command is stopped at once, exit 75, and what is not ours is left as it
// is, value and time.
func TestCaseLeaseTakenOver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	atOnce([]bool{true, false}, func(ends bool) {
		job, life, log := fmt.Sprint("ends-", ends), newLifeline(t), filepath.Join(t.TempDir(), "log")
		p := caseStart(t, newHost(t, "web-1").command(caseRun(job, "--lease 2s --attempts 2", stopper(life, log, ends)...)...))
		eventually(t, "the command runs", hasLine(log, "up"))
		const foreign = "0123456789abcdef0123456789abcdefweb-9:99"
		if err := shared.rdb.Set(ctx, lockKey(t, job), foreign, time.Minute).Err(); err != nil {
			t.Error(err)
		}
		taken := time.Now()
		eventually(t, "the command is told", hasLine(log, "TERM"))
		if told := time.Since(taken); told > 1500*time.Millisecond { // a renewal is due every 500 ms
			t.Errorf("told after %v", told)
		}
		life.cut(t)
		p.wait().wantMatch(t, 75, "onceonly: "+job+" "+caseDay+": stopped: lease lost.*\n")
		value, left := leaseOf(t, job)
		if value != foreign || left > time.Minute || left < time.Minute-time.Since(taken)-time.Second {
			t.Errorf("the foreign lock is %q with %v left", value, left)
		}
		if e := entryOf(t, job, caseDay); e.State != "failed" || e.Reason != "lease_lost" {
			t.Errorf("entry %s, reason %q", e.State, e.Reason)
		}
	})
}

// The lock is gone, and another host has begun before anybody noticed: the first is stopped and told to whom it lost; what
// it reports does not overwrite the second's.
func TestCaseLeaseLostToAnother(t *testing.T) {
	t.Parallel()
	life, log := newLifeline(t), filepath.Join(t.TempDir(), "log")
	words := stopper(life, log, true)
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 2s --attempts 2", words...)...))
	eventually(t, "the command runs", hasLine(log, "up"))
	shared.rdb.Del(context.Background(), lockKey(t, "j"))
	second := newEnder(t)
	q := caseStart(t, newHost(t, "web-2").command(caseRun("j", "--lease 20s --attempts 2", second.command("0")...)...))
	eventually(t, "the second runs", second.up)
	p.wait().want(t, 75, fmt.Sprintf("onceonly: j %s: stopped: lease lost to web-2:%d (%[1]s, attempt 2)\n", caseDay, q.Process.Pid))
	life.cut(t)
	if e := entryOf(t, "j", caseDay); e.State != "running" || e.Attempt != 2 || e.Host != "web-2" {
		t.Errorf("entry %+v", e)
	}
	if value, _ := leaseOf(t, "j"); !strings.HasSuffix(value, fmt.Sprint("web-2:", q.Process.Pid)) {
		t.Errorf("the lock is %q", value)
	}
	second.end(t)
	if r := q.wait(); r.status != 0 {
		t.Error(r)
	}
	if e := entryOf(t, "j", caseDay); e.State != "done" || e.Stale != 1 {
		t.Errorf("entry %+v, want done and one stale report", e)
	}
}

// The end cannot be written. Until the lease is over it is tried; then one line, and 74 if the command succeeded, else the
// command's own status.
func TestCaseEndNotWritten(t *testing.T) {
	t.Parallel()
	atOnce([]string{"0 74 done", "3 3 exit 3"}, func(c string) {
		words := strings.SplitN(c, " ", 3)
		r, e := newRedis(t), newEnder(t)
		h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
		p := caseStart(t, h.command(caseRun("j", "--lease 1s", e.command(words[0])...)...))
		eventually(t, "the command runs", e.up)
		r.stop()
		e.end(t)
		status, _ := strconv.Atoi(words[1])
		p.wait().wantMatch(t, status, "(onceonly: j "+caseDay+": lease not renewed .*\n)?onceonly: j "+caseDay+": "+words[2]+
			", not recorded: .*connection refused.*\n")
	})
}

// An ender is a command that runs until it is told to end, and with what status.
type ender struct {
	upFile, endFile string
	life            *lifeline
}

func newEnder(t *testing.T) *ender {
	t.Helper()
	dir := t.TempDir()
	return &ender{filepath.Join(dir, "up"), filepath.Join(dir, "end"), newLifeline(t)}
}

func (e *ender) command(status string) []string {
	return []string{"sh", "-c", `exec 9>"$2"; echo up >>"$0"; until [ -e "$1" ]; do sleep 0.02; done; exit $3`,
		e.upFile, e.endFile, e.life.name, status}
}

func (e *ender) up() bool { return hasLine(e.upFile, "up")() }

// end tells it to end, and returns when it is dead.
func (e *ender) end(t *testing.T) {
	t.Helper()
	caseTouch(t, e.endFile, "")
	e.life.cut(t)
}

// Redis comes back while the lease still lasts: the end is written, and the status is the command's.
func TestCaseEndWrittenLate(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"0", "3"} {
		px, e := newProxy(t, shared.address()), newEnder(t)
		h := newHost(t, "web-1", "ONCEONLY_REDIS="+px.url(), "ONCEONLY_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
		p := caseStart(t, h.command(caseRun("j"+status, "--lease 10s", e.command(status)...)...))
		eventually(t, "the command runs", e.up)
		px.hangUp()
		e.end(t)
		px.forget()
		eventually(t, "the end is tried in vain", func() bool { return px.connections() > 1 })
		px.pass()
		n, _ := strconv.Atoi(status)
		p.wait().wantMatch(t, n, "(onceonly: j"+status+" "+caseDay+": lease not renewed .*\n)?")
		wantEntry(t, "j"+status, map[string]string{"0": "done", "3": "failed"}[status], n, "", "")
		if isHeld(t, "j"+status) {
			t.Error("the lease is still held")
		}
	}
}

// A Redis that dies and comes back with its data is the same one: the command goes on, and its end is written.
func TestCaseRedisRestarts(t *testing.T) {
	t.Parallel()
	r, e := newRedis(t, "--appendonly", "yes"), newEnder(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
	args := caseRun("j", "--lease 10s --exit-done 5", e.command("0")...)
	p := caseStart(t, h.command(args...))
	eventually(t, "the command runs", e.up)
	r.stop()
	e.end(t)
	if err := r.start("--appendonly", "yes"); err != nil {
		t.Fatal(err)
	}
	p.wait().wantMatch(t, 0, "(onceonly: j "+caseDay+": lease not renewed .*\n)?")
	h.run(args...).want(t, 5, "")
}
