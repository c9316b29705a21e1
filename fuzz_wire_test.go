package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The way between a client of the fuzz and Redis, where requests come twice, late or never, and where the referee
// listens.

// A fuzzWire is the way of one client to Redis: it doubles, delays and loses. It never tells the client what it knows.
type fuzzWire struct {
	redis.UniversalClient // nil: only Process is used
	fuzz                  *fuzz
	r                     *rand.Rand
	quiet                 bool  // nothing is lost: a client that has waited long enough
	unanswered            bool  // a copy of a question may be under way, and its client knows
	granted               []any // the last question that was given a token
}

var errUnanswered = errors.New("no answer")

func (w *fuzzWire) Process(_ context.Context, cmd redis.Cmder) error {
	w.stall(40)
	if w.chance(50) && !w.quiet {
		w.fuzz.later(cmd.Args(), w.delay())
		return w.lose(cmd)
	}
	granted, times, errs := w.fuzz.send(cmd, false), 1+max(0, w.r.IntN(6)-3), 0
	for n := 1; ; n++ { // whoever sends again does so for want of an answer, and takes the last one
		if cmd.Err() != nil && cmd.Err() != redis.Nil {
			errs++
		}
		if n == times {
			break
		}
		again := redis.NewCmd(context.Background(), cmd.Args()...)
		granted = w.fuzz.send(again, false) || granted
		cmd.SetErr(again.Err())
		cmd.(onceCmd).Cmder.(*redis.Cmd).SetVal(again.Val())
	}
	if errs > 0 && errs < times {
		return w.lose(cmd)
	}
	if granted {
		w.granted = cmd.Args()
	}
	lost := (w.chance(25) || (granted && w.chance(8))) && !w.quiet
	if (granted || lost) && w.r.IntN(3) == 0 { // who knows of no unanswered question has none, or was given a token
		w.fuzz.later(cmd.Args(), w.delay())
	}
	w.stall(40)
	if lost {
		return w.lose(cmd)
	}
	return cmd.Err()
}

func (w *fuzzWire) chance(of int) bool { return w.r.IntN(of) == 0 }

func (w *fuzzWire) lose(cmd redis.Cmder) error {
	w.unanswered = true
	w.fuzz.count("unanswered")
	cmd.SetErr(errUnanswered)
	return errUnanswered
}

// stall is a client, or a network, that takes its time: seldom, and then up to more than a lease.
func (w *fuzzWire) stall(of int) {
	if w.chance(of) {
		time.Sleep(time.Duration(w.r.Int64N(int64(fuzzLongest) * 5 / 4))) // the fault
	}
}

func (w *fuzzWire) delay() time.Duration {
	if w.chance(2) {
		return time.Duration(w.r.Int64N(int64(8 * time.Millisecond)))
	}
	return time.Duration(w.r.Int64N(int64(fuzzLatest)))
}

// later sends the same bytes when their time has come, over another connection.
func (f *fuzz) later(args []any, delay time.Duration) {
	f.copies.Go(func() {
		time.Sleep(delay) // the fault: a copy that is late
		f.send(redis.NewCmd(context.Background(), args...), true)
	})
}

// send has Redis execute a request, and tells the referee. It returns true if that gave a token.
func (f *fuzz) send(cmd redis.Cmder, late bool) bool {
	args := cmd.Args()
	lock, text := args[3].(string), args[len(args)-1].(string)
	var e end // a question has no state
	json.Unmarshal([]byte(text), &e)
	sent := bootNow()
	f.mu.Lock()
	if a := f.attempt(lock, e); e.State == "" && a.asked == 0 {
		a.asked = sent
	}
	f.mu.Unlock()
	err := f.rdb.Process(context.Background(), cmd)
	got := bootNow()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !errors.Is(err, redis.Nil) {
		f.figures["errors"]++
		if !strings.Contains(err.Error(), "WRONGTYPE") {
			f.fault("%v", err)
		}
		return false
	}
	answer := fuzzAnswer(cmd)
	switch {
	case answer == "": // a renewal
	case e.State != "":
		f.sawEnd(f.attempt(lock, e), e, answer, sent, got, late)
	default:
		return f.sawBegin(f.attempt(lock, e), answer, sent, got, late)
	}
	return false
}

// fuzzAnswer is what our script said, with redislock's or alone.
func fuzzAnswer(cmd redis.Cmder) string {
	if once, ok := cmd.(onceCmd); ok {
		cmd = once.Cmder
	}
	switch v := cmd.(*redis.Cmd).Val().(type) {
	case string:
		return v
	case []any:
		s, _ := v[1].(string)
		return s
	}
	return ""
}
