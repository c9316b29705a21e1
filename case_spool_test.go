//go:build !race

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The spool: how a run ended is not lost when Redis is away at its end.

const durable = "--appendonly yes --appendfsync always"

func newDurableRedis(t *testing.T) *redisServer {
	t.Helper()
	return newRedis(t, strings.Fields(durable)...)
}

func back(t *testing.T, r *redisServer) {
	t.Helper()
	if err := r.start(strings.Fields(durable)...); err != nil {
		t.Fatal(err)
	}
}

func (h *host) stateDir() string {
	dir := ""
	for _, v := range h.env { // the last one counts
		if value, ok := strings.CutPrefix(v, "ONCEONLY_STATE_DIR="); ok {
			dir = value
		}
	}
	return dir
}

// kept are the files in the host's spool.
func (h *host) kept() []string {
	return filesIn(h.stateDir(), "*.json")
}

// setAside are the files that no ledger took.
func (h *host) setAside() []string {
	return filesIn(h.stateDir(), "*/*")
}

func notRecorded(job, how, dir string) string {
	return "(" + notRenewed(job) + ")?onceonly: " + job + " " + caseDay + ": " + how + ", not recorded: [^\n]+; kept in " +
		regexp.QuoteMeta(dir) + ", delivered by the next onceonly here\n"
}

// spoolEnd runs a command whose end Redis never hears of: it is killed just before, and is back with all that it had
// acknowledged when the file lies in the spool.
func spoolEnd(t *testing.T, r *redisServer, h *host, job, status string, options string) result {
	t.Helper()
	e := newEnder(t)
	p := caseStart(t, h.command(caseRun(job, "--lease 1s "+options, e.command(status)...)...))
	eventually(t, "the command runs", e.up)
	r.stop()
	e.end(t)
	got := p.wait()
	back(t, r)
	return got
}

// spooling is an onceonly that has kept its end, and tries in vain to write it.
func spooling(t *testing.T) (*redisServer, *host, *caseProc) {
	t.Helper()
	r, e := newDurableRedis(t), newEnder(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	p := caseStart(t, h.command(caseRun("j", "--lease 20s", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	r.stop()
	e.end(t)
	eventually(t, "the end is kept", func() bool { return len(h.kept()) == 1 })
	return r, h, p
}

// wantDelivered fails the test if the ledger does not say that j is done, or there is still something to deliver.
func wantDelivered(t *testing.T, r *redisServer, h *host) {
	t.Helper()
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || len(h.kept()) > 0 {
		t.Errorf("entry %+v, kept %v", e, h.kept())
	}
}

// Redis dies just before the end: 74, one line, a file that only its owner reads. The next onceonly on that host, of any
// job, delivers it: the entry is done, the file gone. To deliver it twice does no harm. What the directory is called does
// not matter, and what others have left unfinished goes.
func TestSpoolDelivered(t *testing.T) {
	t.Parallel()
	r, state := newDurableRedis(t), filepath.Join(t.TempDir(), "state [of] *")
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_STATE_DIR="+state)
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{".onceonly-old": 2 * time.Hour, ".onceonly-new": time.Minute} {
		caseTouch(t, filepath.Join(state, name), "")
		os.Chtimes(filepath.Join(state, name), time.Time{}, time.Now().Add(-age))
	}
	spoolEnd(t, r, h, "j", "0", "").wantMatch(t, 74, notRecorded("j", "done", h.stateDir()))
	spoolEnd(t, r, h, "k", "3", "").wantMatch(t, 3, notRecorded("k", "exit 3", h.stateDir())+`(onceonly: j[^\n]*\n)?`)
	files := h.kept()
	if len(files) != 1 { // that of j was delivered by k
		t.Fatalf("kept: %v", files)
	}
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || *e.Exit != 0 || e.Host != "web-1" || e.Ended == 0 {
		t.Errorf("entry of j: %+v", e)
	}
	for _, name := range files {
		if f, err := os.Stat(name); err != nil || f.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, f.Mode(), err)
		}
	}
	if d, err := os.Stat(h.stateDir()); err != nil || d.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", d.Mode(), err)
	}
	if left := filesIn(state, ".*"); len(left) != 1 || filepath.Base(left[0]) != ".onceonly-new" {
		t.Errorf("left unfinished: %q", left)
	}
	copied, _ := os.ReadFile(files[0])
	newHost(t, "web-2", "ONCEONLY_REDIS="+r.url()).run(caseRun("other", "", "true")...).want(t, 0, "")
	if len(h.kept()) != 1 {
		t.Error("another host delivered it")
	}
	h.run(caseRun("other", "--exit-done 9", "true")...).want(t, 9, "") // one that runs nothing delivers, too
	if e := entryIn(t, r.rdb, namespaceOf(t), "k", caseDay); e.State != "failed" || *e.Exit != 3 {
		t.Errorf("entry of k: %+v", e)
	}
	if heldIn(t, r.rdb, "k") || len(h.kept())+len(h.setAside()) != 0 {
		t.Errorf("held %v, kept %v %v", heldIn(t, r.rdb, "k"), h.kept(), h.setAside())
	}
	before := entryIn(t, r.rdb, namespaceOf(t), "k", caseDay)
	caseTouch(t, files[0], string(copied))
	h.run(caseRun("other", "", "true")...).want(t, 0, "")
	if after := entryIn(t, r.rdb, namespaceOf(t), "k", caseDay); fmt.Sprintf("%+v", *after.Exit) != fmt.Sprintf("%+v", *before.Exit) || after.State != before.State ||
		after.Ended != before.Ended || after.Stale != 0 || len(h.kept())+len(h.setAside()) != 0 {
		t.Errorf("delivered twice: %+v, was %+v, kept %v %v", after, before, h.kept(), h.setAside())
	}
}

// An onceonly of the very job and slot that the spool knows the end of: it is delivered first, and nothing runs again.
func TestSpoolSameSlot(t *testing.T) {
	t.Parallel()
	r := newDurableRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	e := newEnder(t)
	args := caseRun("j", "--lease 1s --attempts 3 --exit-done 9", e.command("0")...)
	p := caseStart(t, h.command(args...))
	eventually(t, "the command runs", e.up)
	r.stop()
	e.end(t)
	p.wait().wantMatch(t, 74, notRecorded("j", "done", h.stateDir()))
	back(t, r)
	h.run(args...).want(t, 9, "")
	if n := len(lines(e.upFile)); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// An end goes to the ledger that it belongs to, and to no other: not to another namespace, database or server.
func TestSpoolOtherLedgers(t *testing.T) {
	t.Parallel()
	r := newDurableRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	spoolEnd(t, r, h, "j", "0", "")
	files := h.kept()
	if len(files) != 1 {
		t.Fatalf("kept: %v", files)
	}
	for what, env := range map[string]string{
		"namespace": "ONCEONLY_NAMESPACE=" + namespaceOf(t) + ".other",
		"database":  "ONCEONLY_REDIS=" + strings.TrimSuffix(r.url(), "/0") + "/1",
		"server":    "ONCEONLY_REDIS=" + newRedis(t).url(),
	} {
		other := &host{t, h.name, append(slices.Clone(h.env), env)}
		other.run(caseRun("other", "", "true")...).want(t, 0, "")
		if now := h.kept(); !slices.Equal(now, files) || len(h.setAside()) > 0 {
			t.Errorf("another %s: kept %v, set aside %v", what, now, h.setAside())
		}
	}
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "running" {
		t.Errorf("entry %+v", e)
	}
	h.run(caseRun("other", "", "true")...).want(t, 0, "")
	wantDelivered(t, r, h)
}

// An end that comes after another attempt has begun is told by whoever delivers it, counted, and overwrites nothing.
func TestSpoolStale(t *testing.T) {
	t.Parallel()
	r := newDurableRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	spoolEnd(t, r, h, "j", "0", "--attempts 2")
	b := newHost(t, "web-2", "ONCEONLY_REDIS="+r.url())
	eventually(t, "the lease is over", func() bool { return !heldIn(t, r.rdb, "j") })
	if got := b.run(caseRun("j", "--attempts 2", "true")...); got.status != 0 {
		t.Errorf("the second attempt: %v", got)
	}
	before := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay)
	h.run(caseRun("next", "", "true")...).want(t, 0, "onceonly: j "+caseDay+": attempt 1 (web-1, exit 0) reported late; attempt 2 stands\n")
	e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay)
	if e.State != "done" || e.Attempt != 2 || e.Host != "web-2" || e.Stale != 1 || e.Ended != before.Ended || len(h.kept()) > 0 {
		t.Errorf("entry %+v, was %+v; kept %v", e, before, h.kept())
	}
	h.run(caseRun("after", "", "true")...).want(t, 0, "")
}

// onceonly is killed while it tries in vain to write the end: it lies in the spool already.
func TestSpoolSurvivesAKill(t *testing.T) {
	t.Parallel()
	r, h, p := spooling(t)
	p.say(unix.SIGKILL)
	p.wait()
	back(t, r)
	h.run(caseRun("next", "", "true")...).want(t, 0, "")
	wantDelivered(t, r, h)
}

// Redis is back before the lease is over: the end is written, the file removed, and all is silent but for the warning.
func TestSpoolRemovedWhenWritten(t *testing.T) {
	t.Parallel()
	r, h, p := spooling(t)
	back(t, r)
	p.wait().wantMatch(t, 0, "("+notRenewed("j")+")?")
	wantDelivered(t, r, h)
}

// Several onceonlys deliver the same spool at once: nothing is told, nothing set aside.
func TestSpoolDeliveredByManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newDurableRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	var ends []*ender
	var procs []*caseProc
	for k := range 5 {
		e := newEnder(t)
		procs = append(procs, caseStart(t, h.command(caseRun(fmt.Sprint("j", k), "--lease 2s", e.command("0")...)...)))
		ends = append(ends, e)
	}
	eventually(t, "the commands run", func() bool { return !slices.ContainsFunc(ends, func(e *ender) bool { return !e.up() }) })
	r.stop()
	for _, e := range ends {
		e.end(t)
	}
	for _, p := range procs {
		if got := p.wait(); got.status != 74 {
			t.Errorf("got %v", got)
		}
	}
	back(t, r)
	atOnce([]string{"a", "b", "c", "d", "e", "f"}, func(job string) {
		caseStart(t, h.command(caseRun(job, "", "true")...)).wait().want(t, 0, "")
	})
	for k := range 5 {
		if e := entryIn(t, r.rdb, namespaceOf(t), fmt.Sprint("j", k), caseDay); e.State != "done" || e.Stale != 0 {
			t.Errorf("entry %+v", e)
		}
	}
	if len(h.kept())+len(h.setAside()) > 0 {
		t.Errorf("kept %v, set aside %v", h.kept(), h.setAside())
	}
}

// Redis has no memory left when the command ends: the end is kept, and delivered, whole and once, when it has some again.
//
// Manual: Redis has no memory left
func TestSpoolOutOfMemory(t *testing.T) {
	t.Parallel()
	ctx, r, e := context.Background(), newRedis(t), newEnder(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	p := caseStart(t, h.command(caseRun("j", "--lease 2s", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	r.rdb.ConfigSet(ctx, "maxmemory", "1")
	left := func() time.Duration { return r.rdb.PTTL(ctx, lockKey(t, "j")).Val() }
	renewed(t, 3, 2*time.Second, left, func(time.Duration) { // it goes on: to renew takes no memory
		if !e.life.held() {
			t.Fatal("the command was stopped")
		}
	})
	e.end(t)
	p.wait().wantMatch(t, 74, "("+notRenewed("j")+")?onceonly: j "+caseDay+": done, not recorded: OOM [^\n]+; kept in "+h.stateDir()+", delivered by the next onceonly here\n")
	r.rdb.ConfigSet(ctx, "maxmemory", "0")
	h.run(caseRun("next", "", "true")...).want(t, 0, "")
	l := &ledger{r.rdb, namespaceOf(t)}
	ends := 0
	for _, m := range r.rdb.XRange(ctx, l.keys("j")[4], "-", "+").Val() {
		if m.Values["event"] == "end" {
			ends++
		}
	}
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || ends != 1 || len(h.kept())+len(h.setAside()) > 0 {
		t.Errorf("entry %+v, %d ends in the log, kept %v %v", e, ends, h.kept(), h.setAside())
	}
}
