package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bsm/redislock"
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
//	stop -> stopped | again | nobody
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
	script string // begin.lua
}

func newLuaJob(t *testing.T, rdb redis.UniversalClient) *luaJob {
	return &luaJob{t: t, ledger: &ledger{rdb, namespaceOf(t)}, job: "invoice", leases: map[string]*lease{},
		asked: map[string]question{}, given: map[string]*reply{}, script: beginLua}
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
	case "stop":
		text, err := j.alone(ctx, stopLua, j.job, map[string]any{"by": "kim@web-9", "reason": "x", "slot": "", "keep": 400})
		if err != nil {
			return err.Error()
		}
		r, err := decode[reply](text)
		if err != nil {
			return err.Error()
		}
		return r.Verdict
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
			all = append(all, e.Values["event"].(string), e.Values["attempt"].(string))
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

// who splits a.1 into a run ID and a try.
func luaWho(word string) attempt {
	run, try, _ := strings.Cut(word, ".")
	n, _ := strconv.Atoi(try)
	return attempt{strings.Repeat(run, 32), n}
}

func (j *luaJob) lease(word string) *lease {
	run := luaWho(word).RunID
	if j.leases[run] == nil {
		j.leases[run] = newLease(j.ledger, j.job, "web-"+run[:1]+":1", time.Minute)
		j.leases[run].runID = run
	}
	return j.leases[run]
}

// question makes a question of its words. Each run ID is a host of its own, unless the words say otherwise.
func (j *luaJob) question(words []string) question {
	q := question{attempt: luaWho(words[0]), asker: asker{Host: "web-" + words[0][:1], PID: 1, User: "root", Version: "1"},
		terms: terms{Every: "day", DayStart: "00:00", Attempts: 1, Lease: 60000, Keep: 400, Zone: "UTC",
			Offsets: "+00:00 +00:00", ZoneFrom: "default", Line: "line"},
		Slot: words[1], Begins: luaBegins(words[1]), Overlap: "wait", Now: millis(time.Now())}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "attempts":
			q.Attempts = n
		case "overlap":
			q.Overlap = value
		case "keep":
			q.Keep = n
		case "host":
			q.Host, q.Machine, _ = strings.Cut(value, "/")
		case "line":
			q.Line = value
		case "args":
			q.Args = value
		case "minute":
			q.Minute = value
		case "zone":
			q.Zone, q.Offsets = value, value
		case "from":
			q.ZoneFrom = value
		case "rerun":
			q.Rerun = value
		case "every":
			q.Every = value
		case "dated":
			q.Dated = true
		case "dry":
			q.Dry = true
		case "now":
			off, err := time.ParseDuration(value)
			if err != nil {
				j.t.Fatal(err)
			}
			q.Now += off.Milliseconds()
		default:
			j.t.Fatalf("no such word: %s", word)
		}
	}
	return q
}

func luaBegins(slot string) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(slot, "s"), 10, 64)
	return luaEpoch + n*60000
}

// begin sends the bytes of a question, as often as it is called.
func (j *luaJob) begin(q question) string {
	r, err := j.send(q)
	switch {
	case err != nil:
		return "error " + cause(err)
	case r.Verdict != "run":
		return r.Verdict + map[bool]string{true: " told"}[r.Told]
	case !q.Dry:
		j.given[fmt.Sprintf("%s.%d", q.RunID[:1], q.Try)] = r
	}
	return "run " + strconv.Itoa(r.Attempt)
}

func (j *luaJob) send(q question) (*reply, error) {
	if q.Dry {
		return j.foresee(context.Background(), j.job, q)
	}
	s := j.lease(q.RunID[:1])
	s.step.compose(obtainLua, j.script, q)
	lock, err := luaObtain(s)
	if err != nil {
		return nil, err
	}
	r, err := decode[reply](s.step.answer)
	if err == nil && r.Verdict == "run" {
		s.lock = lock
	}
	return r, err
}

// finish sends an end, with the lease where there is one.
func (j *luaJob) finish(state string, words []string) string {
	q, r := j.asked[words[0]], j.given[words[0]]
	if q.Slot == "" { // never asked, as far as Redis knows
		q = j.question(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "kept" }))
	}
	e := j.end(words[0], q, r)
	e.State, e.Exit, e.Took = state, map[string]string{"done": "0", "failed": "1"}[state], 1000
	e.Kept = slices.Contains(words, "kept")
	receipt, err := j.lease(words[0]).finish(context.Background(), e)
	if err != nil {
		return "error " + cause(err)
	}
	return receipt.Verdict
}

// end is an end of the attempt, but for how it ended.
func (j *luaJob) end(who string, q question, r *reply) end {
	e := end{attempt: luaWho(who), asker: q.asker, terms: q.terms, Slot: q.Slot, Begins: q.Begins, Channel: j.channel(j.job)}
	if r != nil {
		e.Number, e.Token, e.Began = r.Attempt, r.Token, r.Time
	}
	return e
}

// regain asks for a lapsed lease; the answer is the script's.
func (j *luaJob) regain(who string) string {
	s := j.lease(who)
	s.claim = func() end { return j.end(who, j.asked[who], j.given[who]) }
	if err := s.regain(context.Background()); err != nil && !errors.Is(err, errLost) {
		return "error " + cause(err)
	}
	r, err := decode[reply](s.step.answer)
	if err != nil {
		return err.Error()
	}
	return r.Verdict
}

// luaObtain sends what is composed, as lease.begin does.
func luaObtain(s *lease) (*redislock.Lock, error) {
	lock, err := s.client.Obtain(context.Background(), s.ledger.keys(s.job)[0], s.ttl,
		&redislock.Options{Token: s.runID, Metadata: s.step.metadata})
	if errors.Is(err, redislock.ErrNotObtained) {
		err = nil
	}
	return lock, err
}

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
		// A kept its lease for a retry, it lapsed, another slot runs: the retry is refused, and A leaves. The copy of A's
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
		// The question for A's retry is never executed, A gives up. Then a copy of its first question comes.
		{"kept, retry never heard of", `
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

// TestLuaVerdicts holds begin.lua to DESIGN's table, row by row and in its order.
func TestLuaVerdicts(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		{"absent", `
			begin a.1 s1 -> run 1
			entry s1 -> running 1 a.1
			lock -> a
			done a.1 -> ok
			entry s1 -> done 1 a.1
			lock -> -
			log -> begin 1 end 1`},
		{"done", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			begin b.1 s1 attempts=3 -> done
			entry s1 -> done 1 a.1
			lock -> -`},
		{"busy", `
			begin a.1 s1 attempts=2 -> run 1
			begin b.1 s1 attempts=2 -> busy
			begin c.1 s1 attempts=2 overlap=skip -> busy
			entry s1 -> running 1 a.1
			lock -> a`},
		{"busy between two attempts of one process", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			begin b.1 s1 attempts=2 -> busy
			entry s1 -> failed 1 a.1 kept
			begin a.2 s1 attempts=2 -> run 2
			entry s1 -> running 2 a.2 earlier=a.1+
			done a.2 -> ok
			lock -> -`},
		{"failed, told by one", `
			begin a.1 s1 -> run 1
			failed a.1 -> ok
			begin b.1 s1 -> failed told
			begin c.1 s1 -> failed
			begin b.1 s1 -> failed told
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"failed, an attempt left", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 -> ok
			begin b.1 s1 attempts=2 -> run 2
			failed b.1 -> ok
			begin c.1 s1 attempts=2 -> failed told
			entry s1 -> failed 2 b.1 earlier=a.1+`},
		{"uncertain, told by one", `
			begin a.1 s1 -> run 1
			lapse
			begin b.1 s1 -> uncertain told
			begin c.1 s1 -> uncertain
			entry s1 -> running 1 a.1
			lock -> -
			meta count_uncertain -> -`},
		{"uncertain, an attempt left", `
			begin a.1 s1 attempts=2 -> run 1
			lapse
			begin b.1 s1 attempts=2 -> run 2
			entry s1 -> running 2 b.1 earlier=a.1
			meta count_uncertain -> 1`},
		{"another's end after uncertain", `
			begin a.1 s1 -> run 1
			lapse
			begin b.1 s1 -> uncertain told
			done a.1 -> ok
			begin c.1 s1 -> done`},
		{"behind, waiting", `
			begin a.1 s1 -> run 1
			begin b.1 s2 -> behind
			entry s2 -> -
			hosts web-b -> waiting
			done a.1 -> ok
			begin b.1 s2 -> run 1`},
		{"behind, skipping", `
			begin a.1 s1 -> run 1
			begin b.1 s2 overlap=skip -> behind
			entry s2 -> skipped 0
			hosts web-b -> skipped
			done a.1 -> ok
			begin c.1 s2 -> run 1
			entry s2 -> running 1 c.1`},
		{"skipped is never written over an attempt", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 -> ok
			begin b.1 s2 -> run 1
			begin c.1 s1 attempts=2 overlap=skip -> behind
			entry s1 -> failed 1 a.1`},
		{"paused", `
			set meta paused {}
			begin a.1 s1 -> paused
			entry s1 -> paused 0
			lock -> -
			unset meta paused
			begin a.1 s1 -> run 1
			set meta paused {}
			begin b.1 s1 -> busy
			done a.1 -> ok
			begin b.1 s1 -> done
			begin b.1 s2 rerun=why -> paused
			meta current -> s1`},
		{"paused until a time to come", `
			set meta paused {"until":9999999999999}
			begin a.1 s1 -> paused`},
		{"paused until a time that is past", `
			set meta paused {"until":1600000000000}
			begin a.1 s1 -> run 1`},
		{"clock", `
			begin a.1 s1 now=-59m -> run 1
			done a.1 -> ok
			begin b.1 s1 now=-61m -> clock
			begin b.1 s1 now=61m -> clock
			begin b.1 s1 now=59m -> done
			lock -> -
			entry s1 -> done 1 a.1`},
		{"zone", `
			begin a.1 s1 zone=Asia/Seoul -> run 1
			done a.1 -> ok
			begin b.1 s2 zone=UTC -> zone
			lock -> -
			entry s2 -> -
			hosts web-b -> refused zone
			begin b.1 s2 zone=UTC from=date -> run 1
			done b.1 -> ok
			meta zone -> Asia/Seoul
			begin c.1 s3 zone=UTC from=explicit -> run 1
			done c.1 -> ok
			meta zone -> UTC
			begin d.1 s4 zone=Asia/Seoul -> zone`},
		{"a date sets no zone", `
			begin a.1 s1 zone=UTC from=date dated -> run 1
			meta zone -> -
			done a.1 -> ok
			begin b.1 s2 zone=Asia/Seoul -> run 1
			meta zone -> Asia/Seoul`},
		{"arguments", `
			begin a.1 s1 args=x -> run 1
			done a.1 -> ok
			begin b.1 s1 args=y -> args
			hosts web-b -> refused arguments
			begin c.1 s1 args=x -> done
			begin d.1 s1 -> done
			begin e.1 s2 args=y -> run 1
			done e.1 -> ok
			begin f.1 s1 args=y rerun=why -> run 2
			lock -> f`},
		{"two lines of one name", `
			begin a.1 s1 host=web-1 line=one -> run 1
			done a.1 -> ok
			begin b.1 s1 host=web-1 line=two -> line
			begin b.1 s1 host=web-1 line=two -> line
			begin c.1 s1 host=web-1 line=one -> done
			begin d.1 s1 host=web-1 line=two -> line
			begin e.1 s1 host=web-2 line=two -> done
			begin f.1 s1 host=web-1/m1 line=two -> done
			begin f.1 s2 host=web-1 line=two -> run 1
			done f.1 -> ok
			begin g.1 s1 host=web-1 line=two rerun=why -> run 2`},
		{"the second line is refused also where the first has not run", `
			begin a.1 s1 host=web-1 -> run 1
			begin b.1 s2 host=web-2 line=one -> behind
			begin c.1 s2 host=web-2 line=two -> line
			done a.1 -> ok
			begin c.1 s2 host=web-2 line=two -> line
			entry s2 -> -
			begin b.1 s2 host=web-2 line=one -> run 1`},
		{"the host that ran is known without its roll call", `
			begin a.1 s1 host=web-1 line=one -> run 1
			done a.1 -> ok
			unset hosts web-1
			begin b.1 s1 host=web-1 line=two -> line`},
		{"not daily", `
			begin a.1 s1 host=web-1 minute=02:00 -> run 1
			begin b.1 s1 host=web-1 minute=02:00 -> busy
			begin b.1 s1 host=web-1 minute=02:05 -> notdaily
			done a.1 -> ok
			begin c.1 s1 host=web-1 minute=02:00 -> done
			begin c.1 s1 host=web-1 minute=02:05 -> notdaily
			begin c.1 s1 host=web-1 minute=02:10 -> notdaily
			begin d.1 s1 host=web-2 minute=02:05 -> done
			begin e.1 s1 host=web-1 -> done
			begin f.1 s2 host=web-1 minute=02:05 -> run 1`},
		{"forced", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			begin b.1 s1 rerun=why -> run 2
			begin c.1 s1 rerun=why -> busy
			lapse
			begin d.1 s1 rerun=why -> run 3
			failed d.1 -> ok
			begin e.1 s1 rerun=why -> run 4
			entry s1 -> running 4 e.1 earlier=a.1+,b.1,d.1+`},
		{"old", `
			set meta low 1796000300000
			begin a.1 s5 -> old
			begin a.1 s4 -> old
			lock -> -
			entry s5 -> -
			begin a.1 s6 -> run 1`},
		// Everything at once: what comes first in the table is what is said.
		{"order", `
			begin a.1 s1 args=x zone=UTC line=one host=web-1 minute=02:00 -> run 1
			done a.1 -> ok
			set meta paused {}
			begin b.1 s1 args=y zone=Asia/Seoul line=two host=web-1 minute=03:00 now=-2h -> clock
			begin b.1 s1 args=y zone=Asia/Seoul line=two host=web-1 minute=03:00 -> zone
			begin b.1 s1 args=y zone=UTC line=two host=web-1 minute=03:00 -> args
			begin b.1 s1 args=x zone=UTC line=two host=web-1 minute=03:00 -> line
			begin b.1 s1 args=x zone=UTC line=one host=web-1 minute=03:00 -> notdaily
			begin b.1 s1 args=x zone=UTC line=one host=web-1 minute=02:00 -> done
			begin b.1 s2 args=x zone=UTC line=one host=web-1 minute=02:00 -> paused`},
		{"the line is kept", `
			begin a.1 s1 every=day attempts=2 -> run 1
			done a.1 -> ok
			begin b.1 s2 every=hour dated -> run 1
			done b.1 -> ok
			meta every -> day
			begin c.1 s3 every=hour -> run 1
			meta every -> hour
			meta current -> s3`},
		// SH-19: the host's clock is set back after a run.
		{"the clock goes back", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			begin b.1 s1 host=web-a now=-10m -> done
			begin b.1 s1 host=web-a now=-7s -> done
			begin b.1 s0 host=web-a now=-10m -> run 1
			done b.1 -> ok
			begin c.1 s1 host=web-a -> done
			begin c.1 s0 host=web-a -> done`},
	})
}

// TestLuaCopies holds every step to this: sent twice, or late, it changes nothing.
func TestLuaCopies(t *testing.T) {
	t.Parallel()
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
		{"begin after a dozen others", `
			begin a.1 s1 attempts=12 -> run 1
			failed a.1 -> ok
			begin b.1 s1 attempts=12 -> run 2
			failed b.1 -> ok
			begin c.1 s1 attempts=12 -> run 3
			failed c.1 -> ok
			begin d.1 s1 attempts=12 -> run 4
			failed d.1 -> ok
			begin e.1 s1 attempts=12 -> run 5
			failed e.1 -> ok
			begin f.1 s1 attempts=12 -> run 6
			failed f.1 -> ok
			begin g.1 s1 attempts=12 -> run 7
			failed g.1 -> ok
			begin h.1 s1 attempts=12 -> run 8
			failed h.1 -> ok
			begin i.1 s1 attempts=12 -> run 9
			failed i.1 -> ok
			begin j.1 s1 attempts=12 -> run 10
			failed j.1 -> ok
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
		{"kept, and then not", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			failed a.1 -> already
			entry s1 -> failed 1 a.1
			lock -> -
			failed a.1 kept -> already
			entry s1 -> failed 1 a.1
			begin b.1 s1 attempts=2 -> run 2`},
		{"retry refused: paused", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			set meta paused {}
			begin a.2 s1 attempts=2 -> paused
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"retry refused: attempts", `
			begin a.1 s1 -> run 1
			failed a.1 kept -> ok
			begin a.2 s1 -> failed told
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"retry refused: zone", `
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

// TestLuaForgets holds the ledger to its bound: keep slots, and a mark of how far back it reaches.
func TestLuaForgets(t *testing.T) {
	t.Parallel()
	j := newLuaJob(t, shared.rdb)
	for n := range 8 {
		j.tell(fmt.Sprintf("begin a.%d s%d keep=5 -> run 1\ndone a.%d -> ok", n, n, n))
	}
	j.tell(`
		slots -> s3 s4 s5 s6 s7
		meta low -> 1796000120000
		meta first -> s0
		entry s2 -> -
		begin b.1 s2 keep=5 -> old
		begin b.1 s3 keep=5 -> done
		begin c.1 s8 keep=5 -> run 1
		begin d.1 s9 keep=5 overlap=skip -> behind
		begin e.1 s10 keep=5 overlap=skip -> behind
		slots -> s6 s7 s8 s9 s10
		meta low -> 1796000300000
		done c.1 -> ok
		# The oldest slot of all begins: it stays as long as it runs, and its own end finds it.
		set meta low 0
		begin f.1 s1 keep=5 -> run 1
		begin g.1 s11 keep=5 overlap=skip -> behind
		begin g.1 s12 keep=5 overlap=skip -> behind
		entry s1 -> running 1 f.1
		done f.1 -> ok
		meta low -> 1796000420000
		begin h.1 s13 keep=6 -> run 1
		entry s1 -> -
		meta low -> 1796000420000
		begin i.1 s1 keep=5 -> old
		# A note about the oldest slot is kept at least until the next.
		set meta low 0
		begin i.1 s2 keep=6 overlap=skip -> behind
		slots -> s2 s8 s9 s10 s11 s12 s13
		entry s2 -> skipped 0`)
	if n := shared.rdb.HLen(context.Background(), j.keys(j.job)[2]).Val(); n > 7 {
		t.Errorf("%d entries", n)
	}
}

// TestLuaRollCall: every host that asks leaves what it was told; that it cannot be written changes no verdict.
func TestLuaRollCall(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{{"answers", `
		begin a.1 s1 attempts=2 -> run 1
		hosts web-a -> ran
		begin b.1 s1 attempts=2 -> busy
		hosts web-b -> busy
		begin c.1 s2 -> behind
		hosts web-c -> waiting
		begin c.1 s2 overlap=skip -> behind
		hosts web-c -> skipped
		failed a.1 -> ok
		begin b.1 s1 -> failed told
		hosts web-b -> failed
		begin d.1 s1 attempts=2 -> run 2
		lapse
		begin b.1 s1 attempts=2 -> uncertain told
		hosts web-b -> uncertain
		done d.1 -> ok
		begin b.1 s1 -> done
		hosts web-b -> done
		begin b.1 s1 host=web-b/m2 line=two -> done
		hosts web-b m2 -> done
		begin e.1 s1 now=-2h -> clock
		hosts web-e -> refused clock
		set meta paused {}
		begin b.1 s3 -> paused
		hosts web-b -> paused
		set meta low 9999999999999
		begin b.1 s4 -> old
		hosts web-b -> refused old
		begin f.1 s1 dry -> done
		hosts web-f -> <nil>`}})
	t.Run("not written", func(t *testing.T) {
		t.Parallel()
		const write = "pcall(redis.call, 'HSET', HOSTS"
		if !strings.Contains(beginLua, write) {
			t.Fatalf("not in the script: %s", write)
		}
		j := newLuaJob(t, shared.rdb)
		j.script = strings.Replace(beginLua, write, "pcall(redis.call, 'HSET', LOCK", 1)
		j.tell(`
			begin a.1 s1 -> run 1
			hosts web-a -> <nil>
			begin b.1 s1 -> busy
			done a.1 -> ok
			begin b.1 s1 -> done
			lock -> -`)
	})
}

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

// TestLuaDry: a question that only wants to know gets the same verdict as one that means it, and changes nothing.
func TestLuaDry(t *testing.T) {
	t.Parallel()
	for _, s := range []luaStory{
		{"absent", `begin d.1 s1 dry -> run 1`},
		{"done", "begin a.1 s1 -> run 1\ndone a.1 -> ok\nbegin d.1 s1 dry -> done"},
		{"busy", "begin a.1 s1 -> run 1\nbegin d.1 s1 dry -> busy"},
		{"failed", "begin a.1 s1 -> run 1\nfailed a.1 -> ok\nbegin d.1 s1 dry -> failed told"},
		{"uncertain", "begin a.1 s1 -> run 1\nlapse\nbegin d.1 s1 dry -> uncertain told"},
		{"attempt left", "begin a.1 s1 attempts=2 -> run 1\nfailed a.1 -> ok\nbegin d.1 s1 attempts=2 dry -> run 2"},
		{"behind", "begin a.1 s1 -> run 1\nbegin d.1 s2 overlap=skip dry -> behind"},
		{"paused", "set meta paused {}\nbegin d.1 s1 dry -> paused"},
		{"old", "set meta low 1796000300000\nbegin d.1 s1 dry -> old"},
		{"zone", "begin a.1 s1 -> run 1\nbegin d.1 s1 zone=Asia/Seoul dry -> zone"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			j := newLuaJob(t, shared.rdb)
			given, asked := "", s.text
			if cut := strings.LastIndex(s.text, "\n"); cut >= 0 {
				given, asked = s.text[:cut], s.text[cut:]
			}
			j.tell(given)
			was := j.dump()
			j.tell(asked)
			if is := j.dump(); is != was {
				t.Errorf("changed:\n%q\n%q", was, is)
			}
		})
	}
}

// dump is all that the job has in Redis.
func (j *luaJob) dump() string {
	ctx, all := context.Background(), ""
	for _, key := range j.keys(j.job) {
		all += key + "=" + j.Dump(ctx, key).Val() + "\n"
	}
	return all
}

// TestLuaRetryStorm is SH-13: twenty hosts ask ten times each, and the command always fails at once.
func TestLuaRetryStorm(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 3} {
		t.Run(strconv.Itoa(attempts), func(t *testing.T) {
			t.Parallel()
			j := newLuaJob(t, shared.rdb)
			runs, told, last := 0, 0, int64(0)
			for n := range 200 {
				a := fmt.Sprintf("a.%d", n)
				got := j.do(strings.Fields(fmt.Sprintf("begin %s s1 host=web-%d attempts=%d", a, n%20, attempts)))
				switch {
				case strings.HasPrefix(got, "run"):
					runs++
					if token := j.given[a].Token; token <= last {
						t.Errorf("token %d after %d", token, last)
					}
					last = j.given[a].Token
					j.tell("failed " + a + " -> ok")
					j.leases = map[string]*lease{}
				case got == "failed told":
					told++
				case got != "failed":
					t.Fatal(got)
				}
			}
			if runs != attempts || told != 1 {
				t.Errorf("%d runs, want %d; told %d times", runs, attempts, told)
			}
			if keys, _ := j.Keys(context.Background(), j.prefix(j.job)+"*").Result(); len(keys) > 6 {
				t.Errorf("keys: %v", keys)
			}
		})
	}
}

// TestLuaErrors: whatever fails, and wherever, nothing is left behind. A begin that fails holds no lease, unless the
// lease was a living run's; an end that fails gives none back; no lock is without expiry.
func TestLuaErrors(t *testing.T) {
	t.Parallel()
	for n, key := range []string{"lock", "fence", "ledger", "slots", "log", "meta", "hosts"} {
		t.Run("wrong type of "+key, func(t *testing.T) {
			t.Parallel()
			j, ctx := newLuaJob(t, shared.rdb), context.Background()
			wrong := j.keys(j.job)[n]
			spoil := func() {
				j.Del(ctx, wrong)
				j.LPush(ctx, wrong, "x")
			}
			heal := func() { j.Del(ctx, wrong) }
			spoil()
			if key == "hosts" { // the roll call never stands in the way
				j.tell("begin a.1 s1 -> run 1\ndone a.1 -> ok")
				return
			}
			if got := j.do([]string{"begin", "a.1", "s1"}); !strings.HasPrefix(got, "error WRONGTYPE") {
				t.Errorf("begin: %s", got)
			}
			if key == "lock" {
				return // whoever writes over the lock takes the lease away
			}
			heal()
			j.tell("lock -> -\nentry s1 -> -")
			j.tell("begin a.1 s1 -> run 1")
			held := j.Get(ctx, j.keys(j.job)[0]).Val()
			spoil()
			begin, end := j.do([]string{"copy", "a.1"}), j.do([]string{"done", "a.1"})
			failed := strings.HasPrefix(end, "error WRONGTYPE")
			if !failed && end != "ok" {
				t.Errorf("end: %s", end)
			}
			if is := j.Get(ctx, j.keys(j.job)[0]).Val(); failed && is != held {
				t.Errorf("begun again: %s; after the end failed the lock is %q, want %q", begin, is, held)
			}
			heal()
			if got := j.do([]string{"done", "a.1"}); failed && got != "ok" {
				t.Errorf("the end again: %s", got)
			}
			j.tell("lock -> -\nentry s1 -> done 1 a.1")
		})
	}
}

// TestLuaFull: a Redis that is full takes no run, and keeps the lease of one whose end it cannot write.
func TestLuaFull(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), context.Background()
	j := newLuaJob(t, r.rdb)
	full := func(limit string) {
		if err := r.rdb.ConfigSet(ctx, "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(got string) {
		t.Helper()
		if !strings.HasPrefix(got, "error OOM") {
			t.Errorf("got %s, want an error OOM", got)
		}
	}
	full("1")
	want(j.do([]string{"begin", "a.1", "s1"}))
	j.tell("lock -> -\nentry s1 -> -\nfence ->")
	full("0")
	j.tell("wipe\nbegin a.1 s1 attempts=2 -> run 1")
	full("1")
	want(j.do([]string{"done", "a.1"}))
	j.tell("lock -> a\nentry s1 -> running 1 a.1")
	j.do([]string{"copy", "a.1"})
	j.tell("lock -> a\nrenew a -> ok")
	want(j.do([]string{"begin", "b.1", "s2"}))
	j.tell("lock -> a")
	full("0")
	j.tell("done a.1 -> ok\nlock -> -")
}

// luaCommands are what the scripts call.
var luaCommands = strings.Fields(`time get set del pexpire pttl getrange msetnx mset mget hget hgetall hset hsetnx hdel
	hexists hincrby zadd zcard zrange zrem xadd publish`)

// TestLuaRights takes one right away at a time.
func TestLuaRights(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), context.Background()
	for _, denied := range luaCommands {
		t.Run(denied, func(t *testing.T) {
			if err := r.rdb.ACLSetUser(ctx, denied, "on", ">p", "~*", "&*", "+@all", "-"+denied).Err(); err != nil {
				t.Fatal(err)
			}
			poor := redis.NewClient(&redis.Options{Addr: r.address(), Username: denied, Password: "p", Protocol: 2})
			defer poor.Close()
			// The entry at stake is the sixth of a ledger of five, with one before it: every command has its turn.
			rich := newLuaJob(t, r.rdb)
			for n := range 5 {
				rich.tell(fmt.Sprintf("begin z.%d s%d keep=5 -> run 1\ndone z.%d -> ok", n, n, n))
			}
			rich.ledger = &ledger{poor, rich.namespace}
			begun := rich.do([]string{"begin", "a.1", "s6", "keep=5"})
			rich.UniversalClient = r.rdb
			if begun == "run 1" && denied == "del" {
				t.Error("begun, and nobody could give the lease back")
			}
			if begun != "run 1" {
				if begun != "error "+luaDenied(denied) {
					t.Errorf("begin: %s", begun)
				}
				rich.tell("lock -> -\nentry s6 -> -\nbegin a.1 s6 keep=5 -> run 1")
			}
			rich.UniversalClient = poor
			ended := rich.do([]string{"done", "a.1"})
			rich.UniversalClient = r.rdb
			if ended == "ok" {
				rich.tell("lock -> -\nentry s6 -> done 1 a.1")
				return
			}
			if ended != "error "+luaDenied(denied) {
				t.Errorf("end: %s", ended)
			}
			rich.tell("lock -> a")
			if got := rich.do([]string{"done", "a.1"}); got != "ok" && got != "already" {
				t.Errorf("the end, with all rights: %s", got)
			}
			rich.tell("lock -> -\nentry s6 -> done 1 a.1")
		})
	}
}

func luaDenied(name string) string {
	return "The user executing the script can't run this command or subcommand"
}

// TestLuaOneRequest: begin, renew and finish are one EVAL each, on a warm server and on a cold one.
func TestLuaOneRequest(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	p := newProxy(t, r.address())
	rdb := redis.NewClient(&redis.Options{Addr: p.address(), Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	j := newLuaJob(t, rdb)
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"a.1", "b.1"} {
		for _, line := range []string{"begin %s s1 attempts=9", "renew %s", "unstarted %s", "begin %s s2 dry"} {
			line = fmt.Sprintf(line, who)
			p.forget()
			j.do(strings.Fields(line))
			if got := strings.Join(p.requests(), " "); got != "EVAL" {
				t.Errorf("%s: sent %q, want one EVAL", line, got)
			}
		}
		if err := r.rdb.ScriptFlush(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLuaNotSentAgain: when an answer is lost, go-redis sends nothing again of itself, however it is set, alone or as a
// cluster's client.
func TestLuaNotSentAgain(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	for _, cluster := range []bool{false, true} {
		t.Run(map[bool]string{false: "client", true: "cluster"}[cluster], func(t *testing.T) {
			p := newProxy(t, r.address())
			var rdb redis.UniversalClient = redis.NewClient(&redis.Options{Addr: p.address(), Protocol: 2, MaxRetries: 5,
				DisableIdentity: true})
			if cluster {
				rdb = redis.NewClusterClient(&redis.ClusterOptions{Protocol: 2, MaxRetries: 5, MaxRedirects: 5,
					DisableIdentity: true, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
						return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: p.address()}}}}, nil
					}})
			}
			defer rdb.Close()
			j := newLuaJob(t, rdb)
			ctx, sent := context.Background(), func() (n int) {
				for _, name := range p.requests() {
					if name == "EVAL" || name == "SADD" {
						n++
					}
				}
				return n
			}
			p.answer("-ERR not wanted here", "COMMAND") // which a cluster's client asks first
			rdb.Get(ctx, "x")                           // connects
			lose := func(command string, do func() error) {
				t.Helper()
				p.forget()
				p.dropReply(command, 1, true)
				if err := do(); err == nil {
					t.Error("the answer was not lost")
				}
				if n := sent(); n != 1 || p.dropsLeft() != 0 {
					t.Errorf("%s: sent %d times", command, n)
				}
			}
			q := j.question([]string{"a.1", "s1"})
			lose("EVAL", func() error { _, err := j.send(q); return err })
			j.tell("begin a.1 s1 -> run 1")
			lose("EVAL", func() error { return j.lease("a").renew(ctx) })
			e := end{attempt: q.attempt, asker: q.asker, terms: q.terms, Slot: q.Slot, Begins: q.Begins, State: "done"}
			lose("EVAL", func() error { _, err := j.lease("a").finish(ctx, e); return err })
			lose("EVAL", func() error { _, err := j.ledger.finish(ctx, j.job, e); return err })
			lose("SADD", func() error { return j.list(ctx, j.job) })
			lock, err := r.rdb.Exists(ctx, j.keys(j.job)[0]).Result()
			if lock != 0 || err != nil {
				t.Errorf("lock %d, %v", lock, err)
			}
		})
	}
}

// A luaWire is a client whose requests a test may hold back, lose or delay.
type luaWire struct {
	redis.UniversalClient
	process func(context.Context, redis.Cmder) error
}

func (w luaWire) Process(ctx context.Context, cmd redis.Cmder) error { return w.process(ctx, cmd) }

// luaCall is what a crontab line calls, in this process.
func luaCall(t *testing.T, rdb redis.UniversalClient, lease time.Duration, argv ...string) *call {
	t.Helper()
	s := defaults()
	s.namespace, s.lease, s.redisWait = namespaceOf(t), lease, 10*time.Second
	c := &call{settings: s, command: &command{argv: argv, job: "invoice"}, line: line{every: daily, zone: time.UTC},
		asker: asker{Host: "web-1", PID: 1, User: "root", Version: "1"}, server: &server{}, ledger: &ledger{rdb, s.namespace},
		wall: time.Now, now: time.Now(), spool: &spool{dir: t.TempDir()}}
	c.defaults()
	c.server.open.Store(true)
	var err error
	if c.slot, err = c.line.at(time.Now()); err != nil {
		t.Fatal(err)
	}
	return c
}

// A asks; the question is held up on its way. It asks again, hears that B is running, and leaves. B fails. Then the first
// question arrives: nobody is behind it any more, so it must not begin anything.
//
//	A: begin ─ ─ ─ ─ ─ begin → busy, exit 0          ─ ─ ─ ▶ begin
//	B:  begin → run 1                  failed 1
func TestLuaQuestionOfOneThatLeft(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var held []any
	c := luaCall(t, luaWire{shared.rdb, func(ctx context.Context, cmd redis.Cmder) error {
		if held == nil && cmd.Name() == "eval" {
			held = cmd.Args()
			cmd.SetErr(io.ErrUnexpectedEOF)
			return cmd.Err()
		}
		return shared.rdb.Process(ctx, cmd)
	}}, time.Minute, "true")
	c.attempts = 2
	j := newLuaJob(t, shared.rdb)
	q := j.question([]string{"b.1", "s1", "attempts=2"})
	q.Slot, q.Begins, q.terms = c.slot.name, millis(c.slot.begins), c.terms()
	j.asked["b.1"] = q
	j.tell("copy b.1 -> run 1")
	if e := c.execute(&voice{w: io.Discard}); e != nil && e.status != 0 {
		t.Fatalf("status %d: %s", e.status, e.msg)
	}
	j.tell("failed b.1 -> ok")
	if _, err := shared.rdb.Do(ctx, held...).Result(); err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	if e := entryOf(t, "invoice", c.slot.name); e.State == "running" {
		t.Errorf("attempt %d is running, and nobody runs it", e.Attempt)
	}
	j.tell("lock -> -")
}

// Between the answer and the command there is one more request, which may take longer than the lease: then the command
// is not started under that lease, and everything is decided anew.
func TestLuaNothingStartsLate(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	file := filepath.Join(t.TempDir(), "started")
	c := luaCall(t, luaWire{shared.rdb, func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "sadd" {
			time.Sleep(2 * lease)
		}
		return shared.rdb.Process(ctx, cmd)
	}}, lease, "sh", "-c", "echo > "+file)
	began := time.Now()
	c.execute(&voice{w: io.Discard})
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if e := entryOf(t, "invoice", c.slot.name); e.State != "done" || e.Attempt != 1 || len(e.Earlier) != 1 ||
		e.Began < millis(began.Add(2*lease)) {
		t.Errorf("%s, attempt %d, %q before, began %dms after the first question: started when its lease was over",
			e.State, e.Attempt, e.Earlier, e.Began-millis(began))
	}
}

// A begin is executed, its answer does not come, and onceonly is told to stop: it says that it has not started, although
// the question still waits for its answer.
func TestLuaStoppedWhileAsking(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared.address())
	p.dropReply("EVAL", 1, false)
	cmd := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).command("run", "--lease", "1m", "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the question was executed", func() bool { return p.dropsLeft() == 0 })
	cmd.Process.Signal(syscall.SIGTERM)
	if status := exitStatus(t, cmd.Wait()); status != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("status %d", status)
	}
	j := newLuaJob(t, shared.rdb)
	j.job = "true"
	if e := entryOf(t, "true", time.Now().UTC().Format(time.DateOnly)); e.State != "failed" || e.Attempt != 0 {
		t.Errorf("%s, attempt %d: nobody can know that it has not run", e.State, e.Attempt)
	}
	j.tell("lock -> -")
}
