package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cases of real users about what is known of a slot afterwards: whether it ran, and for how long that is kept.

// The ledger tells whether a slot is running, finished or dead: a run that was killed is never "running" for whoever asks
// after its lease. (SH-64, in the ledger)
func TestRunningFinishedOrDead(t *testing.T) {
	t.Parallel()
	h, other := newHost(t, "web-1"), newHost(t, "web-2")
	ctx, l := context.Background(), &ledger{shared.rdb, namespaceOf(t)}
	line := func(slot string) []string {
		return []string{"run", "--job", "etl", "--every", "day", "--date", slot, "--lease", "2s", "--", "sh", "-c", `[ -e "$0" ] || exec sleep 600; exit $(cat "$0")`}
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if text != "" {
			os.WriteFile(path, []byte(text), 0o600)
		}
		return path
	}

	dead := h.launch(append(line("2025-06-01"), file("never", ""))...)
	cmd := dead.cmd
	eventually(t, "it runs", func() bool { n, _ := l.HExists(ctx, l.keys("etl")[2], "2025-06-01").Result(); return n })
	e := entryOf(t, "etl", "2025-06-01")
	held, _ := l.Get(ctx, l.keys("etl")[0]).Result()
	if e.State != "running" || e.Host != "web-1" || e.PID != cmd.Process.Pid || e.Ended != 0 || e.Exit != nil || !strings.HasPrefix(held, e.RunID) {
		t.Errorf("while it runs: %+v, the lock %q", e, held)
	}
	ttl, _ := l.PTTL(ctx, l.keys("etl")[0]).Result()
	if ttl <= 0 || ttl > 2*time.Second {
		t.Errorf("the lease is left for %v", ttl)
	}
	other.run(append(append([]string{"run", "-v"}, line("2025-06-01")[1:]...), file("never", ""))...).wantLike(t, 0,
		fmt.Sprintf(`onceonly: etl 2025-06-01: not run: running on web-1:%d since [^\n]*, renewed [^\n]* ago, lease until [^\n]*`+"\n", cmd.Process.Pid))
	dead.die()
	if r := other.run(append(line("2025-06-01"), file("never", ""))...); r.status != 0 && slotLock(t, "etl") != "" { // it may still be alive
		t.Errorf("within the lease: %v", r)
	}
	eventually(t, "the lease is over", func() bool { n, _ := l.Exists(ctx, l.keys("etl")[0]).Result(); return n == 0 })
	other.run(append(line("2025-06-01"), file("never", ""))...).wantLike(t, exitNotDone,
		fmt.Sprintf(`onceonly: etl 2025-06-01: not run: uncertain: web-1:%d began at [^\n]* and never reported; it may have done all, part or nothing`+
			"\nonceonly: hint: find out, then onceonly resolve etl --date 2025-06-01 --done or --reopen, --reason TEXT\n", cmd.Process.Pid))

	r := h.launch(append(line("2025-06-02"), file("never", ""))...)
	childOf(t, r.cmd.Process.Pid)
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wait().wantLike(t, 143, "onceonly: etl 2025-06-01: uncertain: [^\n]*\nonceonly: hint: [^\n]*\n")
	if e := entryOf(t, "etl", "2025-06-02"); e.State != "failed" || e.Signal != "TERM" || e.Reason != "interrupted" || e.Ended < e.Began {
		t.Errorf("terminated: %+v", e)
	}
	h.run(append(line("2025-06-03"), file("good", "0"))...)
	if e := entryOf(t, "etl", "2025-06-03"); e.State != "done" || e.Exit == nil || *e.Exit != 0 || e.Ended < e.Began || e.Attempt != 1 {
		t.Errorf("done: %+v", e)
	}
	h.run(append(line("2025-06-04"), file("bad", "3"))...).wantLike(t, 3, "")
	if e := entryOf(t, "etl", "2025-06-04"); e.State != "failed" || e.Exit == nil || *e.Exit != 3 || e.Signal != "" {
		t.Errorf("failed: %+v", e)
	}
}

// 5,000 slots of a job: whatever --keep says bounds keys and bytes, an entry is below 400 bytes, and what was forgotten is
// refused, never run again. A thousand jobs that ran once leave a bounded number of keys each. (SH-65)
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	var all sync.WaitGroup
	for _, keep := range []int{10, 400, 1000} {
		all.Go(func() { boundedHistory(t, r, keep, 5000) })
	}
	all.Go(func() { oneRunJobs(t, r, 1000) })
	all.Wait()
}

// quickly runs a slot as run does, but for the command.
func quickly(l *ledger, c *call, at time.Time) (*reply, error) {
	_, reply, err := quickRun(l, c, at, true) // the slots lie years back, where no missed ones are looked for
	return reply, err
}

// quickRun also returns the lease, with begin's answer, or finish's, as it was sent.
func quickRun(l *ledger, c *call, at time.Time, dated bool) (*lease, *reply, error) {
	ctx := context.Background()
	var err error
	if c.slot, err = c.line.at(at); err != nil {
		return nil, nil, err
	}
	r := &run{call: c, try: 1, lease: newLease(l, c.command.job, "web-1:1", time.Minute)}
	q := r.question()
	q.Dated = dated
	if r.reply, err = r.lease.begin(ctx, q); err != nil || r.reply.Verdict != "run" {
		return r.lease, r.reply, err
	}
	e := r.end()
	e.State, e.Exit, e.Took, e.Listed = "done", "0", 90061, true
	_, err = r.lease.finish(ctx, e)
	return r.lease, r.reply, err
}

// boundedHistory runs so many slots of a job, and looks at what is kept of them.
func boundedHistory(t *testing.T, r *redisServer, keep, slots int) {
	c, err := newCallAt(t, time.Now(), map[string]string{"redis": r.url(), "job": fmt.Sprint("minutely-", keep), "schedule": "* * * * *", "keep": fmt.Sprint(keep),
		"host": "web-12.example.com", "attempts": "2"}, "/usr/bin/sync-orders", "--all")
	if err != nil {
		t.Error(err)
		return
	}
	begin := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
	half := int64(0) // bytes of ledger and slots after half of the slots
	for i := range slots {
		if reply, err := quickly(c.ledger, c, at(i)); err != nil || reply.Verdict != "run" {
			t.Errorf("keep %d, slot %d: %+v, %v", keep, i, reply, err)
			return
		}
		if i == slots/2-1 {
			half = bytesKept(c)
		}
	}
	boundedKeys(t, c, slots, half)
	boundedMemory(t, r, c, at(0), at(slots-keep))
}

// bytesKept is the size of what grows with the slots: ledger and slots.
func bytesKept(c *call) (bytes int64) {
	for _, k := range c.ledger.keys(c.command.job)[2:4] {
		n, _ := c.ledger.MemoryUsage(context.Background(), k, 0).Result()
		bytes += n
	}
	return bytes
}

// boundedKeys looks at the keys of a job that has run so many slots.
func boundedKeys(t *testing.T, c *call, slots int, half int64) {
	ctx, l, keys := context.Background(), c.ledger, c.ledger.keys(c.command.job)
	entries, _ := l.HLen(ctx, keys[2]).Result()
	ranked, _ := l.ZCard(ctx, keys[3]).Result()
	events, _ := l.XLen(ctx, keys[4]).Result()
	fields, _ := l.HLen(ctx, keys[5]).Result()
	hosts, _ := l.HLen(ctx, keys[6]).Result()
	if entries != int64(c.keep) || ranked != entries || events > int64(c.keep*4+200) || fields > 40 || hosts != 1 {
		t.Errorf("keep %d: %d entries, %d ranked, %d events, %d fields of meta, %d hosts", c.keep, entries, ranked, events, fields, hosts)
	}
	longest := 0
	texts, _ := l.HVals(ctx, keys[2]).Result()
	for _, text := range texts {
		longest = max(longest, len(text))
	}
	all, whole := int64(0), bytesKept(c)
	names, _ := l.Keys(ctx, l.namespace+":{"+c.command.job+"}*").Result()
	for _, k := range names {
		n, _ := l.MemoryUsage(ctx, k, 0).Result()
		all += n
	}
	t.Logf("keep %d after %d slots: %d keys, ledger+slots %d bytes = %d an entry, longest JSON %d bytes, all keys %d bytes", c.keep, slots,
		len(names), whole, whole/max(entries, 1), longest, all)
	if longest >= 400 {
		t.Errorf("an entry has %d bytes", longest)
	}
	if len(names) > 7 || slots/2 >= c.keep && whole > half*11/10 {
		t.Errorf("keep %d: keys %v; ledger and slots %d bytes, after half of the slots %d", c.keep, names, whole, half)
	}
}

// boundedMemory looks at what is known of a slot: the oldest that is kept, the one before, and the first of all, which was
// forgotten and is refused.
func boundedMemory(t *testing.T, r *redisServer, c *call, first, oldest time.Time) {
	low, err := quickly(c.ledger, c, oldest.Add(-time.Minute))
	if err != nil || low.Verdict != "old" {
		t.Errorf("keep %d: a forgotten slot: %+v, %v", c.keep, low, err)
	}
	if known, err := quickly(c.ledger, c, oldest); err != nil || known.Verdict != "done" {
		t.Errorf("keep %d: the oldest known slot: %+v, %v", c.keep, known, err)
	}
	refused := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).run("run", "--job", c.command.job, "--schedule", "* * * * *", "--keep", fmt.Sprint(c.keep),
		"--date", first.Format(time.RFC3339), "--", "echo", "again")
	refused.want(t, exitNotDone, fmt.Sprintf("onceonly: %s 2025-06-01T00:00: not run: the ledger reaches back to %s, nobody can say whether it ran\n",
		c.command.job, oldest.Format("2006-01-02T15:04")))
	if refused.stdout != "" {
		t.Error("a forgotten slot ran again")
	}
}

func oneRunJobs(t *testing.T, r *redisServer, jobs int) {
	ctx := context.Background()
	at := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	var l *ledger
	for i := range jobs {
		c, err := newCallAt(t, time.Now(), map[string]string{"redis": r.url(), "job": fmt.Sprint("once-", i)}, "/usr/bin/invoice")
		if err != nil {
			t.Error(err)
			return
		}
		if l != nil {
			c.ledger.Close()
			c.ledger = l
		}
		l = c.ledger
		if reply, err := quickly(l, c, at); err != nil || reply.Verdict != "run" {
			t.Errorf("job %d: %+v, %v", i, reply, err)
			return
		}
	}
	names, bytes := []string{}, int64(0)
	for iter := l.Scan(ctx, 0, l.namespace+":{once-*", 1000).Iterator(); iter.Next(ctx); {
		names = append(names, iter.Val())
	}
	for _, k := range names[:min(600, len(names))] {
		n, _ := l.MemoryUsage(ctx, k, 0).Result()
		bytes += n
	}
	t.Logf("%d jobs that ran once: %d keys = %.1f a job, %d bytes a job", jobs, len(names), float64(len(names))/float64(jobs),
		bytes*int64(len(names))/int64(min(600, len(names)))/int64(jobs))
	if len(names) > 6*jobs {
		t.Errorf("%d keys of %d jobs", len(names), jobs)
	}
}

// The slot that runs is never forgotten, however many newer ones come: else its end would be lost.
func TestHoldersSlotIsKept(t *testing.T) {
	t.Parallel()
	options := func(minute int) []string {
		return []string{"run", "--job", "tick", "--schedule", "* * * * *", "--keep", "10", "--date", fmt.Sprintf("2025-06-01T00:%02d:00Z", minute)}
	}
	one := newHost(t, "web-1").hold(filepath.Join(t.TempDir(), "log"), options(0)...)
	two := newHost(t, "web-2")
	for minute := 1; minute <= 30; minute++ {
		two.run(append(options(minute), "--", "true")...).wantOut(t, "")
	}
	if s := stateOf(t, "tick", "2025-06-01T00:00+00:00"); s != "running" {
		t.Errorf("the slot that runs is %q", s)
	}
	if n, _ := shared.rdb.HLen(context.Background(), jobKeys(t, "tick")[2]).Result(); n > 11 {
		t.Errorf("%d entries, 10 are to be kept", n)
	}
	one.open(0)
	one.wait().want(t, 0, "")
	two.run(append(options(0), "--", "echo", "again")...).wantOut(t, "")
	if s := stateOf(t, "tick", "2025-06-01T00:00+00:00"); s != "done" {
		t.Errorf("the slot that ran is %q", s)
	}
	two.run(append(options(5), "--", "echo", "again")...).wantLike(t, exitNotDone, "onceonly: tick 2025-06-01T00:05: not run: the ledger reaches back to .*")
}

// What is shown about an entry survives as JSON that others read: numbers are numbers, and the token is whole.
func TestEntryIsJSON(t *testing.T) {
	t.Parallel()
	newHost(t, "web-1").run("run", "--job", `a "b" ü`, "--date", "2025-06-10", "--", "true").wantOut(t, "")
	l := &ledger{shared.rdb, namespaceOf(t)}
	text, err := l.HGet(context.Background(), l.keys(`a "b" ü`)[2], "2025-06-10").Result()
	var e map[string]any
	if err = errors.Join(err, json.Unmarshal([]byte(text), &e)); err != nil {
		t.Fatal(err)
	}
	if token := fmt.Sprint(e["token"]); !regexp.MustCompile(`^\d{13}$`).MatchString(token) {
		t.Errorf("token %v in %s", e["token"], text)
	}
}

// An entry does not grow with the attempts that one process has made.
func TestEntryOfManyAttempts(t *testing.T) {
	t.Parallel()
	newHost(t, "web-12.example.com").run("run", "--job", "j", "--every", "day", "--attempts", "30", "--retry-delay", "1ms", "--date", caseDay, "--", "sh", "-c",
		`[ $ONCEONLY_ATTEMPT -lt 30 ] || exit 0; exit 3`)
	if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 30 || len(e.Earlier) != 1 {
		t.Errorf("%+v", e)
	}
	raw, err := shared.rdb.HGet(context.Background(), jobKeys(t, "j")[2], caseDay).Result()
	if err != nil || len(raw) > 400 {
		t.Errorf("%v, %d bytes: %s", err, len(raw), raw)
	}
}
