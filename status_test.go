package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The views are compared whole. The ledgers are written as the scripts write them and read by look.lua; only the clock
// of the answer is set, so that a test says the same every day.

// view is what status prints at an instant.
func view(t *testing.T, a statusAsk, now string, ttl time.Duration) string {
	t.Helper()
	a.namespace = namespaceOf(t)
	jobs := viewJobs(t, a, now, ttl)
	if a.metrics {
		return a.metricsOf(jobs, &machine{up: true, dir: t.TempDir()})
	}
	var b strings.Builder
	if err := a.print(&b, jobs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// viewJobs are the jobs as they are at that instant.
func viewJobs(t *testing.T, a statusAsk, now string, ttl time.Duration) []*jobState {
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
		cmd := eval(context.Background(), lookLua, l.keys(name), briefs, entries, a.date, hosts, a.last())
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
		j.late = cmp.Or(a.late, j.late)
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
	return jobs
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
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
	roll("web-5", "2026-11-29T02:00:01+09:00", "2026-11-29T02:00+09:00", `"refused","why":"shape"`, "9c1e0a0b")
	same(t, view(t, statusAsk{job: "invoice", hosts: true}, seoulNow, 0), `
HOST   ASKED                SLOT              ANSWER         LINE  VERSION
web-1  2026-11-29 02:00:00  2026-11-29        busy           9c1e  1.0.0
web-2  2026-11-29 02:00:00  2026-11-29        ran            9c1e  1.0.0
web-3  2026-11-29 02:00:01  2026-11-29        refused:zone   9c1e  1.0.0
web-4  2026-11-12 02:00:00  2026-11-12        done           77d0  1.0.0
web-5  2026-11-29 02:00:01  2026-11-29T02:00  refused:shape  9c1e  1.0.0
web-4: last asked 17 days ago; its line differs from the others'
web-5: 2026-11-29T02:00 is no slot of 'every day'
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
