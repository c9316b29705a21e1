package main

import "testing"

// Stories of who says how many slots are kept, and of what is not written over.

// TestLuaLineKeeps: a run by hand, with --date, keeps as many slots as the line says, whatever it says itself.
func TestLuaLineKeeps(t *testing.T) {
	t.Parallel()
	const ten = `
		begin a.1 s1 keep=4 -> run 1
		done a.1 -> ok
		begin a.2 s2 keep=4 -> run 1
		done a.2 -> ok
		begin a.3 s3 keep=4 -> run 1
		done a.3 -> ok
		begin a.4 s4 keep=4 -> run 1
		done a.4 -> ok
		meta keep -> 4`
	tellLua(t, []luaStory{
		{"more than by hand", ten + `
			begin b.1 s2 dated from=date keep=2 -> done
			begin b.1 s5 dated from=date keep=2 -> run 1
			slots -> s2 s3 s4 s5
			done b.1 dated from=date keep=2 -> ok
			slots -> s2 s3 s4 s5
			meta keep -> 4`},
		{"fewer than by hand", ten + `
			begin b.1 s5 dated from=date keep=9 -> run 1
			slots -> s2 s3 s4 s5
			done b.1 -> ok`},
		{"a note by hand", ten + `
			begin b.1 s5 keep=4 -> run 1
			begin c.1 s6 dated from=date keep=2 overlap=skip -> behind
			slots -> s3 s4 s5 s6
			done b.1 -> ok`},
		{"an end that comes where the entry is lost", ten + `
			begin b.1 s5 dated from=date keep=2 -> run 1
			forgotten s5
			done b.1 -> ok
			slots -> s2 s3 s4 s5`},
		{"the line itself says fewer now", ten + `
			begin b.1 s5 keep=2 -> run 1
			slots -> s4 s5
			meta keep -> 2`},
		{"by hand before any line", `
			begin a.1 s1 dated from=date keep=2 -> run 1
			meta keep -> 2
			done a.1 -> ok
			begin b.1 s2 keep=3 -> run 1
			meta keep -> 3
			done b.1 -> ok`},
	})
}

// TestLuaMissedStays: a slot that is missed stays so when a run is in the way of catching up with it, or a pause; it is
// not missed any more once it runs.
func TestLuaMissedStays(t *testing.T) {
	t.Parallel()
	const missed = `
		set ledger s1 {"state":"missed","attempt":0,"host":"web-9","began":1}
		entry s1 -> missed 0`
	tellLua(t, []luaStory{
		{"another run in the way", missed + `
			begin a.1 s2 -> run 1
			begin b.1 s1 overlap=skip -> behind
			entry s1 -> missed 0
			hosts web-b -> skipped
			done a.1 -> ok
			begin b.1 s1 overlap=skip -> run 1
			done b.1 -> ok
			entry s1 -> done 1 b.1`},
		{"paused", missed + `
			set meta paused {}
			begin b.1 s1 -> paused
			entry s1 -> missed 0`},
		{"what is not missed is skipped, and paused then", `
			begin a.1 s2 -> run 1
			begin b.1 s1 overlap=skip -> behind
			entry s1 -> skipped 0
			set meta paused {}
			begin b.1 s1 overlap=skip -> paused
			entry s1 -> paused 0`},
	})
}
