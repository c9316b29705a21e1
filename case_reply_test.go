package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cases of real users about requests and replies: how few there are, and what comes of those that are late or lost.

// Three requests for a run, two for one that finds it done or busy, the handshake included, whether Redis knows the
// scripts or not. A job's first run may take one more. (SH-35)
func TestCaseRequests(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	p := newProxy(t, r.address())
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
	ask := func(what string, most int, args ...string) result {
		t.Helper()
		p.forget()
		got := web.run(args...)
		if asked := p.requests(); len(asked) > most || p.connections() != 1 {
			t.Errorf("%s: %d requests on %d connections, want at most %d on one: %q", what, len(asked), p.connections(), most, asked)
		}
		return got
	}
	ask("a job's first run", 4, "run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
	for n, what := range []string{"warm", "after SCRIPT FLUSH", "warm again"} {
		if n == 1 {
			if err := r.rdb.ScriptFlush(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		day := "2026-01-1" + strconv.Itoa(n)
		ask("a run, "+what, 3, "run", "--job", "j", "--date", day, "--", "true").want(t, 0, "")
		ask("a run that fails, "+what, 3, "run", "--job", "j", "--date", "2026-01-2"+strconv.Itoa(n), "--", "false").want(t, 1, "")
		if n == 1 {
			r.rdb.ScriptFlush(context.Background())
		}
		ask("done, "+what, 2, "run", "--job", "j", "--date", day, "--", "true").want(t, 0, "")
		ask("failed, "+what, 2, "run", "--job", "j", "--date", "2026-01-2"+strconv.Itoa(n), "--", "false")
	}
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
	holder := newHost(t, "web-2", "ONCEONLY_REDIS="+r.url()).start(args...)
	eventually(t, "it starts", started(log))
	silent(t, "busy", ask("busy", 2, args...))
	os.WriteFile(gate, nil, 0o600)
	silent(t, "the holder", holder.result(t))
}

// Four times as many hosts as Redis has room for ask at one instant: one runs, all others are told that it is another's, or
// that Redis has no room, and none of them storms it. (SH-35)
func TestCaseCrowd(t *testing.T) {
	t.Parallel()
	n := rounds(100, 200)
	r, log := newRedis(t, "--maxclients", strconv.Itoa(n/4)), filepath.Join(t.TempDir(), "log")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--redis", r.url()}, effects(log, "sleep 1")...)
	began, turnedAway := time.Now(), 0
	for i, got := range atOneInstant(t, n, args) {
		switch {
		case got.status == exitAway && regexp.MustCompile(`^onceonly: j 2026-01-05: not run: [^\n]+\n$`).MatchString(got.stderr):
			turnedAway++
		default:
			silent(t, fmt.Sprint("web-", i), got)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	stats := r.rdb.Info(context.Background(), "stats").Val()
	var connections, rejected int
	_, rest, _ := strings.Cut(stats, "total_connections_received:")
	fmt.Sscan(rest, &connections)
	_, rest, _ = strings.Cut(stats, "rejected_connections:")
	fmt.Sscan(rest, &rejected)
	if got := readEffects(t, log, false); len(got) != 1 || connections == 0 || connections >= 5*n {
		t.Errorf("%d starts, %d connections of %d hosts", len(got), connections, n)
	}
	t.Logf("%d hosts: %d connections, %d of them rejected, %d hosts turned away, after %v", n, connections, rejected, turnedAway, time.Since(began))
}

// A begin that Redis executes and whose reply is lost is asked again: the same attempt has the same token, and there is
// one start. (SH-09)
func TestCaseReplyLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		lose func(*proxy)
	}{
		{"cut", func(p *proxy) { p.dropReply("EVAL", 1, true) }},
		{"not heard", func(p *proxy) { p.dropReply("EVAL", 1, false) }},
		{"three times", func(p *proxy) {
			p.dropReply("EVAL", 1, true)
			p.dropReply("EVAL", 2, true)
			p.dropReply("EVAL", 3, true)
		}},
		{"the end's", func(p *proxy) { p.dropReply("EVAL", 2, true) }},
		{"the end's, not heard", func(p *proxy) { p.dropReply("EVAL", 2, false) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
			c.lose(p)
			web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
			silent(t, "the run", web.start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "10s"}, effects(log, "true")...)...).result(t))
			wantOneAttempt(t, log, "j", "2026-01-05")
			if p.dropsLeft() != 0 {
				t.Errorf("%d replies were never lost", p.dropsLeft())
			}
		})
	}
}

// All replies are swallowed for a while that is shorter than the lease: the begin is asked again, and the run starts, once.
func TestCaseRepliesSwallowedForAWhile(t *testing.T) {
	t.Parallel()
	p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
	// The handshake gets through, the begin is executed, and from then on nothing is heard.
	p.dropReply("EVAL", 1, false)
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "20s"}, effects(log, "true")...)...)
	eventually(t, "the begin is executed", func() bool { return p.dropsLeft() == 0 })
	p.swallow(false, true)
	p.forget()
	eventually(t, "it asks again", func() bool { return p.connections() > 0 || len(p.requests()) > 0 })
	if started(log)() {
		t.Error("started without having heard that it may")
	}
	p.pass()
	p.resetOnce()
	silent(t, "the run", web.result(t))
	wantOneAttempt(t, log, "j", "2026-01-05")
}

// A reply that comes after the lease that it speaks of starts nothing.
func TestCaseReplyAfterTheLease(t *testing.T) {
	t.Parallel()
	p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	p.delay(700 * time.Millisecond) // each way
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url(), "ONCEONLY_STATE_DIR="+t.TempDir())
	r := web.start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "1s", "--redis-wait", "2s"}, effects(log, "true")...)...).result(t)
	if r.status != 69 || started(log)() || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("got %v, %q\nwant status 69, a line, and no start", r, lines(log))
	}
}

// The lease runs out while onceonly waits for a reply, and another host takes over. Whatever the first hears then, it
// starts nothing: neither where the begin's reply is lost, nor where Redis falls silent after it, before the command.
//
//	web-1  begin ... no reply ......................... asks again
//	web-2                     lease over, begin, run
func TestCaseOvertakenBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"from the begin on", "after the begin"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			gate := filepath.Join(t.TempDir(), "gate")
			if when == "from the begin on" {
				newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
				p.dropReply("EVAL", 1, false)
			} else {
				p.dropReply("SADD", 1, false) // a job's first run asks this, too
			}
			line := func(lease string) []string {
				return append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "2", "--lease", lease},
					effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
			}
			first := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(line("1s")...)
			eventually(t, "the request is executed", func() bool { return p.dropsLeft() == 0 })
			p.swallow(true, false)
			eventually(t, "the lease is over", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 || len(lines(log)) > 0 })
			second := newHost(t, "web-2").start(line("1m")...)
			eventually(t, "somebody starts", started(log))
			p.pass()
			eventually(t, "the first hears that it is too late, or starts all the same", func() bool {
				return first.ended() || len(lines(log)) > 1
			})
			os.WriteFile(gate, nil, 0o600)
			r1, r2 := first.result(t), second.result(t)
			silent(t, "the first, which finds it busy", r1)
			if got := readEffects(t, log, false); len(got) != 1 || r1.stdout != "" || r2.stdout != "" {
				t.Errorf("%d starts, want 1: %q\nthe first: %v\nthe second: %v", len(got), lines(log), r1, r2)
			}
			if e := entryOf(t, "j", "2026-01-05"); e.State != "done" || e.Host != "web-2" {
				t.Errorf("entry %+v, want done on web-2", e)
			}
		})
	}
}

// wantOneAttempt wants one START, with the token that the entry has, done at the first attempt, and one begin in the log.
func wantOneAttempt(t *testing.T, log, job, slot string) {
	t.Helper()
	got, e := readEffects(t, log, false), entryOf(t, job, slot)
	if len(got) != 1 || got[0].token != int64(e.Token) || e.State != "done" || e.Attempt != 1 {
		t.Errorf("starts %v, entry %+v; want one start, done at the first attempt, of one token", got, e)
	}
	begins := 0
	events, err := shared.rdb.XRange(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys(job)[4], "-", "+").Result()
	for _, event := range events {
		if event.Values["event"] == "begin" && event.Values["slot"] == slot {
			begins++
		}
	}
	if err != nil || begins != 1 {
		t.Errorf("%d begins in the log, %v; want 1", begins, err)
	}
}

// A begin that is on its way when its sender dies, and arrives when the slot has been run by another, changes nothing and
// holds nothing up.
//
//	web-1  begin ............................ arrives
//	       killed
//	web-2          begin, run, finish (done)
func TestCaseBeginArrivesLate(t *testing.T) {
	t.Parallel()
	p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "5"}, effects(log, "true")...)
	p.delay(500 * time.Millisecond)
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(args...)
	eventually(t, "the begin is sent", func() bool { return slices.Contains(p.requests(), "EVAL") })
	web.kill()
	silent(t, "the other host", newHost(t, "web-2").run(args...))
	before := entryOf(t, "j", "2026-01-05")
	eventually(t, "the begin has arrived", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.relays) == 0
	})
	silent(t, "the next slot", newHost(t, "web-2").run("run", "--job", "j", "--date", "2026-01-06", "--", "true"))
	after := entryOf(t, "j", "2026-01-05")
	if _, value, ttl := lockOf(t, "j"); ttl != -2 || before.Token != after.Token || after.State != "done" || after.Attempt != 1 {
		t.Errorf("the lock is %q for %v; the entry was %+v and is %+v", value, ttl, before, after)
	}
	if got := readEffects(t, log, false); len(got) != 1 {
		t.Errorf("%d starts, want 1", len(got))
	}
}
