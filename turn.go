package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// Waiting for another run of the job: for an earlier slot to end (--overlap wait), or for this slot's holder to die
// (--standby). A waiter sleeps until the end is published, or the lease runs out, or it is time to look again; then
// everything is decided anew.

const (
	lookEvery = 5 * time.Second       // at least so long between two looks, unless there is a reason
	pastLease = 20 * time.Millisecond // after the lease's end: Redis counts in milliseconds
)

// A turn is one call's wait.
type turn struct {
	since boot
	bound boot
	wake  chan struct{} // an end of the job was published, or it is time to look
	stop  context.CancelFunc
}

// waits says whether this verdict is one to wait on.
func (c *call) waits(verdict string) bool {
	switch verdict {
	case "behind":
		return c.overlap == "wait"
	case "busy":
		return c.standby
	}
	return false
}

// takeTurn returns nil when it is worth asking again.
func (r *run) takeTurn() *exit {
	if r.turn == nil { // what ended before the subscription is seen by asking once more
		r.tellWait()
		return r.startTurn()
	}
	pause := lookEvery + rand.N(lookEvery/5)
	if ttl := time.Duration(r.reply.TTL) * time.Millisecond; r.reply.TTL > 0 {
		pause = min(pause, ttl+pastLease)
	}
	left := r.turn.bound.until()
	if left <= 0 {
		return r.waitOver()
	}
	timer := time.AfterFunc(min(pause, left), r.turn.wakeUp)
	defer timer.Stop()
	return r.await(r.turn.wake)
}

// startTurn subscribes, and sets the bound.
func (r *run) startTurn() *exit {
	bound := r.waitMax
	if bound == 0 {
		next, err := r.nextSlot()
		if err != nil {
			return usage(err.Error(), "")
		}
		bound = next.begins.Sub(r.wall())
	}
	r.turn = &turn{since: bootNow(), bound: bootNow().add(bound), wake: make(chan struct{}, 1)}
	return r.await(r.turn.subscribe(r.ledger, r.ledger.channel(r.command.job)))
}

// nextSlot is the first slot of the line that has not begun.
func (c *call) nextSlot() (slot, error) {
	s, err := c.line.at(c.now)
	if err != nil {
		return s, err
	}
	return c.line.next(s)
}

// subscribe listens in the background for as long as the process lives; what it returns is closed once it does, or cannot.
// Without it, where the user has no right to the channel, the looks remain. All of it is in the background: go-redis
// connects when it is asked to subscribe, and one that connects cannot be closed before it has.
func (t *turn) subscribe(l *ledger, channel string) <-chan struct{} {
	var ctx context.Context
	ctx, t.stop = context.WithCancel(context.Background())
	ready, listening := context.WithTimeout(ctx, requestTimeout)
	go func() {
		pubsub := l.Subscribe(ctx, channel)
		context.AfterFunc(ctx, func() { pubsub.Close() })
		for ctx.Err() == nil {
			message, err := pubsub.Receive(ctx)
			listening()
			if _, ended := message.(*redis.Message); ended {
				t.wakeUp()
			}
			if err != nil {
				wait(ctx, lookEvery)
			}
		}
	}()
	return ready.Done()
}

// wakeUp never waits: to be woken once is enough.
func (t *turn) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *turn) close() {
	if t != nil {
		t.stop()
	}
}

func (r *run) tellWait() {
	word := "standing by: "
	if r.reply.Verdict == "behind" {
		word = "waiting for " + r.before(r.reply) + ", "
	}
	r.voice.normally("%s: %s%s", r.name(), word, r.running(r.reply))
}

// running says where what is waited for runs, and since when.
func (c *call) running(r *reply) string {
	began := r.Entry
	if r.Verdict == "behind" {
		began = nil
		if r.Other != nil {
			began = &r.Other.entry
		}
	}
	if began == nil {
		return "running on " + r.holder()
	}
	return fmt.Sprintf("running on %s since %s", r.holder(), c.clock(began.Began))
}

// waitOver is the exit at the bound.
func (r *run) waitOver() *exit {
	waited := brief(time.Duration(bootNow() - r.turn.since))
	running := r.before(r.reply)
	if r.reply.Verdict == "busy" {
		running = r.shown(r.slot.name)
	}
	return &exit{status: exitNotDone,
		msg: fmt.Sprintf("%s: not run: %s still running on %s after %s", r.name(), running, r.reply.holder(), waited)}
}
