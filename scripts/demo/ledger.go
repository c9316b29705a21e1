package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const tick = 100 * time.Millisecond // of the clock that lets leases run out in the embedded Redis

// A ledger is a namespace of its own in a Redis.
type ledger struct {
	url       string
	namespace string
	rdb       *redis.Client
	stop      func()
}

// openLedger uses the Redis in ONCEONLY_REDIS, else one inside this program.
func openLedger(ctx context.Context) (*ledger, error) {
	l := &ledger{url: os.Getenv("ONCEONLY_REDIS"), namespace: "demo-" + rand.Text()[:8], stop: func() {}}
	if l.url == "" {
		m, err := embedded()
		if err != nil {
			return nil, err
		}
		l.url, l.stop = "redis://"+m.Addr()+"/0", m.Close
		say("Redis: embedded, at %s, gone when the demo ends. ONCEONLY_REDIS would name another.", m.Addr())
	}
	options, err := redis.ParseURL(l.url)
	if err != nil {
		return nil, errors.New("ONCEONLY_REDIS: not a URL") // never the value: it may hold a password
	}
	logging.Disable()
	l.rdb = redis.NewClient(options)
	if err := l.rdb.Ping(ctx).Err(); err != nil {
		l.close()
		return nil, fmt.Errorf("no Redis at %s: %w", options.Addr, err)
	}
	if os.Getenv("ONCEONLY_REDIS") != "" {
		say("Redis: %s, from ONCEONLY_REDIS. Namespace %s, deleted when the demo ends.", options.Addr, l.namespace)
	}
	return l, nil
}

// embedded starts a Redis in this process. Its keys do not expire by themselves, so it is given a clock.
func embedded() (*miniredis.Miniredis, error) {
	m, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	go func() {
		last := time.Now()
		for now := range time.Tick(tick) {
			m.FastForward(now.Sub(last))
			last = now
		}
	}()
	return m, nil
}

// held says whether somebody has the lease of the job.
func (l *ledger) held(ctx context.Context, job string) (bool, error) {
	n, err := l.rdb.Exists(ctx, l.namespace+":{"+job+"}:lock").Result()
	return n > 0, err
}

// close deletes what the demo wrote.
func (l *ledger) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for keys := l.rdb.Scan(ctx, 0, l.namespace+":*", 1000).Iterator(); keys.Next(ctx); {
		l.rdb.Del(ctx, keys.Val())
	}
	l.rdb.Close()
	l.stop()
}
