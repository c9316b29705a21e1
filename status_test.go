package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The views are compared whole. The ledgers are written as the scripts write them and read by look.lua; only the clock
// of the answer is set, so that a test says the same every day.

const seoulNow = "2026-11-29T09:11:00+09:00"

func msOf(t *testing.T, at string) int64 {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.UnixMilli()
}

// A seed writes one job of the test's namespace.
type seed struct {
	t   *testing.T
	l   *ledger
	job string
}

func newSeed(t *testing.T, job string, meta ...any) *seed {
	s := &seed{t, &ledger{shared.rdb, namespaceOf(t)}, job}
	s.do("sadd", s.l.jobsKey(), job)
	meta = append([]any{"zone", "Asia/Seoul", "every", "day", "schedule", "", "day_start", "00:00", "attempts", "1",
		"lease", "120000", "listed", "1"}, meta...)
	s.do(append([]any{"hset", s.l.keys(job)[5]}, meta...)...)
	return s
}

func (s *seed) do(args ...any) {
	s.t.Helper()
	if err := s.l.Do(context.Background(), args...).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// entry writes an entry; fields are the JSON's inside.
func (s *seed) entry(slot, begins, fields string, args ...any) *seed {
	s.t.Helper()
	s.do("hset", s.l.keys(s.job)[2], slot, "{"+fmt.Sprintf(fields, args...)+"}")
	s.do("zadd", s.l.keys(s.job)[3], msOf(s.t, begins), slot)
	return s
}

// ran writes an entry that an attempt left; more is JSON, and beats the rest.
func (s *seed) ran(slot, begins, began, host string, took time.Duration, more string) *seed {
	s.t.Helper()
	ms := msOf(s.t, began)
	all := map[string]any{"state": "done", "run_id": fmt.Sprintf("%032x", ms), "try": 1, "attempt": 1,
		"token": strconv.FormatInt(ms, 10), "host": host, "pid": 977, "user": "app", "began": ms}
	if took > 0 {
		all["ended"], all["exit"] = ms+took.Milliseconds(), 0
	}
	if err := json.Unmarshal([]byte("{"+more+"}"), &all); err != nil {
		s.t.Fatal(err)
	}
	text, _ := json.Marshal(all)
	return s.entry(slot, begins, "%s", strings.Trim(string(text), "{}"))
}

// days writes done days back from a date, oldest last.
func (s *seed) days(last string, n int, at string) *seed {
	day, _ := time.Parse(time.DateOnly, last)
	for range n {
		d := day.Format(time.DateOnly)
		s.ran(d, d+"T"+at+"+09:00", d+"T"+at+"+09:00", "web-2", time.Minute, "")
		day = day.AddDate(0, 0, -1)
	}
	return s
}

func (s *seed) event(at string, fields ...any) *seed {
	s.t.Helper()
	s.do(append([]any{"xadd", s.l.keys(s.job)[4], fmt.Sprintf("%d-*", msOf(s.t, at))}, fields...)...)
	return s
}

func (s *seed) lock(value string) *seed {
	s.do("set", s.l.keys(s.job)[0], value, "px", 600000)
	return s
}

// view is what status prints at an instant.
func view(t *testing.T, a statusAsk, now string, ttl time.Duration) string {
	t.Helper()
	a.namespace = namespaceOf(t)
	l := &ledger{shared.rdb, a.namespace}
	names := []string{a.job}
	if a.job == "" {
		names = shared.rdb.SMembers(context.Background(), l.jobsKey()).Val()
		slices.Sort(names)
	}
	var jobs []*jobState
	for _, name := range names {
		briefs, entries, hosts := a.reach()
		cmd := eval(context.Background(), lookLua, l.keys(name), briefs, entries, a.date, hosts)
		l.Process(context.Background(), cmd)
		answer, err := cmd.Slice()
		if err != nil {
			t.Fatal(err)
		}
		answer[0] = strconv.FormatInt(msOf(t, now), 10)
		if answer[2].(int64) > 0 {
			answer[2] = ttl.Milliseconds()
		}
		j := newJobState(a.namespace, name, answer)
		j.fill(briefs)
		if a.date != "" && !j.choose(a.date) {
			s, err := j.parse(a.date)
			if err != nil {
				t.Fatal(err)
			}
			j.chooseNew(s)
		}
		jobs = append(jobs, j)
	}
	var b strings.Builder
	if err := a.print(&b, jobs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

const backupRuns = "00000000000000000000000000000977"

// seedFleet writes the jobs of the interface's sample.
func seedFleet(t *testing.T) {
	backup := newSeed(t, "backup", "schedule", "30 2 * * *", "attempts", "2", "first", "2026-10-31", "current", "2026-11-29",
		"heard", msOf(t, "2026-11-29T03:02:11+09:00"))
	backup.days("2026-11-22", 23, "02:30:00").
		entry("2026-11-23", "2026-11-23T02:30:00+09:00", `"state":"paused","attempt":0,"host":"web-1","began":%d`,
			msOf(t, "2026-11-23T02:30:00+09:00")).
		ran("2026-11-24", "2026-11-24T02:30:00+09:00", "2026-11-24T02:42:01+09:00", "web-2", 33*time.Minute, "").
		ran("2026-11-26", "2026-11-26T02:30:00+09:00", "2026-11-26T02:31:00+09:00", "web-3.example.com", 12*time.Second,
			`"attempt":2,"signal":"KILL","exit":null,"resolved":{"as":"done","by":"kim","at":1,"reason":"bank"}`).
		ran("2026-11-27", "2026-11-27T02:30:00+09:00", "2026-11-27T02:31:12+09:00", "web-1", 29*time.Minute, `"attempt":2`).
		ran("2026-11-28", "2026-11-28T02:30:00+09:00", "2026-11-28T02:30:00+09:00", "web-4", 31*time.Minute, "").
		ran("2026-11-29", "2026-11-29T02:30:00+09:00", "2026-11-29T02:30:00+09:00", "web-1", 0,
			`"state":"running","run_id":"`+backupRuns+`"`).
		event("2026-11-29T02:30:00+09:00", "event", "begin", "slot", "2026-11-29", "attempt", "1", "token",
			msOf(t, "2026-11-29T02:30:00+09:00"), "host", "web-1:977", "user", "app", "run_id", backupRuns, "version", "1.0.0")
	newSeed(t, "close-books", "every", "month", "first", "2026-11").
		ran("2026-11", "2026-11-01T00:00:00+09:00", "2026-11-01T03:00:00+09:00", "web-3", 62*time.Minute+10*time.Second,
			`"state":"failed","signal":"TERM","exit":null,"reason":"timeout"`)
	etl := newSeed(t, "etl", "schedule", "0 2 * * *", "first", "2026-11-20", "current", "2026-11-29",
		"heard", msOf(t, "2026-11-29T09:10:48+09:00"))
	etl.days("2026-11-28", 4, "02:00:00").days("2026-11-23", 4, "02:00:00").
		ran("2026-11-29", "2026-11-29T02:00:00+09:00", "2026-11-29T02:00:01.093+09:00", "web-1", 0,
			`"state":"running","run_id":"`+backupRuns+`","pid":1022`).
		event("2026-11-29T02:00:01.093+09:00", "event", "begin", "slot", "2026-11-29", "attempt", "1", "token",
			"1795885201093", "host", "web-1:1022", "user", "app", "run_id", backupRuns, "version", "1.0.0").
		lock(backupRuns + "web-1:1022")
	newSeed(t, "invoice", "schedule", "0 2 * * *", "first", "2026-11-16").days("2026-11-28", 13, "02:00:00").
		ran("2026-11-29", "2026-11-29T02:00:00+09:00", "2026-11-29T02:00:01.093+09:00", "web-2", 252107*time.Millisecond, "")
	newSeed(t, "report", "schedule", "30 2 * * *", "first", "2026-11-26").days("2026-11-28", 3, "02:30:00")
	ticks := newSeed(t, "sync-orders", "schedule", "*/5 * * * *", "first", "2026-11-29T08:50+09:00")
	for minute, state := range map[string]string{"09:10": "done", "09:05": "failed", "08:55": "done", "08:50": "done"} {
		at := "2026-11-29T" + minute + ":00+09:00"
		ticks.ran("2026-11-29T"+minute+"+09:00", at, at, "web-4", 38*time.Second, `"state":"`+state+`"`)
	}
	ticks.entry("2026-11-29T09:00+09:00", "2026-11-29T09:00:00+09:00",
		`"state":"skipped","attempt":0,"host":"web-1","began":%d,"behind":"2026-11-29T08:55+09:00"`,
		msOf(t, "2026-11-29T09:00:00+09:00"))
	newSeed(t, "청구서-발송").days("2026-11-29", 2, "02:00:00")
}

func TestStatusAllJobs(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	same(t, view(t, statusAsk{}, seoulNow, time.Minute), `
JOB          SLOT              STATE      HOST   AGO   TOOK  HISTORY
backup       2026-11-29        uncertain  web-1   6h      -  .......p.-++.?
close-books  2026-11           failed     web-3  28d  1h02m               F
etl          2026-11-29        running    web-1   7h      -      ....-....>
invoice      2026-11-29        done       web-2   7h  4m12s  ..............
report       2026-11-29        late       -       6h      -            ...!
sync-orders  2026-11-29T09:10  done       web-4  22s    38s           ..sF.
청구서-발송  2026-11-29        done       web-2   7h  1m00s              ..
7 jobs, 4 need attention: backup close-books etl report
`)
	same(t, view(t, statusAsk{problems: true}, seoulNow, time.Minute), `
JOB          SLOT        STATE      HOST   AGO   TOOK  HISTORY
backup       2026-11-29  uncertain  web-1   6h      -  .......p.-++.?
close-books  2026-11     failed     web-3  28d  1h02m               F
etl          2026-11-29  running    web-1   7h      -      ....-....>
report       2026-11-29  late       -       6h      -            ...!
7 jobs, 4 need attention: backup close-books etl report
`)
}

func TestStatusOneJob(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	same(t, view(t, statusAsk{job: "backup", n: 7}, seoulNow, 0), `
backup   30 2 * * *   Asia/Seoul   attempts 2   next due 2026-11-30 02:30
.......................p.-++.?    30 slots, 2 need attention

SLOT        STATE      ATT  HOST   STARTED   TOOK  EXIT  NOTE
2026-11-29  uncertain    1  web-1  02:30:00     -     -
2026-11-28  done         1  web-4  02:30:00   31m     0
2026-11-27  done         2  web-1  02:31:12   29m     0  retried
2026-11-26  done         2  web-3  02:31:00   12s  KILL  resolved by kim
2026-11-25  missed       -  -      -            -     -
2026-11-24  done         1  web-2  02:42:01   33m     0  12m late
2026-11-23  paused       -  -      -            -     -

uncertain 2026-11-29: web-1:977 began at 02:30:00, last heard of at 03:02:11; it
  may have done all, part or nothing; 1 attempt left, nobody has asked since.
  onceonly resolve backup --date 2026-11-29 --done (or --reopen) --reason TEXT
missed 2026-11-25: onceonly run --job backup --date 2026-11-25 -- COMMAND
`)
	same(t, view(t, statusAsk{job: "sync-orders", n: 4}, seoulNow, 0), `
sync-orders   */5 * * * *   Asia/Seoul   attempts 1   next due 2026-11-29 09:15
..sF.    5 slots, none needs attention

SLOT              STATE    ATT  HOST   STARTED   TOOK  EXIT  NOTE
2026-11-29T09:10  done       1  web-4  09:10:00   38s     0
2026-11-29T09:05  failed     1  web-4  09:05:00   38s     0
2026-11-29T09:00  skipped    -  -      -            -     -  08:55 was running
2026-11-29T08:55  done       1  web-4  08:55:00   38s     0
`)
	merged := newSeed(t, "merged", "schedule", "0 2 * * *", "first", "2026-11-27").days("2026-11-29", 1, "02:00:00").
		entry("2026-11-28", "2026-11-28T02:00:00+09:00", `"state":"merged","attempt":0,"host":"web-1","began":%d,"into":"2026-11-29"`,
			msOf(t, "2026-11-29T02:00:00+09:00"))
	merged.ran("2026-11-27", "2026-11-27T02:00:00+09:00", "2026-11-29T01:00:00+09:00", "10.0.0.7", time.Second,
		`"state":"failed","exit":127,"attempt":0,"reason":"not_started","by_hand":true`)
	same(t, view(t, statusAsk{job: "merged"}, seoulNow, 0), `
merged   0 2 * * *   Asia/Seoul   attempts 1   next due 2026-11-30 02:00
Fm.    3 slots, 1 needs attention

SLOT        STATE   ATT  HOST      STARTED          TOOK  EXIT  NOTE
2026-11-29  done      1  web-2     02:00:00        1m00s     0
2026-11-28  merged    -  -         -                   -     -  with 2026-11-29
2026-11-27  failed    -  10.0.0.7  11-29 01:00:00     1s   127  not started, by hand

failed 2026-11-27: not started, exit 127 on 10.0.0.7:977 at 11-29 01:00:01, 1
  attempt left.
  onceonly resolve merged --date 2026-11-27 --done (or --reopen) --reason TEXT
`)
	same(t, view(t, statusAsk{job: "report", n: 1}, seoulNow, 0), `
report   30 2 * * *   Asia/Seoul   attempts 1   next due 2026-11-30 02:30
...!    4 slots, 1 needs attention

SLOT        STATE  ATT  HOST  STARTED  TOOK  EXIT  NOTE
2026-11-29  late     -  -     -           -     -

late 2026-11-29: due at 02:30:00, nobody has begun. Which hosts have the line:
  onceonly status report --hosts
`)
}

func TestStatusOneSlot(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	same(t, view(t, statusAsk{job: "backup", date: "2026-11-29"}, seoulNow, 0), `
backup 2026-11-29   uncertain   due 02:30:00 Asia/Seoul   key backup/2026-11-29

ATT  STATE      HOST       STARTED         ENDED  TOOK  EXIT  TOKEN
  1  uncertain  web-1:977  11-29 02:30:00  -         -     -  1795887000000

02:30:00  web-1:977    attempt 1 began   00000000000000000000000000000977
03:02:11  web-1:977    last renewed      lease over at 03:04:11
onceonly resolve backup --date 2026-11-29 --done (or --reopen) --reason TEXT
`)
	same(t, view(t, statusAsk{job: "etl", date: "2026-11-29"}, seoulNow, 108*time.Second), `
etl 2026-11-29   running   due 02:00:00 Asia/Seoul   key etl/2026-11-29

ATT  STATE    HOST        STARTED         ENDED   TOOK  EXIT  TOKEN
  1  running  web-1:1022  11-29 02:00:01  -      7h10m     -  1795885201093
         renewed 12s ago, lease until 09:12:48; the last 8 took 1m00s at most

02:00:01  web-1:1022   attempt 1 began   00000000000000000000000000000977
`)
	same(t, view(t, statusAsk{job: "backup", date: "2026-11-25"}, seoulNow, 0), `
backup 2026-11-25   missed   due 02:30:00 Asia/Seoul   key backup/2026-11-25
onceonly run --job backup --date 2026-11-25 -- COMMAND
`)
	same(t, view(t, statusAsk{job: "backup", date: "2026-10-01"}, seoulNow, 0), `
backup 2026-10-01   nobody has asked for it   due 02:30:00 Asia/Seoul
`)
}

// An attempt that was overtaken and reports in the end is told as stale, beside the one that stands.
func TestStatusAttempts(t *testing.T) {
	t.Parallel()
	s := newSeed(t, "etl", "schedule", "0 2 * * *", "attempts", "3", "first", "2026-11-29")
	s.ran("2026-11-29", "2026-11-29T02:00:00+09:00", "2026-11-29T02:20:00+09:00", "web-3", time.Minute,
		`"attempt":3,"stale":1,"token":"300","rerun":"bank","run_id":"`+strings.Repeat("3", 32)+`"`)
	begin := func(at string, n, token int) {
		s.event(at, "event", "begin", "slot", "2026-11-29", "attempt", n, "token", token, "host", fmt.Sprintf("web-%d:977", n),
			"user", "app", "run_id", strings.Repeat(strconv.Itoa(n), 32), "version", "1.0.0")
	}
	end := func(at, what string, n, token int, state, exit, kept string, took int) {
		s.event(at, "event", what, "slot", "2026-11-29", "attempt", n, "token", token, "host", fmt.Sprintf("web-%d:977", n),
			"user", "app", "state", state, "exit", exit, "signal", "", "reason", "", "kept", kept, "took", took)
	}
	begin("2026-11-29T02:00:00+09:00", 1, 100)
	end("2026-11-29T02:00:41+09:00", "end", 1, 100, "failed", "1", "1", 41000)
	begin("2026-11-29T02:05:00+09:00", 2, 200)
	begin("2026-11-29T02:20:00+09:00", 3, 300)
	end("2026-11-29T02:21:00+09:00", "end", 3, 300, "done", "0", "", 60000)
	end("2026-11-29T02:30:00+09:00", "stale", 2, 200, "done", "0", "", 1500000)
	s.event("2026-11-29T03:00:00+09:00", "event", "resolve", "slot", "2026-11-28", "by", "kim")
	s.event("2026-11-29T04:02:00+09:00", "event", "stop", "slot", "2026-11-29", "by", "lee@bastion", "reason", "hangs on NFS")
	same(t, view(t, statusAsk{job: "etl", date: "2026-11-29"}, seoulNow, 0), `
etl 2026-11-29   done   due 02:00:00 Asia/Seoul   key etl/2026-11-29

ATT  STATE   HOST       STARTED         ENDED      TOOK  EXIT  TOKEN
  1  failed  web-1:977  11-29 02:00:00  02:00:41    41s     1  100
  2  stale   web-2:977  11-29 02:05:00  02:30:00    25m     0  200
  3  done    web-3:977  11-29 02:20:00  02:21:00  1m00s     0  300

02:00:00  web-1:977    attempt 1 began   11111111111111111111111111111111
02:00:41  web-1:977    attempt 1 failed  exit 1, lease kept
02:05:00  web-2:977    attempt 2 began   22222222222222222222222222222222
02:20:00  web-3:977    attempt 3 began   33333333333333333333333333333333
02:21:00  web-3:977    attempt 3 done
02:30:00  web-2:977    attempt 2 stale   done, exit 0
04:02:00  lee@bastion  stop              "hangs on NFS"
`)
	same(t, view(t, statusAsk{job: "etl", n: 7}, seoulNow, 0), `
etl   0 2 * * *   Asia/Seoul   attempts 3   next due 2026-11-30 02:00
+    1 slot, none needs attention

SLOT        STATE  ATT  HOST   STARTED    TOOK  EXIT  NOTE
2026-11-29  done     3  web-3  02:20:00  1m00s     0  rerun, stale +1
`)
}

func TestStatusHosts(t *testing.T) {
	t.Parallel()
	s := newSeed(t, "invoice").days("2026-11-29", 1, "02:00:00")
	roll := func(id, asked, slot, answer, line string) {
		s.do("hset", s.l.keys("invoice")[6], id, fmt.Sprintf(`{"asked":%d,"slot":%q,"answer":%s,"line":%q,"version":"1.0.0"}`,
			msOf(t, asked), slot, answer, line))
	}
	roll("web-1 a1b2c3d4", "2026-11-29T02:00:00.120+09:00", "2026-11-29", `"busy"`, "9c1e0a0b")
	roll("web-2 a1b2c3d5", "2026-11-29T02:00:00+09:00", "2026-11-29", `"ran"`, "9c1e0a0b")
	roll("web-3", "2026-11-29T02:00:01+09:00", "2026-11-29", `"refused","why":"zone"`, "9c1e0a0b")
	roll("web-4", "2026-11-12T02:00:00+09:00", "2026-11-12", `"done"`, "77d00a0b")
	same(t, view(t, statusAsk{job: "invoice", hosts: true}, seoulNow, 0), `
HOST   ASKED                SLOT        ANSWER        LINE  VERSION
web-1  2026-11-29 02:00:00  2026-11-29  busy          9c1e  1.0.0
web-2  2026-11-29 02:00:00  2026-11-29  ran           9c1e  1.0.0
web-3  2026-11-29 02:00:01  2026-11-29  refused:zone  9c1e  1.0.0
web-4  2026-11-12 02:00:00  2026-11-12  done          77d0  1.0.0
web-4: last asked 17 days ago; its line differs from the others'
`)
	var jobs []map[string]any
	if err := json.Unmarshal([]byte(view(t, statusAsk{job: "invoice", hosts: true, json: true, n: 1}, seoulNow, 0)), &jobs); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"host": "web-3", "asked_at": "2026-11-29T02:00:01+09:00", "slot": "2026-11-29", "answer": "refused",
		"why": "zone", "line": "9c1e", "version": "1.0.0"}
	if got := jobs[0]["hosts"].([]any)[2]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The JSON of one slot, whole: the interface's sample.
func TestStatusJSON(t *testing.T) {
	t.Parallel()
	s := newSeed(t, "invoice", "schedule", "0 2 * * *", "first", "2026-10-31", "current", "2026-11-29")
	s.days("2026-11-28", 29, "02:00:00").do("set", s.l.keys("invoice")[1], "1795885201093")
	s.ran("2026-11-29", "2026-11-29T02:00:00+09:00", "2026-11-29T02:00:01.093+09:00", "web-2", 252107*time.Millisecond,
		`"pid":5120,"run_id":"6f1c0a9be27d4f0c8d5b3c7e9a1f2b40"`)
	s.event("2026-11-29T02:00:01.093+09:00", "event", "begin", "slot", "2026-11-29", "attempt", "1", "token", "1795885201093",
		"host", "web-2:5120", "user", "app", "run_id", "6f1c0a9be27d4f0c8d5b3c7e9a1f2b40", "version", "1.0.0")
	same(t, view(t, statusAsk{job: "invoice", date: "2026-11-29", json: true, n: 7}, seoulNow, 0), `
[
  {
    "job": "invoice",
    "namespace": "TestStatusJSON",
    "as_of": "2026-11-29T09:11:00+09:00",
    "state": "done",
    "slot": "2026-11-29",
    "attention": [],
    "every": null,
    "schedule": "0 2 * * *",
    "zone": "Asia/Seoul",
    "day_start": "00:00",
    "attempts_allowed": 1,
    "lease_seconds": 120,
    "due_at": "2026-11-29T02:00:00+09:00",
    "next_due_at": "2026-11-30T02:00:00+09:00",
    "first_slot": "2026-10-31",
    "oldest_slot": "2026-10-31",
    "missed": [],
    "paused": null,
    "holder": null,
    "token": 1795885201093,
    "last_done": {
      "slot": "2026-11-29",
      "ended_at": "2026-11-29T02:04:13.200+09:00"
    },
    "consecutive_failures": 0,
    "counts": {
      "done": 30,
      "failed": 0,
      "uncertain": 0,
      "skipped": 0,
      "merged": 0,
      "paused": 0,
      "missed": 0
    },
    "slots": [
      {
        "slot": "2026-11-29",
        "business_date": "2026-11-29",
        "state": "done",
        "due_at": "2026-11-29T02:00:00+09:00",
        "started_at": "2026-11-29T02:00:01.093+09:00",
        "ended_at": "2026-11-29T02:04:13.200+09:00",
        "late_seconds": 1.093,
        "duration_seconds": 252.107,
        "attempt": 1,
        "attempts_left": 0,
        "exit_status": 0,
        "signal": null,
        "reason": null,
        "host": "web-2",
        "pid": 5120,
        "user": "app",
        "run_id": "6f1c0a9be27d4f0c8d5b3c7e9a1f2b40",
        "token": 1795885201093,
        "by_hand": false,
        "key": "invoice/2026-11-29",
        "merged_into": null,
        "resolved": null,
        "stale_reports": 0,
        "attempts": [
          {
            "attempt": 1,
            "state": "done",
            "host": "web-2",
            "pid": 5120,
            "user": "app",
            "run_id": "6f1c0a9be27d4f0c8d5b3c7e9a1f2b40",
            "token": 1795885201093,
            "started_at": "2026-11-29T02:00:01.093+09:00",
            "ended_at": "2026-11-29T02:04:13.200+09:00",
            "duration_seconds": 252.107,
            "exit_status": 0,
            "signal": null,
            "reason": null,
            "rerun_reason": null,
            "version": "1.0.0"
          }
        ]
      }
    ]
  }
]
`)
}

// What all jobs have in JSON, and what is null where nothing is known.
func TestStatusJSONOfJobs(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	var jobs []jobJSON
	var loose []map[string]any
	text := view(t, statusAsk{json: true, n: 7}, seoulNow, 108*time.Second)
	if json.Unmarshal([]byte(text), &jobs) != nil || json.Unmarshal([]byte(text), &loose) != nil {
		t.Fatalf("not JSON: %s", text)
	}
	got := ""
	for _, j := range jobs {
		got += fmt.Sprintln(j.Job, *j.State, *j.Slot, j.Attention, j.Missed, j.Failures, j.Counts, len(j.Slots))
	}
	same(t, got, `
backup uncertain 2026-11-29 [{2026-11-29 uncertain} {2026-11-25 missed}] [2026-11-25] 1 {27 0 1 0 0 1 1} 1
close-books failed 2026-11 [{2026-11 failed}] [] 1 {0 1 0 0 0 0 0} 1
etl running 2026-11-29 [{2026-11-24 missed}] [2026-11-24] 0 {8 0 0 0 0 0 1} 1
invoice done 2026-11-29 [] [] 0 {14 0 0 0 0 0 0} 1
report late 2026-11-29 [{2026-11-29 late}] [] 0 {3 0 0 0 0 0 0} 1
sync-orders done 2026-11-29T09:10+09:00 [] [] 0 {3 1 0 1 0 0 0} 1
청구서-발송 done 2026-11-29 [] [] 0 {2 0 0 0 0 0 0} 1
`)
	holder := map[string]any{"host": "web-1", "pid": 1022.0, "user": "app", "run_id": backupRuns, "slot": "2026-11-29",
		"attempt": 1.0, "token": 1795885201093.0, "started_at": "2026-11-29T02:00:01.093+09:00",
		"renewed_at": "2026-11-29T09:10:48+09:00", "lease_ends_at": "2026-11-29T09:12:48+09:00"}
	if !reflect.DeepEqual(loose[2]["holder"], holder) {
		t.Errorf("holder %v", loose[2]["holder"])
	}
	nulls := ""
	for _, name := range slices.Sorted(maps.Keys(loose[4]["slots"].([]any)[0].(map[string]any))) {
		nulls += fmt.Sprintln(name, loose[4]["slots"].([]any)[0].(map[string]any)[name])
	}
	same(t, nulls, `
attempt 0
attempts_left 1
business_date 2026-11-29
by_hand false
due_at 2026-11-29T02:30:00+09:00
duration_seconds <nil>
ended_at <nil>
exit_status <nil>
host <nil>
key report/2026-11-29
late_seconds <nil>
merged_into <nil>
pid <nil>
reason <nil>
resolved <nil>
run_id <nil>
signal <nil>
slot 2026-11-29
stale_reports 0
started_at <nil>
state late
token <nil>
user <nil>
`)
}

// A job of every five minutes that is not run any more is noticed, although its newest slot is always just due.
func TestStatusAttention(t *testing.T) {
	t.Parallel()
	day := func(name string, meta ...any) *seed {
		return newSeed(t, name, append([]any{"schedule", "0 2 * * *"}, meta...)...)
	}
	newSeed(t, "dead-tick", "schedule", "*/5 * * * *", "first", "2026-11-29T08:00+09:00").
		ran("2026-11-29T08:00+09:00", "2026-11-29T08:00:00+09:00", "2026-11-29T08:00:00+09:00", "web-1", time.Second, "")
	day("fresh", "first", "2026-11-29").days("2026-11-29", 1, "02:00:00")
	day("by-date", "first", "2026-11-29").days("2026-11-29", 1, "02:00:00").days("2026-11-25", 1, "02:00:00")
	day("paused", "first", "2026-11-26", "paused", fmt.Sprintf(`{"since":%d,"by":"kim"}`, msOf(t, "2026-11-27T00:00:00+09:00"))).
		days("2026-11-26", 1, "02:00:00")
	day("changed", "first", "2026-11-20T08:00+09:00").days("2026-11-29", 1, "02:00:00").
		ran("2026-11-20T08:00+09:00", "2026-11-20T08:00:00+09:00", "2026-11-20T08:00:00+09:00", "web-1", time.Second, `"state":"failed"`)
	day("resolved", "first", "2026-11-28").days("2026-11-29", 1, "02:00:00").ran("2026-11-28", "2026-11-28T02:00:00+09:00",
		"2026-11-28T02:00:00+09:00", "web-1", time.Second, `"state":"failed","exit":1,"resolved":{"as":"reopened","by":"kim"}`)
	day("old", "first", "2026-10-01").days("2026-11-29", 40, "02:00:00").
		ran("2026-10-21", "2026-10-21T02:00:00+09:00", "2026-10-21T02:00:00+09:00", "web-1", time.Second, `"state":"failed"`)
	day("pending", "schedule", "0 9 * * *", "first", "2026-11-28").days("2026-11-28", 1, "09:00:00")
	want := `
JOB        SLOT              STATE    HOST   AGO   TOOK  HISTORY
by-date    2026-11-29        done     web-2   7h  1m00s              ..
changed    2026-11-29        done     web-2   7h  1m00s              F.
dead-tick  2026-11-29T09:10  pending  -       1m      -  ------------- 
fresh      2026-11-29        done     web-2   7h  1m00s               .
old        2026-11-29        done     web-2   7h  1m00s  ..............
paused     2026-11-29        paused   -       7h      -            .ppp
pending    2026-11-29        pending  -      11m      -              . 
resolved   2026-11-29        done     web-2   7h  1m00s              F.
8 jobs, 1 needs attention: dead-tick
`
	same(t, view(t, statusAsk{}, seoulNow, 0), want)
	if got := view(t, statusAsk{}, "2026-11-29T09:15:00+09:00", 0); !strings.Contains(got, "2 need attention: dead-tick pending\n") {
		t.Errorf("15 minutes after 09:00 nobody is late:\n%s", got)
	}
	var old []jobJSON
	if err := json.Unmarshal([]byte(view(t, statusAsk{job: "old", json: true}, seoulNow, 0)), &old); err != nil ||
		len(old[0].Attention) != 0 || old[0].Counts.Failed != 1 {
		t.Errorf("a slot that failed 39 days ago: %+v, %v", old, err)
	}
}

// Who holds the lease is told also when that is a run for an older slot.
func TestStatusHolder(t *testing.T) {
	t.Parallel()
	newSeed(t, "etl", "current", "2026-11-27").days("2026-11-29", 2, "02:00:00").ran("2026-11-27", "2026-11-27T00:00:00+09:00",
		"2026-11-29T09:00:00+09:00", "web-1", 0, `"state":"running","attempt":2,"run_id":"`+backupRuns+`"`).
		lock(backupRuns + "web-1:977")
	var jobs []jobJSON
	if err := json.Unmarshal([]byte(view(t, statusAsk{json: true}, seoulNow, time.Minute)), &jobs); err != nil {
		t.Fatal(err)
	}
	h := jobs[0].Holder
	if h == nil || h.Slot == nil || *h.Slot != "2026-11-27" || *h.Attempt != 2 || *h.Host != "web-1" || *h.PID != 977 {
		t.Errorf("%+v", h)
	}
}

// Running, dead, done, failed: each is told as it is. (SH-64)
func TestStatusOfALife(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	state := func(job string) jobJSON {
		var jobs []jobJSON
		if r := h.run("status", "--json", job); r.status != 0 || json.Unmarshal([]byte(r.stdout), &jobs) != nil || len(jobs) != 1 {
			t.Fatal(r)
		}
		return jobs[0]
	}
	cmd := h.command("run", "--job", "etl", "--lease", "2s", "--", "sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "running", func() bool { return h.run("status", "etl").status == 0 && *state("etl").State == "running" })
	j := state("etl")
	if j.Holder == nil || *j.Holder.Host != "web-1" || *j.Holder.PID != int64(cmd.Process.Pid) || j.Holder.LeaseEndsAt == nil ||
		*j.Holder.RunID != *j.Slots[0].RunID || len(j.Attention) != 0 || j.Slots[0].ExitStatus != nil {
		t.Errorf("running: %+v %+v", j, j.Holder)
	}
	cmd.Process.Kill()
	cmd.Wait()
	eventually(t, "uncertain", func() bool { return *state("etl").State == "uncertain" })
	if j = state("etl"); j.Holder != nil || len(j.Attention) != 1 || j.Attention[0].State != "uncertain" || j.Failures != 1 {
		t.Errorf("dead: %+v", j)
	}
	h.run("run", "--job", "bad", "--", "sh", "-c", "kill -KILL $$")
	h.run("run", "--job", "bad", "--date", "yesterday", "--", "true")
	if j = state("bad"); *j.State != "failed" || *j.Slots[0].Signal != "KILL" || j.Slots[0].ExitStatus != nil || *j.LastDone.EndedAt == "" {
		t.Errorf("failed: %+v", j)
	}
}

// All jobs are read in few requests: one for their names, one for each batch.
func TestStatusRequests(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	l := &ledger{r.rdb, "onceonly"}
	pipe := r.rdb.Pipeline()
	for i := range 2*batch + 1 {
		name := fmt.Sprintf("job-%d", i)
		pipe.SAdd(context.Background(), l.jobsKey(), name)
		pipe.HSet(context.Background(), l.keys(name)[5], "zone", "UTC", "every", "day", "attempts", "1")
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		t.Fatal(err)
	}
	server, err := parseServer(r.url())
	if err != nil {
		t.Fatal(err)
	}
	counted := &requests{}
	reads := &reader{ledger: &ledger{server.connect(), "onceonly"}, server: server}
	defer reads.ledger.Close()
	reads.ledger.AddHook(counted)
	jobs, err := reads.all(&statusAsk{})
	if got := strings.Join(counted.sent, ", "); err != nil || len(jobs) != 2*batch+1 || got != "smembers, hello, 200 eval, 200 eval, 1 eval" {
		t.Errorf("%d jobs, %v: %s", len(jobs), err, got)
	}
}

// requests counts what is sent.
type requests struct{ sent []string }

func (r *requests) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *requests) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.sent = append(r.sent, cmd.Name())
		return next(ctx, cmd)
	}
}

func (r *requests) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.sent = append(r.sent, fmt.Sprintf("%d %s", len(cmds), cmds[0].Name()))
		return next(ctx, cmds)
	}
}

// A user who may write nothing can read the status: it writes nothing.
func TestStatusWritesNothing(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	url := "ONCEONLY_REDIS=" + r.url()
	newHost(t, "web-1", url).run("run", "--job", "etl", "--", "true")
	if err := r.rdb.Do(context.Background(), "acl", "setuser", "watcher", "on", ">pw", "~*", "+@read", "+@connection", "+eval",
		"+time", "-@write").Err(); err != nil {
		t.Fatal(err)
	}
	watcher := newHost(t, "web-2", "ONCEONLY_REDIS=redis://watcher:pw@"+r.address()+"/0")
	for _, args := range [][]string{{"status"}, {"status", "etl"}, {"status", "--json"}, {"status", "-n", "0", "etl", "--json"}} {
		if got := watcher.run(args...); got.status != 0 || got.stderr != "" || !strings.Contains(got.stdout, "etl") {
			t.Errorf("%v: %v", args, got)
		}
	}
	watcher.env = append(watcher.env, "ONCEONLY_REDIS=redis://watcher:wrong@"+r.address()+"/0")
	watcher.run("status").want(t, exitDenied, "onceonly: Redis at "+r.address()+
		", user watcher: WRONGPASS invalid username-password pair or user is disabled.\n")
}

// Redis away is told after --redis-wait, not at once and not as an empty list.
func TestStatusRedisAway(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "web-1", fmt.Sprintf("ONCEONLY_REDIS=redis://127.0.0.1:%d/0", port))
	began := time.Now()
	got := h.run("status", "--json", "--redis-wait", "1s")
	got.want(t, exitAway, fmt.Sprintf("onceonly: Redis at 127.0.0.1:%d not reached in 1s: connection refused\n", port))
	if waited := time.Since(began); got.stdout != "" || waited < time.Second {
		t.Errorf("after %v: %v", waited, got)
	}
}

// On a terminal there is colour and a legend; not with NO_COLOR, nor on a dumb one. (SH-63)
func TestStatusOnTerminal(t *testing.T) {
	t.Parallel()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("needs script(1) for a terminal")
	}
	h := newHost(t, "web-1", "TERM=xterm")
	h.run("run", "--job", "bad", "--", "false")
	show := func(env ...string) string {
		cmd := exec.Command(script, "-qec", filepath.Base(binary)+" status", "/dev/null")
		cmd.Env = append(h.env, env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(out), "\r\n", "\n")
	}
	plain := show("NO_COLOR=1")
	if !strings.HasSuffix(plain, "\n1 job, 1 needs attention: bad\nhistory, newest right:  F failed\n") ||
		strings.Contains(plain, "\x1b") || show("TERM=dumb") != plain {
		t.Errorf("%q", plain)
	}
	if got := show(); !strings.Contains(got, "  \x1b[31mfailed\x1b[0m  ") || !strings.Contains(got, "\x1b[31mF\x1b[0m\n") {
		t.Errorf("%q", got)
	}
}
