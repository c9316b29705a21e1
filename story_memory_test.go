package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Stories of what the ledger keeps: so many slots, and what each host was told.

// TestLuaForgets holds the ledger to its bound: keep slots, and a mark of how far back it reaches.
func TestLuaForgets(t *testing.T) {
	t.Parallel()
	j := newLuaJob(t, shared.rdb)
	for n := range 8 {
		j.tell(fmt.Sprintf("begin a.%d s%d keep=5 -> run 1\ndone a.%d -> ok", n, n, n))
	}
	j.tell(`
		slots -> s3 s4 s5 s6 s7
		meta low -> 1796000120000
		meta first -> s0
		entry s2 -> -
		begin b.1 s2 keep=5 -> old
		begin b.1 s3 keep=5 -> done
		begin c.1 s8 keep=5 -> run 1
		begin d.1 s9 keep=5 overlap=skip -> behind
		begin e.1 s10 keep=5 overlap=skip -> behind
		slots -> s6 s7 s8 s9 s10
		meta low -> 1796000300000
		done c.1 -> ok
		# The oldest slot of all begins: it stays as long as it runs, and its own end finds it.
		set meta low 0
		begin f.1 s1 keep=5 -> run 1
		begin g.1 s11 keep=5 overlap=skip -> behind
		begin g.1 s12 keep=5 overlap=skip -> behind
		entry s1 -> running 1 f.1
		done f.1 -> ok
		meta low -> 1796000420000
		begin h.1 s13 keep=6 -> run 1
		entry s1 -> -
		meta low -> 1796000420000
		begin i.1 s1 keep=5 -> old
		# A note about the oldest slot is kept at least until the next.
		set meta low 0
		begin i.1 s2 keep=6 overlap=skip -> behind
		slots -> s2 s8 s9 s10 s11 s12 s13
		entry s2 -> skipped 0`)
	if n := shared.rdb.HLen(context.Background(), j.keys(j.job)[2]).Val(); n > 7 {
		t.Errorf("%d entries", n)
	}
}

// TestLuaRollCall: every host that asks leaves what it was told; that it cannot be written changes no verdict.
func TestLuaRollCall(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{{"answers", `
		begin a.1 s1 attempts=2 -> run 1
		hosts web-a -> ran
		begin b.1 s1 attempts=2 -> busy
		hosts web-b -> busy
		begin c.1 s2 -> behind
		hosts web-c -> waiting
		begin c.1 s2 overlap=skip -> behind
		hosts web-c -> skipped
		failed a.1 -> ok
		begin b.1 s1 -> failed told
		hosts web-b -> failed
		begin d.1 s1 attempts=2 -> run 2
		lapse
		begin b.1 s1 attempts=2 -> uncertain told
		hosts web-b -> uncertain
		done d.1 -> ok
		begin b.1 s1 -> done
		hosts web-b -> done
		begin b.1 s1 host=web-b/m2 line=two -> done
		hosts web-b m2 -> done
		begin e.1 s1 now=-2h -> clock
		hosts web-e -> refused clock
		set meta paused {}
		begin b.1 s3 -> paused
		hosts web-b -> paused
		set meta low 9999999999999
		begin b.1 s4 -> old
		hosts web-b -> refused old
		begin f.1 s1 dry -> done
		hosts web-f -> <nil>`}})
	t.Run("not written", func(t *testing.T) {
		t.Parallel()
		const write = "pcall(redis.call, 'HSET', HOSTS"
		if !strings.Contains(beginLua, write) {
			t.Fatalf("not in the script: %s", write)
		}
		j := newLuaJob(t, shared.rdb)
		j.script = strings.Replace(beginLua, write, "pcall(redis.call, 'HSET', LOCK", 1)
		j.tell(`
			begin a.1 s1 -> run 1
			hosts web-a -> <nil>
			begin b.1 s1 -> busy
			done a.1 -> ok
			begin b.1 s1 -> done
			lock -> -`)
	})
}
