package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Stories of requests: one for each step, and none is sent again by itself.

// TestLuaOneRequest: begin, renew and finish are one EVAL each, on a warm server and on a cold one.
func TestLuaOneRequest(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	p := newProxy(t, r.address())
	rdb := redis.NewClient(&redis.Options{Addr: p.address(), Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	j := newLuaJob(t, rdb)
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"a.1", "b.1"} {
		for _, line := range []string{"begin %s s1 attempts=9", "renew %s", "unstarted %s", "begin %s s2 dry"} {
			line = fmt.Sprintf(line, who)
			p.forget()
			j.do(strings.Fields(line))
			if got := strings.Join(p.requests(), " "); got != "EVAL" {
				t.Errorf("%s: sent %q, want one EVAL", line, got)
			}
		}
		if err := r.rdb.ScriptFlush(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLuaNotSentAgain: when an answer is lost, go-redis sends nothing again of itself, however it is set, alone or as a
// cluster's client.
func TestLuaNotSentAgain(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	for _, cluster := range []bool{false, true} {
		t.Run(map[bool]string{false: "client", true: "cluster"}[cluster], func(t *testing.T) {
			p := newProxy(t, r.address())
			var rdb redis.UniversalClient = redis.NewClient(&redis.Options{Addr: p.address(), Protocol: 2, MaxRetries: 5,
				DisableIdentity: true})
			if cluster {
				rdb = redis.NewClusterClient(&redis.ClusterOptions{Protocol: 2, MaxRetries: 5, MaxRedirects: 5,
					DisableIdentity: true, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
						return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: p.address()}}}}, nil
					}})
			}
			defer rdb.Close()
			j := newLuaJob(t, rdb)
			ctx, sent := context.Background(), func() (n int) {
				for _, name := range p.requests() {
					if name == "EVAL" || name == "SADD" {
						n++
					}
				}
				return n
			}
			p.answer("-ERR not wanted here", "COMMAND") // which a cluster's client asks first
			rdb.Get(ctx, "x")                           // connects
			lose := func(command string, do func() error) {
				t.Helper()
				p.forget()
				p.dropReply(command, 1, true)
				if err := do(); err == nil {
					t.Error("the answer was not lost")
				}
				if n := sent(); n != 1 || p.dropsLeft() != 0 {
					t.Errorf("%s: sent %d times", command, n)
				}
			}
			q := j.question([]string{"a.1", "s1"})
			lose("EVAL", func() error { _, err := j.send(q); return err })
			j.tell("begin a.1 s1 -> run 1")
			lose("EVAL", func() error { return j.lease("a").renew(ctx) })
			e := end{attempt: q.attempt, asker: q.asker, terms: q.terms, Slot: q.Slot, Begins: q.Begins, State: "done"}
			lose("EVAL", func() error { _, err := j.lease("a").finish(ctx, e); return err })
			lose("EVAL", func() error { _, err := j.ledger.finish(ctx, j.job, e); return err })
			lose("SADD", func() error { return j.list(ctx, j.job) })
			lock, err := r.rdb.Exists(ctx, j.keys(j.job)[0]).Result()
			if lock != 0 || err != nil {
				t.Errorf("lock %d, %v", lock, err)
			}
		})
	}
}
