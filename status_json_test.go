package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"
)

// The status as JSON, whole.

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
    "namespace": "`+namespaceOf(t)+`",
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
