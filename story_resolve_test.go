package main

import (
	"slices"
	"testing"
)

// Stories of resolve: a slot that was settled stays so whatever an older attempt does or tells.

func TestLuaResolve(t *testing.T) {
	t.Parallel()
	const reran = `
		begin a.1 s1 -> run 1
		failed a.1 -> ok
		begin b.1 s1 rerun=why -> run 2
		failed b.1 -> ok
		resolve reopened s1 -> settled`
	tellLua(t, []luaStory{
		{"uncertain, done by hand", `
			begin a.1 s1 -> run 1
			lapse
			resolve done s1 -> settled
			entry s1 -> done 1 done R.1 earlier=a.1
			meta count_uncertain -> 1
			begin b.1 s1 attempts=5 -> done
			log -> begin 1 resolve done`},
		{"failed, done by hand", `
			begin a.1 s1 -> run 1
			failed a.1 -> ok
			resolve done s1 -> settled
			entry s1 -> done 1 done R.1 earlier=a.1+
			begin b.1 s1 -> done
			meta count_uncertain -> -`},
		{"never begun, done by hand", `
			begin a.1 s2 -> run 1
			done a.1 -> ok
			resolve done s1 -> settled
			entry s1 -> done 0 done R.1
			slots -> s1 s2
			meta current -> s2
			begin b.1 s1 -> done
			begin c.1 s1 rerun=why -> run 1`},
		{"missed, skipped and paused, done by hand", `
			begin a.1 s1 -> run 1
			begin b.1 s2 overlap=skip -> behind
			done a.1 -> ok
			pause -> paused
			begin c.1 s3 -> paused
			resume -> resumed 1
			resolve done s2 -> settled
			resolve done s3 -> settled
			entry s2 -> done 0 done R.1
			entry s3 -> done 0 done R.1
			begin d.1 s2 -> done
			begin d.1 s3 -> done`},
		{"refused while a lease is held", `
			begin a.1 s1 -> run 1
			resolve done s1 -> held
			resolve done s0 -> held
			entry s1 -> running 1 a.1
			entry s0 -> -
			stop -> stopped
			resolve done s1 -> held
			done a.1 -> ok
			resolve reopened s1 -> settled`},
		{"refused while it is kept for the next try", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			resolve done s1 -> held
			lapse
			resolve done s1 -> settled
			entry s1 -> done 1 done R.1 earlier=a.1+
			begin a.2 s1 attempts=2 -> done
			lock -> -
			entry s1 -> done 1 done R.1 earlier=a.1+`},
		{"done already", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			resolve done s1 -> already
			entry s1 -> done 1 a.1
			log -> begin 1 end 1`},
		{"nothing to reopen", `
			begin a.1 s1 -> run 1
			begin b.1 s2 overlap=skip -> behind
			done a.1 -> ok
			resolve reopened s2 -> nothing
			resolve reopened s3 -> nothing
			entry s2 -> skipped 0
			entry s3 -> -`},
		{"below the low-water mark", `
			set meta low 1796000300000
			resolve done s5 -> old
			entry s5 -> -
			resolve done s6 -> settled`},
		{"failed, reopened, once", `
			begin a.1 s1 line=one host=web-1 -> run 1
			failed a.1 -> ok
			begin b.1 s1 -> failed told
			resolve reopened s1 -> settled
			resolve reopened s1 -> already
			entry s1 -> failed 1 reopened R.1 earlier=a.1+
			begin c.1 s1 line=two host=web-1 -> run 2
			failed c.1 -> ok
			begin d.1 s1 line=two host=web-1 -> failed told
			entry s1 -> failed 2 c.1 earlier=a.1+,0.1+`},
		{"uncertain, reopened", `
			begin a.1 s1 -> run 1
			lapse
			resolve reopened s1 -> settled
			entry s1 -> running 1 reopened R.1 earlier=a.1
			meta count_uncertain -> 1
			begin b.1 s1 -> run 2
			meta count_uncertain -> 1
			lapse
			begin c.1 s1 -> uncertain told
			begin d.1 s2 -> run 1
			meta count_uncertain -> 1`},
		{"done, reopened", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			resolve reopened s1 -> settled
			entry s1 -> failed 1 reopened R.1 earlier=a.1+
			begin b.1 s1 -> run 2
			done b.1 -> ok
			begin c.1 s1 -> done`},
		{"never begun, done, and reopened", `
			begin a.1 s2 -> run 1
			done a.1 -> ok
			resolve done s1 -> settled
			resolve reopened s1 -> settled
			entry s1 -> missed 0 reopened R.1 earlier=0.1+
			begin b.1 s1 -> run 1
			failed b.1 -> ok
			begin c.1 s1 -> failed told`},
		{"uncertain, done by hand, and reopened", `
			begin a.1 s1 -> run 1
			lapse
			resolve done s1 -> settled
			resolve reopened s1 -> settled
			entry s1 -> running 1 reopened R.1 earlier=a.1,0.1+
			meta count_uncertain -> 1
			begin b.1 s1 -> run 2
			meta count_uncertain -> 1`},
		// One attempt more than there were, whatever the line says: a rerun is not counted among the allowed.
		{"reopened after a rerun", reran + `
			begin c.1 s1 -> run 3
			failed c.1 -> ok
			begin d.1 s1 -> failed told`},
		{"reopened with attempts left", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 -> ok
			resolve reopened s1 -> settled
			begin b.1 s1 attempts=2 -> run 2
			failed b.1 -> ok
			begin c.1 s1 attempts=2 -> run 3
			failed c.1 -> ok
			begin d.1 s1 attempts=2 -> failed told`},
		{"reopened, and that one never started", reran + `
			begin c.1 s1 -> run 3
			unstarted c.1 -> ok
			begin d.1 s1 -> run 3
			failed d.1 -> ok
			begin e.1 s1 -> failed told`},
		{"reopened while paused", `
			begin a.1 s1 -> run 1
			failed a.1 -> ok
			pause -> paused
			resolve reopened s1 -> settled
			begin b.1 s1 -> paused
			entry s1 -> failed 1 reopened R.1 earlier=a.1+
			resume -> resumed
			begin b.1 s1 -> run 2`},
	})
}

// What an older attempt says after the slot was settled is stale, and what it asks for is refused.
func TestLuaResolveAndOlderAttempts(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		{"a late end, after done by hand", `
			begin a.1 s1 attempts=3 -> run 1
			lapse
			resolve done s1 -> settled
			failed a.1 -> stale
			failed a.1 -> already
			entry s1 -> done 1 done R.1 stale=1 earlier=a.1+
			begin b.1 s1 attempts=3 -> done
			log -> begin 1 resolve done stale 1`},
		{"a late end, after reopen", `
			begin a.1 s1 -> run 1
			lapse
			resolve reopened s1 -> settled
			done a.1 -> stale
			entry s1 -> running 1 reopened R.1 stale=1 earlier=a.1+
			begin b.1 s1 -> run 2
			done a.1 -> already
			done b.1 -> ok
			entry s1 -> done 2 b.1 stale=1 earlier=a.1+,0.1`},
		{"one that never started tells so", `
			begin a.1 s1 -> run 1
			lapse
			resolve done s1 -> settled
			unstarted a.1 -> ok
			entry s1 -> done 1 done R.1 earlier=a.1+
			lock -> -`},
		{"a late begin", `
			begin a.1 s1 attempts=3 -> run 1
			lapse
			resolve reopened s1 -> settled
			copy a.1 -> ended
			lock -> -
			entry s1 -> running 1 reopened R.1 earlier=a.1
			begin b.1 s1 attempts=3 -> run 2
			copy a.1 -> ended
			lock -> b`},
		{"a late begin of a slot that was done by hand before it came", `
			begin a.1 s2 -> run 1
			done a.1 -> ok
			resolve done s1 -> settled
			begin b.1 s1 -> done
			lock -> -
			entry s1 -> done 0 done R.1`},
		{"regain", `
			begin a.1 s1 -> run 1
			lapse
			resolve done s1 -> settled
			regain a.1 -> lost
			lock -> -
			renew a -> lost
			entry s1 -> done 1 done R.1 earlier=a.1`},
		{"regain of another slot's attempt", `
			begin a.1 s1 -> run 1
			lapse
			resolve done s0 -> settled
			regain a.1 -> lost
			lock -> -
			done a.1 -> ok
			entry s1 -> done 1 a.1`},
		{"an end that Redis has lost the begin of", `
			begin a.1 s1 -> run 1
			wipe
			begin b.1 s2 -> run 1
			done b.1 -> ok
			resolve done s1 -> settled
			failed a.1 -> stale
			entry s1 -> done 0 done R.1 stale=1 earlier=a.1+`},
	})
}

// TestLuaResolveTokens: a resolve has a token of its own, between those before and after.
func TestLuaResolveTokens(t *testing.T) {
	t.Parallel()
	j := newLuaJob(t, shared.rdb)
	var tokens []int64
	fence := func() { tokens = append(tokens, number(j.look("fence", nil))) }
	j.tell("begin a.1 s1 -> run 1\nlapse")
	fence()
	j.tell("resolve reopened s1 -> settled")
	fence()
	j.tell("begin b.1 s1 -> run 2")
	fence()
	j.tell("done b.1 -> ok\nresolve done s0 -> settled")
	fence()
	if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != 4 {
		t.Errorf("tokens %d", tokens)
	}
}
