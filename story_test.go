package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// What the scripts decide, told as stories: one request a line, and what comes of it. A story sends what the program
// sends, through redislock and its frame.
//
//	begin a.1 s1 attempts=2 -> run 1     run ID aaa…, try 1, asks for slot s1; the verdict, and a run's attempt
//	copy a.1 -> ended                    the same bytes again, late
//	done|failed|unstarted a.1 [kept] -> ok     the end of it, with the lease given back
//	renew a -> ok | lost
//	regain a.1 -> held | regained | lost | ended    the same attempt asks for its lease back
//	stop -> stopped | again | nobody     by hand: looks, then does what it says
//	resolve done s1 -> settled           or reopened; pause and resume likewise; see story_hand_test.go
//	lost pause -> lost                   it is not sent, or not yet
//	resend resolve -> settled            the same bytes again, of the newest such command
//	lapse                                the lease runs out
//	set meta paused {}                   another key of the job, by its last word; a hash by its field
//	entry s1 -> done 1 a.1 earlier=b.1+
//	lock -> a | -                        whose lease it is
//	meta low -> …    slots -> s1 s2      log -> begin 1 end 1     hosts web-1 -> ran
//
// Slot sN begins N minutes after luaEpoch.

const luaEpoch = 1796000000000 // ms

type luaStory struct{ name, text string }

// A luaJob is one job, and what was sent about it.
type luaJob struct {
	t *testing.T
	*ledger
	job    string
	leases map[string]*lease
	asked  map[string]question
	given  map[string]*reply
	orders map[string]func() string // by hand
	ids    int
	script string // begin.lua
}

func newLuaJob(t *testing.T, rdb redis.UniversalClient) *luaJob {
	return &luaJob{t: t, ledger: &ledger{rdb, namespaceOf(t)}, job: "invoice", leases: map[string]*lease{},
		asked: map[string]question{}, given: map[string]*reply{}, script: beginLua,
		orders: map[string]func() string{}}
}

func tellLua(t *testing.T, stories []luaStory) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			newLuaJob(t, shared.rdb).tell(s.text)
		})
	}
}

// tell plays a story to its end, or to its first line that comes out otherwise.
func (j *luaJob) tell(story string) {
	j.t.Helper()
	for n, line := range strings.Split(strings.TrimSpace(story), "\n") {
		line, _, _ = strings.Cut(line, "#")
		do, want, _ := strings.Cut(line, "->")
		words := strings.Fields(do)
		if len(words) == 0 {
			continue
		}
		if got := j.do(words); got != strings.Join(strings.Fields(want), " ") {
			j.t.Fatalf("line %d: %s\ngot %s", n+1, strings.TrimSpace(line), got)
		}
		if ttl := j.PTTL(context.Background(), j.keys(j.job)[0]).Val(); ttl == -1 {
			j.t.Fatalf("line %d: %s\nthe lock has no expiry", n+1, strings.TrimSpace(line))
		}
	}
}

// do is one line.
func (j *luaJob) do(words []string) string {
	ctx, k := context.Background(), j.keys(j.job)
	switch verb, args := words[0], words[1:]; verb {
	case "begin":
		j.asked[args[0]] = j.question(args)
		return j.begin(j.asked[args[0]])
	case "copy":
		return j.begin(j.asked[args[0]])
	case "done", "failed", "unstarted":
		return j.finish(verb, args)
	case "renew":
		if err := j.lease(args[0]).renew(ctx); err != nil {
			return strings.TrimPrefix(err.Error(), "lease ")
		}
		return "ok"
	case "regain":
		return j.regain(args[0])
	case "stop", "resolve", "pause", "resume", "lost":
		return j.byHand(verb, args)
	case "resend":
		return j.orders[args[0]]()
	case "wait":
		return j.waitVerdict(args[0])
	case "forget": // the answer was lost: the client knows of no lock
		j.lease(args[0]).lock = nil
		return ""
	case "lapse":
		j.Del(ctx, k[0])
		return ""
	case "set":
		if len(args) == 3 {
			j.HSet(ctx, j.prefix(j.job)+args[0], args[1], args[2])
		} else {
			j.Set(ctx, j.prefix(j.job)+args[0], args[1], 0)
		}
		return ""
	case "unset":
		j.HDel(ctx, j.prefix(j.job)+args[0], args[1])
		return ""
	case "forgotten":
		j.HDel(ctx, k[2], args[0])
		j.ZRem(ctx, k[3], args[0])
		return ""
	case "wipe":
		j.Del(ctx, k...)
		return ""
	default:
		return j.look(verb, args)
	}
}

// look reads one thing that Redis holds.
func (j *luaJob) look(verb string, args []string) string {
	ctx, k := context.Background(), j.keys(j.job)
	switch verb {
	case "entry":
		return j.entry(args[0])
	case "lock":
		return fallback(j.Get(ctx, k[0]).Val(), "-")[:1]
	case "fence":
		return j.Get(ctx, k[1]).Val()
	case "slots":
		return strings.Join(j.ZRange(ctx, k[3], 0, -1).Val(), " ")
	case "meta":
		return fallback(j.HGet(ctx, k[5], args[0]).Val(), "-")
	case "hosts":
		h, err := decode[map[string]any](fallback(j.HGet(ctx, k[6], strings.Join(args, " ")).Val(), "{}"))
		if err != nil {
			return err.Error()
		}
		return strings.TrimSuffix(fmt.Sprint((*h)["answer"], " ", (*h)["why"]), " <nil>")
	case "log":
		var all []string
		for _, e := range j.XRange(ctx, k[4], "-", "+").Val() {
			what, attempt := e.Values["event"].(string), e.Values["attempt"]
			if attempt == nil { // by hand
				attempt = e.Values["as"]
			}
			all = append(all, strings.TrimSuffix(fmt.Sprint(what, " ", attempt), " <nil>"))
		}
		return strings.Join(all, " ")
	}
	j.t.Fatalf("no such verb: %s", verb)
	return ""
}

func fallback(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// entry is an entry in short: state, attempt, who, and what is not as usual.
func (j *luaJob) entry(slot string) string {
	text, err := j.HGet(context.Background(), j.keys(j.job)[2], slot).Result()
	if err != nil {
		return "-"
	}
	e, err := decode[entry](text)
	if err != nil {
		j.t.Fatalf("%s: %v", text, err)
	}
	words := []string{e.State, strconv.Itoa(e.Attempt)}
	if e.Resolved != nil { // the run ID of a resolve is a number
		e.RunID, e.Try = "R", 1
		words = append(words, e.Resolved.As)
	}
	if e.RunID != "" {
		words = append(words, fmt.Sprintf("%s.%d", e.RunID[:1], e.Try))
	}
	if e.Kept {
		words = append(words, "kept")
	}
	if e.Stale > 0 {
		words = append(words, "stale="+strconv.Itoa(e.Stale))
	}
	var before []string
	for _, tag := range e.Earlier {
		part := strings.Split(tag, ".")
		before = append(before, part[0][:1]+"."+part[1]+map[bool]string{true: "+"}[strings.HasSuffix(tag, "+")])
	}
	if before != nil {
		words = append(words, "earlier="+strings.Join(before, ","))
	}
	return strings.Join(words, " ")
}
