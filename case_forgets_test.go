//go:build !race

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Users' cases where Redis is there, and has forgotten what a running command relies on: its lease, all, or the scripts.

func heldIn(t *testing.T, rdb redis.UniversalClient, job string) bool {
	t.Helper()
	n, err := rdb.Exists(context.Background(), lockKey(t, job)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

func lostLine(job, host string, attempt int) string {
	return fmt.Sprintf(`onceonly: %s %s: stopped: lease lost to %s:\d+ \(%s, attempt %d\)`+"\n", job, caseDay, host, caseDay, attempt)
}

// SH-06: somebody deletes the lock under a running command, and nobody comes. The lease is regained at the next renewal;
// the run completes as if nothing had been.
func TestCaseLockDeleted(t *testing.T) {
	t.Parallel()
	px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "--lease 3s", beating(t, log, "20ms", "5s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	before := entryOf(t, "j", caseDay)
	renewalPasses(t, px)
	shared.rdb.Del(context.Background(), lockKey(t, "j"))
	at := bootNow()
	eventually(t, "the lease is regained", func() bool { return isHeld(t, "j") })
	if took := time.Duration(bootNow() - at); took > 750*time.Millisecond+400*time.Millisecond {
		t.Errorf("regained after %v, renewals are 750 ms apart", took)
	}
	p.wait().want(t, 0, "")
	if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 1 || e.Token != before.Token || e.RunID != before.RunID || e.Stale != 0 {
		t.Errorf("entry %+v, before %+v", e, before)
	}
	wantWhole(t, log)
	if isHeld(t, "j") {
		t.Error("the lease is still held")
	}
}

// SH-06: somebody deletes the lock, and another host begins before it is regained. The holder sees it at its next renewal,
// stops, ends 75 and names the new holder; its end does not count. With one attempt the other is refused.
func TestCaseLockDeletedAndTaken(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{2, 1} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			t.Parallel()
			px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			args := caseRun("j", fmt.Sprintf("--lease 3s --attempts %d", attempts), beating(t, log, "10ms", "4s")...)
			a := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(args...))
			eventually(t, "it begins", beats(log, "web-1"))
			renewalPasses(t, px)
			shared.rdb.Del(context.Background(), lockKey(t, "j"))
			b := caseStart(t, newHost(t, "web-2").command(args...))
			if attempts == 1 {
				if r := b.wait(); r.status != 75 || !regexp.MustCompile(uncertainLine("j", caseDay, "web-1")).MatchString(r.stderr) {
					t.Errorf("the other: %v", r)
				}
				a.wait().want(t, 0, "")
				if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 1 {
					t.Errorf("entry %+v", e)
				}
				return
			}
			a.wait().wantMatch(t, 75, lostLine("j", "web-2", 2))
			b.wait().wantMatch(t, 0, `(onceonly: j `+caseDay+`: taking over[^\n]*\n)?`)
			if over := -handover(t, log, "web-1", "web-2"); over > 750*time.Millisecond+300*time.Millisecond {
				t.Errorf("two ran together for %v, renewals are 750 ms apart", over)
			} else {
				t.Logf("two ran together for %v", over)
			}
			if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" || e.Stale != 1 {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

// SH-29: a failover to a server that never saw the lock. Nobody else came: the attempt is written again, with its own
// token, and completes there.
//
// Manual: Redis restarts
func TestCaseEmptyServerRegained(t *testing.T) {
	t.Parallel()
	empty, log := newRedis(t), filepath.Join(t.TempDir(), "log")
	px := newProxy(t, shared.address())
	a := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "--lease 3s", beating(t, log, "20ms", "5s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	renewalPasses(t, px)
	px.switchTo(empty.address())
	eventually(t, "regained", func() bool { return heldIn(t, empty.rdb, "j") })
	b := newHost(t, "web-2", "ONCEONLY_REDIS="+px.url())
	b.run(caseRun("j", "--lease 3s --exit-busy 5", "true")...).want(t, 5, "")
	a.wait().want(t, 0, "")
	e := entryIn(t, empty.rdb, namespaceOf(t), "j", caseDay)
	if first := beatsOf(log)[0]; e.State != "done" || e.Attempt != 1 || e.Token != first.token || e.Host != "web-1" {
		t.Errorf("entry %+v, the command's token was %d", e, first.token)
	}
	b.run(caseRun("j", "--lease 3s --exit-done 6", "true")...).want(t, 6, "")
	if r := b.run("status", "j"); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "done") {
		t.Errorf("status: %v", r)
	}
	if n, _ := empty.rdb.SIsMember(context.Background(), namespaceOf(t)+":jobs", "j").Result(); !n {
		b.run(caseRun("j", "--lease 3s --date 2024-03-01", "true")...).want(t, 0, "")
		if n, _ := empty.rdb.SIsMember(context.Background(), namespaceOf(t)+":jobs", "j").Result(); !n {
			t.Error("the job is not in the list of jobs, also after the next run")
		}
	}
}

// SH-29: the same, and another host began first on the empty server: the first sees it at its next renewal.
//
// Manual: Redis fails over
func TestCaseEmptyServerTaken(t *testing.T) {
	t.Parallel()
	empty, log := newRedis(t), filepath.Join(t.TempDir(), "log")
	px := newProxy(t, shared.address())
	args := caseRun("j", "--lease 3s", beating(t, log, "10ms", "4s")...)
	a := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(args...))
	eventually(t, "it begins", beats(log, "web-1"))
	renewalPasses(t, px)
	px.switchTo(empty.address())
	b := caseStart(t, newHost(t, "web-2", "ONCEONLY_REDIS="+px.url()).command(args...))
	a.wait().wantMatch(t, 75, lostLine("j", "web-2", 1))
	b.wait().want(t, 0, "")
	over := -handover(t, log, "web-1", "web-2")
	if t.Logf("two ran together for %v", over); over > 750*time.Millisecond+300*time.Millisecond {
		t.Errorf("two ran together for %v, renewals are 750 ms apart", over)
	}
	if e := entryIn(t, empty.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Host != "web-2" || e.Stale != 1 {
		t.Errorf("entry %+v", e)
	}
}

// SH-30: the server forgets its scripts during a run, again and again, and just before the end.
func TestCaseScriptsFlushedDuringARun(t *testing.T) {
	t.Parallel()
	ctx, r, e := context.Background(), newRedis(t), newEnder(t)
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).command(caseRun("j", "--lease 1s", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	left := func() time.Duration { return r.rdb.PTTL(ctx, lockKey(t, "j")).Val() }
	for range 8 {
		r.rdb.ScriptFlush(ctx)
		renewed(t, 1, time.Second, left, func(now time.Duration) {
			if now <= 0 {
				t.Fatal("the lease is lost")
			}
		})
	}
	r.rdb.ScriptFlush(ctx)
	e.end(t)
	p.wait().want(t, 0, "")
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || heldIn(t, r.rdb, "j") {
		t.Errorf("entry %+v, held %v", e, heldIn(t, r.rdb, "j"))
	}
}

// A lock is there that no run of the ledger has: what it is of cannot be said, and is not.
func TestCaseForeignLock(t *testing.T) {
	t.Parallel()
	shared.rdb.Set(context.Background(), lockKey(t, "j"), "somebody", time.Minute)
	h := newHost(t, "web-1")
	h.run("run", "-v", "--job", "j", "--wait-max", "100ms", "--date", caseDay, "--", "true").want(t, exitNotDone,
		"onceonly: j "+caseDay+": waiting for another slot, running on some host\n"+
			"onceonly: j "+caseDay+": not run: another slot still running on some host after 0s\n")
	h.run("run", "-v", "--job", "j", "--overlap", "skip", "--date", caseDay, "--", "true").want(t, 0,
		"onceonly: j "+caseDay+": skipped: another slot still running on some host\n")
}
