package main

import (
	"testing"
)

// Stories of those who leave early, with a lost answer, a lapsed lease or a next try refused: they leave nothing in
// the way.

// TestLuaGivesBack holds what leaves a lease, a mark or an end behind that nobody cares for.
func TestLuaGivesBack(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		// A's begin is executed, its answer lost; A gives up.
		{"unstarted after a lost answer", `
			begin a.1 s1 -> run 1
			forget a
			unstarted a.1 -> ok
			entry s1 -> failed 0 a.1
			lock -> -
			begin b.1 s1 -> run 1`},
		// A kept its lease for its next try, it lapsed, another slot runs: the try is refused, and A leaves. The copy of A's
		// first question comes when the job is free.
		{"kept, lapsed, refused", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			lapse
			begin b.1 s2 -> run 1
			begin a.2 s1 attempts=2 -> behind
			entry s1 -> failed 1 a.1
			done b.1 -> ok
			copy a.1 -> ended
			lock -> -`},
		// The question for A's second try is never executed, A gives up. Then a copy of its first question comes.
		{"kept, next try never heard of", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			unstarted a.2 s1 -> ok
			entry s1 -> failed 1 a.1 earlier=a.2+
			lock -> -
			copy a.1 -> ended
			lock -> -`},
		// A's second try has lost its lease for good, B has run since: the copy of A's first question takes none.
		{"spent, and a copy of an older try", `
			begin a.1 s1 attempts=3 -> run 1
			failed a.1 kept -> ok
			begin a.2 s1 attempts=3 -> run 2
			lapse
			begin b.1 s2 -> run 1
			done b.1 -> ok
			copy a.1 -> ended
			lock -> -`},
		// The holder's slot is the oldest when somebody leaves a mark for another.
		{"holder's slot is never forgotten", `
			begin a.1 s1 keep=3 -> run 1
			begin b.1 s2 overlap=skip keep=3 -> behind
			begin b.1 s3 overlap=skip keep=3 -> behind
			unstarted c.1 s4 keep=3 -> ok
			entry s1 -> running 1 a.1
			done a.1 -> ok
			entry s1 -> done 1 a.1`},
		// Uncertain was told, then the end came after all: that it failed is news.
		{"told anew when the end comes", `
			begin a.1 s1 -> run 1
			lapse
			begin b.1 s1 -> uncertain told
			begin c.1 s1 -> uncertain
			failed a.1 -> ok
			begin d.1 s1 -> failed told
			begin e.1 s1 -> failed`},
		// What was done stays done when one further attempt cannot be started.
		{"rerun that never started", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			begin b.1 s1 rerun=why -> run 2
			unstarted b.1 -> ok
			begin c.1 s1 attempts=2 -> done`},
	})
}
