package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ledgers for status to show, written entry by entry, and the fleet of the interface's sample.

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
	t    *testing.T
	l    *ledger
	job  string
	pipe redis.Pipeliner // nil: each command is sent by itself
}

func newSeed(t *testing.T, job string, meta ...any) *seed {
	s := &seed{t: t, l: &ledger{shared.rdb, namespaceOf(t)}, job: job}
	s.do("sadd", s.l.jobsKey(), job)
	meta = append([]any{"zone", "Asia/Seoul", "every", "day", "schedule", "", "day_start", "00:00", "attempts", "1",
		"lease", "120000", "listed", "1"}, meta...)
	s.do(append([]any{"hset", s.l.keys(job)[5]}, meta...)...)
	return s
}

func (s *seed) do(args ...any) {
	s.t.Helper()
	if s.pipe != nil {
		s.pipe.Do(context.Background(), args...)
	} else if err := s.l.Do(context.Background(), args...).Err(); err != nil {
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
	s.t.Helper()
	s.pipe = s.l.Pipeline()
	day, _ := time.Parse(time.DateOnly, last)
	for range n {
		d := day.Format(time.DateOnly)
		s.ran(d, d+"T"+at+"+09:00", d+"T"+at+"+09:00", "web-2", time.Minute, "")
		day = day.AddDate(0, 0, -1)
	}
	if _, err := s.pipe.Exec(context.Background()); err != nil && n > 0 {
		s.t.Fatal(err)
	}
	s.pipe = nil
	return s
}

func (s *seed) event(at string, fields ...any) *seed {
	s.t.Helper()
	s.do(append([]any{"xadd", s.l.keys(s.job)[4], fmt.Sprintf("%d-*", msOf(s.t, at))}, fields...)...)
	return s
}

// asked writes a host's line of the roll call.
func (s *seed) asked(host, at string) *seed {
	s.do("hset", s.l.keys(s.job)[6], host, fmt.Sprintf(`{"asked":%d,"slot":%q,"answer":"busy","line":"9c1e","version":"1.0.0"}`,
		msOf(s.t, at), at[:len("2026-11-29")]))
	return s
}

func (s *seed) lock(value string) *seed {
	s.do("set", s.l.keys(s.job)[0], value, "px", 600000)
	return s
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
			`"attempt":2,"signal":"KILL","exit":null,"run_id":"settled","token":"1",
			"resolved":{"as":"done","by":"kim@web-1","at":1,"reason":"bank","was":"failed","run_id":"killed","try":2,"token":"2"}`).
		ran("2026-11-27", "2026-11-27T02:30:00+09:00", "2026-11-27T02:31:12+09:00", "web-1", 29*time.Minute, `"attempt":2`).
		ran("2026-11-28", "2026-11-28T02:30:00+09:00", "2026-11-28T02:30:00+09:00", "web-4", 31*time.Minute, "").
		ran("2026-11-29", "2026-11-29T02:30:00+09:00", "2026-11-29T02:30:00+09:00", "web-1", 0,
			`"state":"running","run_id":"`+backupRuns+`"`).
		asked("web-1", "2026-11-29T02:30:00+09:00").asked("web-2", "2026-11-29T02:30:00+09:00").
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
