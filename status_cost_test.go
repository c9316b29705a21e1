package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What status costs where there is much: a thousand jobs of four hundred slots each.

// seedMany writes jobs with as many slots each, a day apart, the newest today.
func seedMany(t *testing.T, r *redisServer, jobs, slots int) {
	t.Helper()
	l, now := &ledger{r.rdb, "onceonly"}, time.Now().UTC()
	var entries, order []any
	for i := range slots {
		day := now.AddDate(0, 0, -i)
		begins := day.Truncate(24 * time.Hour).UnixMilli()
		name := day.Format(time.DateOnly)
		entries = append(entries, name, fmt.Sprintf(`{"state":"done","run_id":"%032x","try":1,"attempt":1,"token":"%d","host":"web-1",`+
			`"pid":5120,"user":"app","began":%d,"ended":%d,"exit":0,"span":"0,86400","line":"9c1e0a0b9c1e0a0b"}`, begins, begins, begins, begins+60000))
		order = append(order, begins, name)
	}
	for some := range slices.Chunk(slices.Collect(func(yield func(int) bool) {
		for i := range jobs {
			if !yield(i) {
				return
			}
		}
	}), 50) {
		pipe := r.rdb.Pipeline()
		for _, i := range some {
			job := fmt.Sprintf("job-%04d", i)
			keys := l.keys(job)
			pipe.SAdd(context.Background(), l.jobsKey(), job)
			pipe.HSet(context.Background(), keys[5], "zone", "UTC", "every", "", "schedule", "0 0 * * *", "day_start", "00:00",
				"attempts", "1", "lease", "300000", "first", now.AddDate(0, 0, -slots+1).Format(time.DateOnly))
			pipe.Do(context.Background(), append([]any{"hset", keys[2]}, entries...)...)
			pipe.Do(context.Background(), append([]any{"zadd", keys[3]}, order...)...)
		}
		if _, err := pipe.Exec(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// Over 1,000 jobs of 400 slots every view is right, and sends one question for each job and one for their names, on one
// connection, however many slots they have. The times are reported, not judged.
func TestStatusOfThousand(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	const jobs, slots = 1000, 400
	seedMany(t, r, jobs, slots)
	p := newProxy(t, r.address())
	h := newHost(t, "web-1", "ONCEONLY_NAMESPACE=onceonly", "ONCEONLY_REDIS=redis://"+p.address()+"/0")
	for _, args := range []string{"status", "status --json", "status --metrics", "status --exit-code --brief", "status --problems",
		"status job-0500 -n 0", "complete status job-05"} {
		p.forget()
		began := time.Now()
		got := h.run(strings.Fields(args)...)
		took := time.Since(began)
		sent := map[string]int{}
		for _, name := range p.requests() {
			sent[name]++
		}
		t.Logf("%-28s %6d ms, %8d bytes, %v", args, took.Milliseconds(), len(got.stdout), sent)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%s: status %d, %s", args, got.status, got.stderr)
		}
		switch args {
		case "status":
			if !strings.HasSuffix(got.stdout, "\n1000 jobs, none needs attention\n") {
				t.Errorf("%s", got.stdout[max(0, len(got.stdout)-200):])
			}
		case "status --json":
			v := &validator{t, map[string]bool{}}
			v.jobs(got.stdout)
			if n := strings.Count(got.stdout, `"done": 400,`); n != jobs {
				t.Errorf("%d of %d jobs have 400 slots that are done", n, jobs)
			}
		case "status --metrics":
			if n := strings.Count(got.stdout, `,state="done"} 400`+"\n"); n != jobs {
				t.Errorf("%d of %d jobs have 400 slots that are done", n, jobs)
			}
		}
		evals, names := jobs, 1
		if strings.Contains(args, "-n 0") {
			evals, names = 1, 0
		} else if strings.HasPrefix(args, "complete") {
			evals = 0
		}
		if sent["EVAL"] != evals || sent["SMEMBERS"] != names || sent["HELLO"] != 1 || len(p.requests()) != evals+names+1 || p.connections() != 1 {
			t.Errorf("%s: %v on %d connections", args, sent, p.connections())
		}
	}
}

// In round trips: one for the names, and one for every two hundred jobs; fifty, where all slots are counted.
func TestStatusRoundTrips(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	seedMany(t, r, 1000, 1)
	server, err := parseServer(r.url())
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []*statusAsk{{}, {json: true}, {metrics: true}, {brief: true}} {
		counted := &requests{}
		reads := &reader{ledger: &ledger{server.connect(), "onceonly"}, server: server, wait: time.Minute}
		reads.ledger.AddHook(counted)
		jobs, err := reads.all(ask)
		reads.ledger.Close()
		want := "smembers, hello" + strings.Repeat(", 200 eval", 5)
		if ask.json || ask.metrics {
			want = "smembers, hello" + strings.Repeat(", 50 eval", 20)
		}
		if got := strings.Join(counted.sent, ", "); err != nil || len(jobs) != 1000 || got != want {
			t.Errorf("%d jobs, %v: %s", len(jobs), err, got)
		}
	}
}
