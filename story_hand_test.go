package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Stories of what people do by hand, and of the late copies that meet it: a command that was overtaken does nothing.

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
