package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Watching over the command: signals are passed on, the lease is kept, and where it cannot be kept the command is stopped
// before it is over.

// Why onceonly itself stopped the command; the ledger's words, but for Redis's absence, or our own, which is lease_lost there.
const (
	whyLost    = "lease_lost"
	whyAway    = "redis_away"
	whyStopped = "stopped"
	whyTimeout = "timeout"
)

const lookAgain = 50 * time.Millisecond // between two looks for what is left of a group

// A watch is what happened while the command ran.
type watch struct {
	run         *run
	child       *child
	guard       *guard
	started     boot
	why         string // why onceonly stopped it, "" if it did not
	stopAt      boot   // when it was told to stop
	interrupted bool   // a signal that asks to stop was passed on
	replaced    boot   // when a guard that has died may be followed by another
	unguarded   bool   // that there can be no guard was said
	immune      bool   // that the command cannot be stopped was said
	spared      bool   // there are threads for all that may come
	killed      bool
}

// watch returns when the command has ended.
func (r *run) watch(c *child) *watch {
	w := &watch{run: r, child: c, started: bootNow()}
	ctx, cancel := context.WithCancel(context.Background())
	kept := r.keep(ctx)
	lost := kept
	deadline, guarded := newBootTimer(), time.NewTimer(guardAfter)
	defer deadline.stop()
	defer guarded.Stop()
	ended := (<-chan struct{})(c.ended)
	for {
		deadline.set(w.next())
		select {
		case <-ended:
			if w.lingers() {
				ended = alarm(lookAgain)
				continue
			}
			cancel()
			for range kept { // until no renewal is under way
			}
			w.over()
			return w
		case s := <-r.signals:
			w.pass(s)
		case s := <-c.tty.asked():
			c.signal(s)
		case by := <-c.stopped:
			c.suspend(by)
		case err := <-lost:
			lost = nil
			w.lose(err)
		case <-deadline.c:
			w.due()
		case <-guarded.C:
			if !w.startGuard() {
				guarded.Reset(guardAfter)
			}
		case <-w.guard.gone():
			guarded.Reset(w.bury())
		}
	}
}

// lingers says whether something of the group is left that was told to stop and still has time for it: the leader may be a
// shell that is gone at once, with the work below it.
func (w *watch) lingers() bool {
	told := w.why != "" || w.interrupted
	return told && !w.killed && !min(w.stopAt.add(w.run.killAfter), w.run.lease.kill()).past() && groupLives(w.child.pid)
}

// over is the command's end. Its group's number is its own until it is reaped, so the guard is dismissed before.
func (w *watch) over() {
	w.run.lease.watched.Store(nil)
	w.guard.dismiss()
}

// bury is the end of a guard that has died; it says when there may be another. The first comes at once, then one a second: what
// has ended it may end them all.
func (w *watch) bury() time.Duration {
	w.guard.dismiss()
	w.guard = nil
	again := max(w.replaced, bootNow())
	w.replaced = again.add(guardAfter)
	return again.until()
}

// startGuard starts the guard, and another one should it die. While there can be none the parent-death signal is left, and
// the command goes on.
func (w *watch) startGuard() bool {
	g, err := startGuard(w.child.pid, w.run.lease.kill())
	if err != nil {
		if !w.unguarded {
			w.run.voice.normally("%s: no guard: %s", w.run.name(), cause(err))
		}
		w.unguarded = true
		return false
	}
	if !w.spared { // what could start a process can start a thread
		spareThreads()
		w.spared = true
	}
	w.guard = g
	w.run.lease.watched.Store(g)
	g.tell(w.run.lease.kill()) // a renewal may have come between
	return true
}

// lose stops the command because the lease is somebody else's, or was stopped.
func (w *watch) lose(err error) {
	var s *stopOrder
	if errors.As(err, &s) {
		w.run.order = s
		w.stop(whyStopped)
		return
	}
	w.stop(whyLost)
}

// keep renews the lease until ctx is done. The channel tells that it is lost, and is closed when no renewal is under way.
func (r *run) keep(ctx context.Context) <-chan error {
	kept := make(chan error)
	go func() {
		defer close(kept)
		if err := r.lease.keep(ctx, r.outage); err != nil {
			select {
			case kept <- err:
			case <-ctx.Done():
			}
		}
	}()
	return kept
}

// pass hands a signal to the command. Whoever asks a second time to stop means it.
func (w *watch) pass(s os.Signal) {
	again := w.interrupted && (s == unix.SIGINT || s == unix.SIGTERM)
	if asksToStop(s) && !w.interrupted {
		w.interrupted, w.stopAt = true, bootNow()
	}
	switch {
	case again:
		w.signal(unix.SIGKILL)
	case s == unix.SIGCONT: // the shell may have brought it into the foreground
		w.child.resume()
	default:
		w.signal(s)
	}
}

// stop tells the command to stop; it is killed --kill-after later, and never later than the lease allows.
func (w *watch) stop(why string) {
	if w.why == "" {
		w.stopAt = bootNow()
	}
	w.why = why
	w.signal(unix.SIGTERM)
}

// signal says so, once, if the command cannot be told to stop.
func (w *watch) signal(s os.Signal) {
	err := w.child.signal(s)
	if err == nil || w.immune || s != unix.SIGKILL && !asksToStop(s) {
		return
	}
	w.immune = true
	w.run.voice.say("%s: cannot be stopped: %s", w.run.name(), cause(err))
}

// next is the next instant at which something may have to be done. What a renewal has moved on is seen when it comes.
func (w *watch) next() boot {
	lease := w.run.lease
	switch {
	case w.killed:
		return bootNow().add(time.Hour)
	case w.why != "":
		return min(w.stopAt.add(w.run.killAfter), lease.kill())
	case w.run.timeout > 0:
		return min(lease.term(w.run.killAfter), w.started.add(w.run.timeout))
	}
	return lease.term(w.run.killAfter)
}

// due does what the instant asks for, if it has really come.
func (w *watch) due() {
	switch {
	case !w.next().past() || hasEnded(w.child.pid): // what ended by itself while onceonly was frozen was not stopped
	case w.why != "":
		w.killed = true
		w.signal(unix.SIGKILL)
	case w.run.lease.term(w.run.killAfter).past():
		w.stop(whyAway)
	default:
		w.stop(whyTimeout)
	}
}

// reason is why the attempt failed, if not by itself.
func (w *watch) reason() string {
	switch {
	case w.why == whyAway:
		return whyLost
	case w.why == "" && w.interrupted:
		return "interrupted"
	}
	return w.why
}

// stopped says why the command was stopped; now is the entry as the ledger has it.
func (w *watch) stopped(r *run, now *entry) string {
	overtaken := now != nil && now.RunID != r.lease.runID && now.RunID != ""
	switch {
	case w.why == whyTimeout:
		return "stopped: longer than --timeout " + exactly(r.timeout)
	case w.why == whyStopped:
		return fmt.Sprintf("stopped by %s: %q", r.order.By, r.order.Reason)
	case overtaken && now.Resolved != nil:
		return fmt.Sprintf("stopped: lease lost: %s has settled the slot", now.Resolved.By)
	case overtaken: // perhaps because this host was frozen, and not because Redis was away
		return fmt.Sprintf("stopped: lease lost to %s (%s, attempt %d)", holderOf(now), r.shown(r.slot.name), now.Attempt)
	case w.why == whyAway:
		end := time.Now().Add(r.lease.ends().until())
		since, over := r.clock(millis(end.Add(-r.lease.ttl))), r.clock(millis(end))
		if !r.lease.away.Load() {
			return fmt.Sprintf("stopped: frozen since %s, the lease is over at %s", since, over)
		}
		return fmt.Sprintf("stopped: Redis away since %s, the lease is over at %s", since, over)
	}
	return "stopped: lease lost"
}

// outage tells of a lease that is not renewed, once until it is renewed again.
func (r *run) outage(err error) {
	ends := r.lease.ends().until()
	r.voice.say("%s: lease not renewed for %s: %s; going on until %s", r.name(), brief(r.lease.ttl-ends), cause(err),
		r.clock(millis(time.Now().Add(r.lease.term(r.killAfter).until()))))
}

// keep renews the lease until ctx is done. It returns errLost as soon as there is nothing left to renew; that a Redis
// which does not answer makes it lapse is for the caller to see, by the clock.
func (s *lease) keep(ctx context.Context, outage func(error)) error {
	failures := 0
	for pause := s.interval(); wait(ctx, pause); {
		if s.kill().past() { // slept or frozen for too long: the command is to be killed, whatever Redis would say
			pause = s.interval()
			continue
		}
		err := s.renewBy(ctx, s.kill())
		switch {
		case errors.Is(err, errLost):
			return err
		case err == nil:
			failures, pause = 0, s.interval()
			s.away.Store(false)
			continue
		}
		if failures++; failures == 2 && ctx.Err() == nil {
			s.away.Store(true)
			outage(err)
		}
		if pause = s.renewalPause(); failures == 1 {
			pause = 0
		}
	}
	return nil
}

// renewBy renews, and waits for the answer no longer than until the deadline.
func (s *lease) renewBy(ctx context.Context, deadline boot) error {
	patience := min(renewalAnswer, max(s.ttl/10, shortest), deadline.until())
	ctx, cancel := context.WithTimeout(ctx, max(patience, time.Millisecond))
	defer cancel()
	return s.renew(ctx)
}

// wait returns true after the pause, false at once when ctx is done.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
