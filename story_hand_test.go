package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Stories of what people do by hand, and of the late copies that meet it: a slot that was settled stays so whatever an
// older attempt does or tells, and a command that was overtaken does nothing.

// byHand looks at the job and sends a command. The bytes can be sent again.
func (j *luaJob) byHand(verb string, args []string) string {
	ctx, k := context.Background(), j.keys(j.job)
	lost := verb == "lost"
	if lost {
		verb, args = args[0], args[1:]
	}
	j.ids++
	lock := strings.TrimPrefix(j.Get(ctx, k[0]).Val(), "stop:")
	q := map[string]any{"by": "kim@web-9", "reason": "x", "slot": "", "keep": 400, "zone_from": "date",
		"run_id": lock[:min(len(lock), 32)]}
	script := map[string]string{"stop": stopLua, "resolve": resolveLua, "pause": pauseLua, "resume": pauseLua}[verb]
	switch verb {
	case "resolve":
		begins := luaBegins(args[1])
		for name, v := range map[string]any{"run_id": fmt.Sprintf("%032d", j.ids), "try": 1, "as": args[0], "slot": args[1],
			"begins": begins, "from": begins, "to": begins + 60000, "shape": "", "fence": j.Get(ctx, k[1]).Val(),
			"channel": j.channel(j.job)} {
			q[name] = v
		}
	case "pause", "resume":
		p, err := decode[pause](fallback(j.HGet(ctx, k[5], "paused").Val(), "{}"))
		if err != nil {
			return err.Error()
		}
		q["what"], q["id"], q["seen"], q["until"] = verb, strconv.Itoa(j.ids), p.N, 0
		if len(args) > 0 {
			q["until"] = number(args[0])
		}
	}
	send := func() string {
		text, err := j.alone(ctx, script, j.job, q)
		if err != nil {
			return "error " + cause(err)
		}
		r, err := decode[pauseReply](text)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSuffix(fmt.Sprint(r.Verdict, " ", r.Count), " 0")
	}
	if j.orders[verb] = send; lost {
		return "lost"
	}
	return send()
}

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

func TestLuaResolve(t *testing.T) {
	t.Parallel()
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
		{"refused while it is kept for a retry", `
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
		{"reopened after a rerun", `
			begin a.1 s1 -> run 1
			failed a.1 -> ok
			begin b.1 s1 rerun=why -> run 2
			failed b.1 -> ok
			resolve reopened s1 -> settled
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
		{"reopened, and that one never started", `
			begin a.1 s1 -> run 1
			failed a.1 -> ok
			begin b.1 s1 rerun=why -> run 2
			failed b.1 -> ok
			resolve reopened s1 -> settled
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

// Sent twice it is done once; a copy that comes when the world has moved on does nothing.
func TestLuaByHandTwice(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		{"done", `
			begin a.1 s1 -> run 1
			lapse
			resolve done s1 -> settled
			resend resolve -> settled
			entry s1 -> done 1 done R.1 earlier=a.1
			log -> begin 1 resolve done
			meta count_uncertain -> 1`},
		{"reopened, and run again since", `
			begin a.1 s1 -> run 1
			failed a.1 -> ok
			resolve reopened s1 -> settled
			resend resolve -> settled
			begin b.1 s1 -> run 2
			resend resolve -> changed
			failed b.1 -> ok
			resend resolve -> changed
			begin c.1 s1 -> failed told`},
		{"done, and reopened since", `
			begin a.1 s1 -> run 1
			lapse
			resolve done s1 -> settled
			resolve reopened s1 -> settled
			resend resolve -> settled
			entry s1 -> running 1 reopened R.1 earlier=a.1,0.1+`},
		{"a resolve that never came, and an attempt since", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 -> ok
			resolve done s2 -> settled
			begin b.1 s1 attempts=2 -> run 2
			failed b.1 -> ok
			forgotten s2
			resend resolve -> changed
			entry s2 -> -`},
		{"stop, and another run since", `
			begin a.1 s1 -> run 1
			stop -> stopped
			resend stop -> again
			failed a.1 -> ok
			resend stop -> nobody
			begin b.1 s2 -> run 1
			resend stop -> changed
			renew b -> ok
			log -> begin 1 stop end 1 begin 1`},
		{"pause and resume", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			pause -> paused
			resend pause -> paused
			begin b.1 s2 -> paused
			resume -> resumed 1
			resend resume -> resumed 1
			resend pause -> changed
			begin b.1 s2 -> run 1
			resume -> idle
			resend resume -> idle
			log -> begin 1 end 1 pause resume begin 1`},
		{"a resume of what is not paused, and a pause that was under way", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			lost pause -> lost
			resume -> idle
			resend pause -> changed
			begin b.1 s2 -> run 1`},
		{"paused anew, and the old resume once more", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			pause -> paused
			resume -> resumed
			pause -> paused
			resend resume -> changed
			begin b.1 s2 -> paused`},
		{"paused until another time", `
			begin a.1 s1 -> run 1
			pause -> paused
			done a.1 -> ok
			pause 9999999999999 -> paused
			begin b.1 s2 -> paused
			pause 1 -> paused
			begin b.1 s2 -> run 1
			resume -> idle`},
	})
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
