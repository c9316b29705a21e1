package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"onceonly/scripts/ports"
)

// What status asks of Redis: little, no right to write, and an answer within --redis-wait.

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
	reads := &reader{ledger: &ledger{server.connect(), "onceonly"}, server: server, wait: time.Minute}
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
	port, err := ports.Free()
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
