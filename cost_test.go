package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// What a run costs does not grow with what has run before: Redis is asked to do the same, and an entry takes a bounded
// number of bytes. All of it is counted, no clock is asked.

const mostEntryBytes = 400 // of the ledger, with what Redis needs to keep it

// TestCostOfHistory counts what a run makes Redis do, inside the scripts too, when the job has run once, 1000 and 5000
// times.
func TestCostOfHistory(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{400, 10000} { // the oldest slots are forgotten, or all are kept
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			t.Parallel()
			j := newCostJob(t, keep)
			for j.ran < min(keep, 1000)+1 {
				j.run()
			}
			before := j.measure()
			for j.ran < 5000 {
				j.run()
			}
			j.compare(before, j.measure())
			if keep < 5000 {
				return
			}
			young := newCostJob(t, keep) // than which the old one is no dearer
			young.run()
			j.compare(young.measure(), before)
		})
	}
}

// TestCostOfJobs counts it beside 1000 other jobs.
func TestCostOfJobs(t *testing.T) {
	t.Parallel()
	j := newCostJob(t, 400)
	j.run()
	before := j.measure()
	oneRunJobs(t, j.redis, 1000)
	j.compare(before, j.measure())
}

// A costJob is a job whose line comes every minute, in a Redis of its own.
type costJob struct {
	t     *testing.T
	redis *redisServer
	call  *call
	keep  int
	ran   int
}

func newCostJob(t *testing.T, keep int) *costJob {
	r := newRedis(t)
	c, err := newCallAt(t, time.Now(), map[string]string{"redis": r.url(), "job": "sync-orders", "schedule": "* * * * *",
		"keep": strconv.Itoa(keep), "host": "web-12.example.com", "attempts": "2"}, "/usr/bin/sync-orders", "--all")
	if err != nil {
		t.Fatal(err)
	}
	return &costJob{t, r, c, keep, 0}
}

// run runs the next slot.
func (j *costJob) run() {
	j.t.Helper()
	at := time.Date(2025, 6, 1, 0, j.ran, 0, 0, time.UTC)
	if _, reply, err := quickRun(j.call.ledger, j.call, at, false); err != nil || reply.Verdict != "run" {
		j.t.Fatalf("slot %d: %+v, %v", j.ran, reply, err)
	}
	j.ran++
}

// A cost is what one run made Redis do, and what Redis keeps after it.
type cost struct {
	ran          int
	calls        map[string]int // of commands, by their name
	keys, fields int            // of the job, and of its meta
	entry, index int64          // bytes a slot
}

func (j *costJob) measure() cost {
	j.t.Helper()
	ctx, rdb, keys := context.Background(), j.redis.rdb, j.call.ledger.keys(j.call.command.job)
	rdb.ConfigResetStat(ctx)
	j.run()
	c := cost{ran: j.ran, calls: map[string]int{}}
	stats := rdb.Info(ctx, "commandstats").Val()
	for _, m := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+),`).FindAllStringSubmatch(stats, -1) {
		c.calls[m[1]], _ = strconv.Atoi(m[2])
	}
	delete(c.calls, "config|resetstat")
	c.keys, c.fields = len(rdb.Keys(ctx, j.call.ledger.prefix(j.call.command.job)+"*").Val()), int(rdb.HLen(ctx, keys[5]).Val())
	slots := rdb.HLen(ctx, keys[2]).Val()
	c.entry, c.index = rdb.MemoryUsage(ctx, keys[2], 0).Val()/slots, rdb.MemoryUsage(ctx, keys[3], 0).Val()/slots
	j.t.Logf("run %d: keeps %d of %d slots, %d bytes an entry, %d of index; %v", j.ran, slots, j.keep, c.entry, c.index, c.calls)
	return c
}

// compare wants the same to have been done before and now, and entries that are small, where there are many.
func (j *costJob) compare(before, now cost) {
	j.t.Helper()
	if !maps.Equal(now.calls, before.calls) || now.keys != before.keys || now.fields != before.fields {
		j.t.Errorf("run %d cost %+v\nrun %d cost %+v", before.ran, before, now.ran, now)
	}
	if now.ran > 100 && now.entry > mostEntryBytes {
		j.t.Errorf("an entry takes %d bytes", now.entry)
	}
}
