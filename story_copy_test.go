package main

import (
	"fmt"
	"strings"
	"testing"
)

// Stories of copies: what is sent twice, or comes late, changes nothing.

// TestLuaCopies holds every step to this: sent twice, or late, it changes nothing.
func TestLuaCopies(t *testing.T) {
	t.Parallel()
	ten := ""
	for n, run := range strings.Split("a b c d e f g h i j", " ") {
		ten += fmt.Sprintf("begin %s.1 s1 attempts=12 -> run %d\nfailed %s.1 -> ok\n", run, n+1, run)
	}
	tellLua(t, []luaStory{
		{"begin while it lives", `
			begin a.1 s1 -> run 1
			copy a.1 -> run 1
			set meta paused {}
			copy a.1 -> run 1
			lock -> a
			log -> begin 1`},
		{"begin after the end", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 -> ok
			copy a.1 -> ended
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"begin after it was overtaken", `
			begin a.1 s1 attempts=3 -> run 1
			lapse
			begin b.1 s1 attempts=3 -> run 2
			copy a.1 -> ended
			lock -> b
			failed b.1 -> ok
			copy a.1 -> ended
			lock -> -
			entry s1 -> failed 2 b.1 earlier=a.1`},
		{"begin after a dozen others", ten + `
			copy a.1 -> ended
			copy b.1 -> ended
			failed a.1 -> already
			entry s1 -> failed 10 j.1 earlier=a.1+,b.1+,c.1+,d.1+,e.1+,f.1+,g.1+,h.1+,i.1+`},
		// A's begin is executed, its answer lost, its lease lapses; B begins and ends another slot; A asks again.
		{"a token that is spent", `
			begin a.1 s1 -> run 1
			lapse
			begin b.1 s2 -> run 1
			copy a.1 -> lost
			lock -> b
			done b.1 -> ok
			copy a.1 -> lost
			lock -> -
			unstarted a.1 -> ok
			entry s1 -> failed 0 a.1
			begin c.1 s1 -> run 1`},
		{"a lease that only lapsed", `
			begin a.1 s1 -> run 1
			lapse
			copy a.1 -> run 1
			lock -> a
			log -> begin 1`},
		{"end", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			done a.1 -> already
			failed a.1 -> already
			entry s1 -> done 1 a.1
			meta count_done -> 1
			meta count_failed -> -
			log -> begin 1 end 1`},
		// SH-07: whoever has lost its lease gives back nothing of the new holder's.
		{"end, and somebody else's lease", `
			begin a.1 s1 attempts=2 -> run 1
			lapse
			begin b.1 s2 -> run 1
			done a.1 -> ok
			lock -> b
			done a.1 -> already
			lock -> b
			renew a -> lost
			entry s1 -> done 1 a.1
			unstarted a.1 -> already
			lock -> b`},
		{"stale end", `
			begin a.1 s1 attempts=2 -> run 1
			lapse
			begin b.1 s1 attempts=2 -> run 2
			done a.1 -> stale
			done a.1 -> already
			entry s1 -> running 2 b.1 stale=1 earlier=a.1+
			meta count_stale -> 1
			lock -> b
			copy a.1 -> ended
			failed b.1 -> ok
			done a.1 -> already
			entry s1 -> failed 2 b.1 stale=1 earlier=a.1+
			log -> begin 1 begin 2 stale 1 end 2`},
		{"stale ends are counted through attempts", `
			begin a.1 s1 attempts=3 -> run 1
			lapse
			begin b.1 s1 attempts=3 -> run 2
			failed a.1 -> stale
			lapse
			begin c.1 s1 attempts=3 -> run 3
			failed b.1 -> stale
			entry s1 -> running 3 c.1 stale=2 earlier=a.1+,b.1+`},
		// Between two attempts of one process copies of both questions and of the first end come.
		{"try one, while try two lives", `
			begin a.1 s1 attempts=3 -> run 1
			failed a.1 kept -> ok
			copy a.1 -> ended
			lock -> a
			entry s1 -> failed 1 a.1 kept
			begin a.2 s1 attempts=3 -> run 2
			copy a.1 -> ended
			failed a.1 kept -> already
			lock -> a
			entry s1 -> running 2 a.2 earlier=a.1+
			copy a.2 -> run 2
			done a.2 -> ok
			copy a.2 -> ended
			copy a.1 -> ended
			lock -> -`},
		{"tries of one hold take one place", `
			begin a.1 s1 attempts=9 -> run 1
			failed a.1 kept -> ok
			begin a.2 s1 attempts=9 -> run 2
			failed a.2 kept -> ok
			begin a.3 s1 attempts=9 -> run 3
			failed a.3 -> ok
			begin b.1 s1 attempts=9 -> run 4
			entry s1 -> running 4 b.1 earlier=a.3+
			copy a.1 -> ended
			copy a.2 -> ended
			failed a.2 kept -> already
			done a.1 -> already
			lock -> b`},
		{"a try whose end is not known keeps its own", `
			begin a.1 s1 attempts=9 -> run 1
			unstarted a.2 s1 -> ok
			entry s1 -> running 1 a.1 earlier=a.2+
			lapse
			begin b.1 s1 attempts=9 -> run 2
			entry s1 -> running 2 b.1 earlier=a.2+,a.1
			copy a.1 -> ended
			done a.1 -> stale
			entry s1 -> running 2 b.1 stale=1 earlier=a.2+,a.1+
			done a.1 -> already
			begin a.2 s1 attempts=9 -> ended`},
		{"kept, and then not", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			failed a.1 -> already
			entry s1 -> failed 1 a.1
			lock -> -
			failed a.1 kept -> already
			entry s1 -> failed 1 a.1
			begin b.1 s1 attempts=2 -> run 2`},
		{"next try refused: paused", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			set meta paused {}
			begin a.2 s1 attempts=2 -> paused
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"next try refused: attempts", `
			begin a.1 s1 -> run 1
			failed a.1 kept -> ok
			begin a.2 s1 -> failed told
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"next try refused: zone", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			begin a.2 s1 attempts=2 zone=Asia/Seoul -> zone
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"unstarted", `
			begin a.1 s1 -> run 1
			unstarted a.1 -> ok
			unstarted a.1 -> already
			entry s1 -> failed 0 a.1
			lock -> -
			copy a.1 -> ended
			begin b.1 s1 -> run 1
			entry s1 -> running 1 b.1 earlier=a.1+
			copy a.1 -> ended
			meta count_unstarted -> 1`},
		{"unstarted of a question that comes later", `
			unstarted a.1 s1 -> ok
			entry s1 -> failed 0 a.1
			begin a.1 s1 -> ended
			lock -> -
			log ->
			begin b.1 s1 -> run 1
			begin a.1 s1 -> ended
			lock -> b`},
		{"unstarted of a question about a slot that is another's", `
			begin b.1 s1 attempts=2 -> run 1
			unstarted a.1 s1 -> ok
			entry s1 -> running 1 b.1 earlier=a.1+
			failed b.1 -> ok
			begin a.1 s1 attempts=2 -> ended
			lock -> -
			meta count_stale -> -
			log -> begin 1 end 1`},
		{"unstarted of a question about a slot that was skipped", `
			begin b.1 s2 -> run 1
			begin a.1 s1 overlap=skip -> behind
			unstarted a.1 -> ok
			done b.1 -> ok
			copy a.1 -> ended
			lock -> -
			begin c.1 s1 -> run 1`},
		{"unstarted, overtaken", `
			begin a.1 s1 attempts=2 -> run 1
			lapse
			begin b.1 s1 attempts=2 -> run 2
			unstarted a.1 -> ok
			entry s1 -> running 2 b.1 earlier=a.1+
			meta count_stale -> -`},
		// Redis loses everything between begin and end; the copies of the first try know only what the end brought back.
		{"after a wipe", `
			begin a.1 s1 attempts=5 zone=Asia/Seoul every=hour -> run 1
			failed a.1 kept -> ok
			begin a.2 s1 attempts=5 zone=Asia/Seoul every=hour -> run 2
			wipe
			failed a.2 -> ok
			entry s1 -> failed 2 a.2
			meta zone -> Asia/Seoul
			meta every -> hour
			meta listed -> -
			copy a.1 -> ended
			copy a.2 -> ended
			failed a.1 kept -> already
			failed a.2 -> already
			lock -> -
			begin b.1 s1 attempts=5 zone=Asia/Seoul -> run 3`},
		{"a token outlives a wipe", `
			set fence 9007199254740000
			begin a.1 s1 -> run 1
			wipe
			done a.1 -> ok
			fence -> 9007199254740001`},
		{"renewal", `
			begin a.1 s1 -> run 1
			set meta heard 5
			lapse
			renew a -> lost
			meta heard -> 5
			lock -> -`},
		{"forgotten", `
			begin a.1 s1 -> run 1
			set meta low 1796000600000
			lapse
			forgotten s1
			done a.1 -> late
			copy a.1 -> old
			entry s1 -> -
			lock -> -
			log -> begin 1 late 1`},
	})
}
