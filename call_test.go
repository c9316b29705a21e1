package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A call in this process: at a time that the test says, with a client between it and Redis that the test has in hand.

// newCallAt is a call in this process, made at that time.
func newCallAt(t *testing.T, now time.Time, options map[string]string, words ...string) (*call, error) {
	t.Helper()
	all := map[string]string{"redis": shared.url(), "namespace": namespaceOf(t), "host": "web-1", "tz": "UTC"}
	for name, value := range options {
		all[name] = value
	}
	given := func(name string) (string, bool) { v, ok := all[name]; return v, ok }
	s, err := gather(runOptions, given, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCall(words, true, s, func() time.Time { return now })
	if err == nil {
		t.Cleanup(func() { c.ledger.Close() })
	}
	return c, err
}

// luaCall is what a crontab line calls, in this process.
func luaCall(t *testing.T, rdb redis.UniversalClient, lease time.Duration, argv ...string) *call {
	t.Helper()
	s := initial()
	s.namespace, s.lease, s.redisWait = namespaceOf(t), lease, 10*time.Second
	c := &call{settings: s, command: &command{argv: argv, job: "invoice"}, line: line{every: daily, zone: time.UTC},
		asker: asker{Host: "web-1", PID: 1, User: "root", Version: "1"}, server: &server{}, ledger: &ledger{rdb, s.namespace},
		wall: time.Now, now: time.Now(), spool: &spool{dir: t.TempDir()}}
	c.complete()
	c.server.open.Store(true)
	var err error
	if c.slot, err = c.line.at(time.Now()); err != nil {
		t.Fatal(err)
	}
	return c
}

// A luaWire is a client whose requests a test may hold back, lose or delay.
type luaWire struct {
	redis.UniversalClient
	process func(context.Context, redis.Cmder) error
}

func (w luaWire) Process(ctx context.Context, cmd redis.Cmder) error { return w.process(ctx, cmd) }

// A hookAt is a client's hook that does something before the n-th script is sent.
type hookAt struct {
	n  int
	do func()
}

func (h *hookAt) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hookAt) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hookAt) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" {
			if h.n--; h.n == 0 {
				h.do()
			}
		}
		return next(ctx, cmd)
	}
}
