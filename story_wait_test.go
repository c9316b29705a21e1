package main

import (
	"context"
	"testing"
)

// Stories of what a waiter hears.

// waitVerdict is what a waiter would hear.
func (j *luaJob) waitVerdict(slot string) string {
	text, err := j.alone(context.Background(), waitLua, j.job, map[string]any{"slot": slot, "begins": luaBegins(slot)})
	if err != nil {
		return err.Error()
	}
	r, err := decode[waitReply](text)
	if err != nil {
		return err.Error()
	}
	return r.Verdict
}

func TestLuaWait(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		{"running, done", `
			wait s1 -> open
			begin a.1 s1 -> run 1
			wait s1 -> running
			wait s2 -> open
			done a.1 -> ok
			wait s1 -> done`},
		{"failed", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			wait s1 -> running
			begin a.2 s1 attempts=2 -> run 2
			failed a.2 -> ok
			wait s1 -> failed
			resolve reopened s1 -> settled
			wait s1 -> open
			resolve done s1 -> settled
			wait s1 -> done`},
		{"uncertain", `
			begin a.1 s1 attempts=2 -> run 1
			lapse
			wait s1 -> open
			begin b.1 s1 attempts=2 -> run 2
			stop -> stopped
			wait s1 -> running
			lapse
			wait s1 -> uncertain`},
		{"skipped, paused, old", `
			begin a.1 s6 -> run 1
			begin b.1 s7 overlap=skip -> behind
			wait s7 -> open
			pause -> paused
			begin c.1 s8 -> paused
			wait s8 -> open
			set meta low 1796000300000
			wait s5 -> old`},
	})
}
