package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What Redis holds about a job, as a test reads it: its keys, its lease, an entry's state; and who waits for its end.

// jobKeys are the keys of a job in the shared Redis: lock fence ledger slots log meta hosts.
func jobKeys(t *testing.T, job string) []string {
	return (&ledger{shared.rdb, namespaceOf(t)}).keys(job)
}

// keysOf are the job's keys that exist.
func keysOf(t *testing.T, job string) []string {
	t.Helper()
	l := &ledger{shared.rdb, namespaceOf(t)}
	return slices.DeleteFunc(l.keys(job), func(key string) bool { return shared.rdb.Exists(context.Background(), key).Val() == 0 })
}

// lockOf is the lock's key, with its value and how long it lasts: -1 for ever, -2 not there.
func lockOf(t *testing.T, job string) (key, value string, ttl time.Duration) {
	t.Helper()
	ctx := context.Background()
	key = (&ledger{shared.rdb, namespaceOf(t)}).keys(job)[0]
	ttl, err := shared.rdb.PTTL(ctx, key).Result()
	if err != nil {
		t.Fatal(err)
	}
	value, _ = shared.rdb.Get(ctx, key).Result()
	return key, value, ttl
}

// lockKey is where redislock keeps the lease of a job in the test's namespace.
func lockKey(t *testing.T, job string) string { return namespaceOf(t) + ":{" + job + "}:lock" }

// isHeld says whether anybody has the lease of a job in the shared Redis.
func isHeld(t *testing.T, job string) bool {
	t.Helper()
	n, err := shared.rdb.Exists(context.Background(), lockKey(t, job)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// lease is the lock of a job as Redis has it.
func leaseOf(t *testing.T, job string) (value string, left time.Duration) {
	t.Helper()
	ctx := context.Background()
	value = shared.rdb.Get(ctx, lockKey(t, job)).Val()
	return value, shared.rdb.PTTL(ctx, lockKey(t, job)).Val()
}

func slotLock(t *testing.T, job string) string {
	v, _ := shared.rdb.Get(context.Background(), jobKeys(t, job)[0]).Result()
	return v
}

// ttlOf is what is left of the lease; negative if there is none.
func ttlOf(t *testing.T, job string) time.Duration {
	d, err := shared.rdb.PTTL(context.Background(), jobKeys(t, job)[0]).Result()
	if err != nil {
		t.Error(err)
	}
	return d
}

func wantNoLock(t *testing.T, job string) {
	t.Helper()
	if held := slotLock(t, job); held != "" {
		t.Errorf("the lease of %s is not given back: %q", job, held)
	}
}

// waitsNow waits until so many processes listen for the end of a job's run. Each asks once more after that, and sleeps then.
func waitsNow(t *testing.T, job string, n int64) {
	t.Helper()
	channel := (&ledger{shared.rdb, namespaceOf(t)}).channel(job)
	eventually(t, fmt.Sprint(n, " wait"), func() bool {
		all, err := shared.rdb.PubSubNumSub(context.Background(), channel).Result()
		return err == nil && all[channel] == n
	})
}

// slotPause pauses a job, as `onceonly pause` does.
func slotPause(t *testing.T, job string) {
	t.Helper()
	text := fmt.Sprintf(`{"by":"kim@web-9","since":%d,"reason":"migration"}`, time.Now().UnixMilli())
	if err := shared.rdb.HSet(context.Background(), jobKeys(t, job)[5], "paused", text).Err(); err != nil {
		t.Fatal(err)
	}
}

func stateOf(t *testing.T, job, slot string) string {
	t.Helper()
	if n, _ := shared.rdb.HExists(context.Background(), jobKeys(t, job)[2], slot).Result(); !n {
		return ""
	}
	return entryOf(t, job, slot).State
}

// entryIn reads an entry of any ledger.
func entryIn(t *testing.T, rdb redis.UniversalClient, namespace, job, slot string) *entry {
	t.Helper()
	l := &ledger{rdb, namespace}
	text, err := rdb.HGet(context.Background(), l.keys(job)[2], slot).Result()
	if err != nil {
		t.Errorf("entry %s %s: %v", job, slot, err)
		return &entry{}
	}
	e, err := decode[entry](text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
