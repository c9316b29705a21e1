package main

import (
	"context"
	"strconv"
	"testing"
)

// Stories of tokens, to the last digit.

// TestLuaTokens: a token is the clock's milliseconds, or one more than the last, to the last digit.
func TestLuaTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fence, token string }{
		{"", ""},
		{"1500000000000", ""},
		{"9007199254740000", "9007199254740001"},
		{"4000000000000000", "4000000000000001"},
		{"3000000000000", "3000000000001"}, // SH-19: the clock is behind the last token
	} {
		t.Run(fallback(c.fence, "none"), func(t *testing.T) {
			t.Parallel()
			j, ctx := newLuaJob(t, shared.rdb), context.Background()
			k := j.keys(j.job)
			if c.fence != "" {
				j.tell("set fence " + c.fence)
			}
			before := j.Time(ctx).Val().UnixMilli()
			j.tell("begin a.1 s1 -> run 1")
			after := j.Time(ctx).Val().UnixMilli()
			token := strconv.FormatInt(j.given["a.1"].Token, 10)
			if n := j.given["a.1"].Token; c.token == "" && (n < before || n > after || len(token) != 13) {
				t.Errorf("token %s, the clock was at %d to %d", token, before, after)
			}
			if c.token != "" && token != c.token {
				t.Errorf("token %s, want %s", token, c.token)
			}
			e := entryOf(t, j.job, "s1")
			logged := j.XRange(ctx, k[4], "-", "+").Val()[0].Values["token"]
			if j.look("fence", nil) != token || logged != token || strconv.FormatInt(e.Token, 10) != token {
				t.Errorf("token %s; fence %s, log %v, entry %d", token, j.look("fence", nil), logged, e.Token)
			}
			if e.Began < before || e.Began > after {
				t.Errorf("began %d, the clock was at %d to %d", e.Began, before, after)
			}
			j.tell("done a.1 -> ok\nbegin b.1 s2 -> run 1")
			if b := j.given["b.1"].Token; b <= j.given["a.1"].Token {
				t.Errorf("token %d after %s", b, token)
			}
		})
	}
}
