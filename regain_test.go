package main

import "testing"

// TestLuaRegain: a lease that merely lapsed is taken back, one that somebody has begun after is not. Whatever the answer,
// nobody's living lease is touched, and no lease is left that nobody has.
func TestLuaRegain(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		// SH-06: the lock was deleted under the running command, and nobody came.
		{"lapsed", `
			begin a.1 s1 -> run 1
			lapse
			regain a.1 -> held
			lock -> a
			done a.1 -> ok
			lock -> -`},
		// SH-29: Redis came back empty, or a replica that never saw the attempt was promoted.
		{"wiped", `
			begin a.1 s1 -> run 1
			wipe
			regain a.1 -> regained
			lock -> a
			entry s1 -> running 1 a.1
			meta current -> s1
			meta every -> day
			meta zone -> UTC
			regain a.1 -> held
			begin b.1 s1 -> busy
			done a.1 -> ok
			entry s1 -> done 1 a.1
			log -> regained 1 end 1`},
		{"an old snapshot, of the attempt before", `
			begin a.1 s1 attempts=3 -> run 1
			failed a.1 -> ok
			begin b.1 s1 attempts=3 -> run 2
			forgotten s1
			begin c.1 s1 dated -> behind
			wipe
			begin a.1 s1 attempts=3 -> run 1
			failed a.1 -> ok
			set fence 1
			regain b.1 -> regained
			entry s1 -> running 2 b.1 earlier=a.1+
			done b.1 -> ok`},
		{"somebody else has begun this slot", `
			begin a.1 s1 attempts=2 -> run 1
			lapse
			begin b.1 s1 attempts=2 -> run 2
			regain a.1 -> lost
			lock -> b
			done b.1 -> ok
			regain a.1 -> lost
			lock -> -`},
		{"somebody else has begun another slot, and ended", `
			begin a.1 s1 -> run 1
			lapse
			begin b.1 s2 -> run 1
			regain a.1 -> lost
			lock -> b
			done b.1 -> ok
			regain a.1 -> lost
			lock -> -
			entry s1 -> running 1 a.1`},
		{"a late copy, after the end", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			regain a.1 -> ended
			lock -> -
			entry s1 -> done 1 a.1`},
		{"a late copy of the first try, while the second lives", `
			begin a.1 s1 attempts=3 -> run 1
			failed a.1 kept -> ok
			regain a.1 -> held
			lock -> a
			begin a.2 s1 attempts=3 -> run 2
			regain a.1 -> held
			lock -> a
			entry s1 -> running 2 a.2 earlier=a.1+
			done a.2 -> ok
			regain a.1 -> ended
			lock -> -`},
		{"kept, lapsed, and another slot has run meanwhile", `
			begin a.1 s1 attempts=3 -> run 1
			failed a.1 kept -> ok
			lapse
			begin b.1 s2 -> run 1
			done b.1 -> ok
			regain a.1 -> lost
			lock -> -`},
		{"below the low-water mark nothing is regained twice", `
			begin a.1 s1 -> run 1
			unstarted a.1 -> ok
			regain a.1 -> ended
			lock -> -`},
	})
}

// TestLuaStop: a stop makes the lease lost at once, and nobody begins before the holder must have stopped, or has said so.
func TestLuaStop(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		{"nobody", `
			stop -> nobody
			begin a.1 s1 -> run 1
			done a.1 -> ok
			stop -> nobody`},
		{"the holder", `
			begin a.1 s1 attempts=2 -> run 1
			stop -> stopped
			stop -> again
			lock -> s
			regain a.1 -> lost
			lock -> s
			begin b.1 s1 attempts=2 -> busy
			begin b.1 s2 -> behind
			copy a.1 -> lost
			lock -> s
			failed a.1 -> ok
			lock -> -
			begin b.1 s1 attempts=2 -> run 2`},
		{"the holder never says so", `
			begin a.1 s1 attempts=2 -> run 1
			stop -> stopped
			lapse
			begin b.1 s1 attempts=2 -> run 2
			failed a.1 -> stale
			lock -> b`},
	})
}
