//go:build !race

// They run the binary, which has no race detector in it.

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

// Users' cases where Redis goes away, comes back empty, or takes the lease away under a running command. What a command
// does is seen by its signs of life: it writes a line every few milliseconds.

var _ = caseHelper("fault:beat", helpBeat)

// helpBeat LOG INTERVAL LIFE [deaf] writes a line at its start, every INTERVAL, at TERM, and at its end after LIFE. Deaf,
// it goes on after TERM.
func helpBeat(args []string) int {
	log, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	interval, err1 := time.ParseDuration(args[1])
	life, err2 := time.ParseDuration(args[2])
	if err != nil || err1 != nil || err2 != nil {
		return 99
	}
	say := func(word string) {
		fmt.Fprintf(log, "%d %s %s %s %s %d\n", int64(bootNow()), os.Getenv("ONCEONLY_HOST"), os.Getenv("ONCEONLY_ATTEMPT"),
			os.Getenv("ONCEONLY_FENCING_TOKEN"), word, unix.Getpgrp())
	}
	say("begin")
	term := make(chan os.Signal, 10)
	signal.Notify(term, unix.SIGTERM)
	for began := time.Now(); time.Since(began) < life; {
		select {
		case <-term:
			say("term")
			if len(args) < 4 {
				return 3
			}
		case <-time.After(interval):
			say("tick")
		}
	}
	say("end")
	return 0
}

// A beat is one sign of life.
type beat struct {
	at      boot
	host    string
	attempt int
	token   int64
	word    string
	group   int
}

func beatsOf(log string) (all []beat) {
	for _, l := range lines(log) {
		var b beat
		if n, _ := fmt.Sscan(l, &b.at, &b.host, &b.attempt, &b.token, &b.word, &b.group); n == 6 {
			all = append(all, b)
		}
	}
	return all
}

// beatsBy are those of one host.
func beatsBy(log, host string) []beat {
	return slices.DeleteFunc(beatsOf(log), func(b beat) bool { return b.host != host })
}

// words are the signs of life without the ticks.
func beatWords(log string) (words []string) {
	for _, b := range beatsOf(log) {
		if b.word != "tick" {
			words = append(words, b.host+" "+b.word)
		}
	}
	return words
}

// beating is the command.
func beating(t *testing.T, log, interval, life string, more ...string) []string {
	return append([]string{caseSelf(t), "fault:beat", log, interval, life}, more...)
}

func beats(log, host string) func() bool { return func() bool { return len(beatsBy(log, host)) > 0 } }

// handover is how long the successor began after the last sign of life of the one before; it is an error if that is
// negative.
func handover(t *testing.T, log, first, second string) time.Duration {
	t.Helper()
	a, b := beatsBy(log, first), beatsBy(log, second)
	if len(a) == 0 || len(b) == 0 {
		t.Fatalf("%d signs of life on %s, %d on %s", len(a), first, len(b), second)
	}
	if b[0].token <= a[0].token {
		t.Errorf("the successor's token is %d, after %d", b[0].token, a[0].token)
	}
	return time.Duration(b[0].at - a[len(a)-1].at)
}

func heldIn(t *testing.T, rdb redis.UniversalClient, job string) bool {
	t.Helper()
	n, err := rdb.Exists(context.Background(), lockKey(t, job)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// rounds are few by default, many with ONCEONLY_TEST_LONG.
func rounds(few, many int) int {
	if os.Getenv("ONCEONLY_TEST_LONG") != "" {
		return many
	}
	return few
}

// renewalPasses returns just after the next renewal that passes the proxy.
func renewalPasses(t *testing.T, p *proxy) {
	t.Helper()
	p.forget()
	eventually(t, "a renewal", func() bool { return slices.Contains(p.requests(), "EVAL") })
	eventually(t, "its answer", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for r := range p.relays {
			r.mu.Lock()
			open := len(r.pending)
			r.mu.Unlock()
			if open > 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(50 * time.Millisecond) // until it is read
}

const faultClock = `(\d\d-\d\d )?\d\d:\d\d:\d\d`

// notRenewed is the line that warns of an outage.
func notRenewed(job string) string {
	return "onceonly: " + job + " " + caseDay + ": lease not renewed for [^\n]+; going on until " + faultClock + "\n"
}

func lostLine(job, host string, attempt int) string {
	return fmt.Sprintf(`onceonly: %s %s: stopped: lease lost to %s:\d+ \(%s, attempt %d\)`+"\n", job, caseDay, host, caseDay, attempt)
}

// SH-06: somebody deletes the lock under a running command, and nobody comes. The lease is regained at the next renewal;
// the run completes as if nothing had been.
func TestCaseLockDeleted(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 3s", beating(t, log, "20ms", "5s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	before := entryOf(t, "j", caseDay)
	time.Sleep(1300 * time.Millisecond) // the case itself: deleted between two renewals, which come every 750 ms
	shared.rdb.Del(context.Background(), lockKey(t, "j"))
	at := bootNow()
	eventually(t, "the lease is regained", func() bool { return isHeld(t, "j") })
	if took := time.Duration(bootNow() - at); took > 750*time.Millisecond+400*time.Millisecond {
		t.Errorf("regained after %v, renewals are 750 ms apart", took)
	}
	p.wait().want(t, 0, "")
	if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 1 || e.Token != before.Token || e.RunID != before.RunID || e.Stale != 0 {
		t.Errorf("entry %+v, before %+v", e, before)
	}
	if got := beatWords(log); !slices.Equal(got, []string{"web-1 begin", "web-1 end"}) {
		t.Errorf("%q", got)
	}
	if isHeld(t, "j") {
		t.Error("the lease is still held")
	}
}

// SH-06: somebody deletes the lock, and another host begins before it is regained. The holder sees it at its next renewal,
// stops, ends 75 and names the new holder; its end does not count. With one attempt the other is refused.
func TestCaseLockDeletedAndTaken(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{2, 1} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			t.Parallel()
			px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			args := caseRun("j", fmt.Sprintf("--lease 3s --attempts %d", attempts), beating(t, log, "10ms", "4s")...)
			a := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(args...))
			eventually(t, "it begins", beats(log, "web-1"))
			renewalPasses(t, px)
			shared.rdb.Del(context.Background(), lockKey(t, "j"))
			b := caseStart(t, newHost(t, "web-2").command(args...))
			if attempts == 1 {
				if r := b.wait(); r.status != 75 || !regexp.MustCompile(uncertainLine("j", caseDay, "web-1")).MatchString(r.stderr) {
					t.Errorf("the other: %v", r)
				}
				a.wait().want(t, 0, "")
				if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 1 {
					t.Errorf("entry %+v", e)
				}
				return
			}
			a.wait().wantMatch(t, 75, lostLine("j", "web-2", 2))
			b.wait().wantMatch(t, 0, `(onceonly: j `+caseDay+`: taking over[^\n]*\n)?`)
			if over := -handover(t, log, "web-1", "web-2"); over > 750*time.Millisecond+300*time.Millisecond {
				t.Errorf("two ran together for %v, renewals are 750 ms apart", over)
			} else {
				t.Logf("two ran together for %v", over)
			}
			if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" || e.Stale != 1 {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

// SH-08: hiccups are no loss: connections refused for a second, reset, a silence of one and a half. The command is never
// signalled, and there is at most one line an outage.
func TestCaseHiccups(t *testing.T) {
	t.Parallel()
	px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "--lease 6s", beating(t, log, "20ms", "12s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	began := time.Now()
	for _, step := range []struct {
		at time.Duration
		do func()
	}{
		{2 * time.Second, px.refuse}, {3 * time.Second, px.pass}, {5 * time.Second, px.resetOnce},
		{7 * time.Second, func() { px.swallow(true, true) }}, {8500 * time.Millisecond, px.pass},
	} {
		time.Sleep(step.at - time.Since(began)) // the case itself: SH-08 says when each fault comes and how long it lasts
		step.do()
	}
	p.wait().wantMatch(t, 0, "("+notRenewed("j")+"){0,2}")
	if got := beatWords(log); !slices.Equal(got, []string{"web-1 begin", "web-1 end"}) {
		t.Errorf("%q", got)
	}
	wantEntry(t, "j", "done", 0, "", "")
}

// SH-28 (b): the master becomes a read-only replica for two seconds in the middle of a run.
func TestCaseReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	ctx, r, log := context.Background(), newRedis(t), filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).command(caseRun("j", "--lease 6s", beating(t, log, "20ms", "8s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	time.Sleep(2 * time.Second) // the case itself: SH-28 has the master read-only from 2 s to 4 s of the run
	if err := r.rdb.ReplicaOf(ctx, "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	r.rdb.ReplicaOf(ctx, "NO", "ONE")
	p.wait().wantMatch(t, 0, "("+notRenewed("j")+")?")
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Attempt != 1 {
		t.Errorf("entry %+v", e)
	}
	if got := beatWords(log); !slices.Equal(got, []string{"web-1 begin", "web-1 end"}) {
		t.Errorf("%q", got)
	}
}

// SH-29: a failover to a server that never saw the lock. Nobody else came: the attempt is written again, with its own
// token, and completes there.
//
// Manual: Redis restarts
func TestCaseEmptyServerRegained(t *testing.T) {
	t.Parallel()
	empty, log := newRedis(t), filepath.Join(t.TempDir(), "log")
	px := newProxy(t, shared.address())
	a := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "--lease 3s", beating(t, log, "20ms", "5s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	time.Sleep(time.Second)
	px.switchTo(empty.address())
	eventually(t, "regained", func() bool { return heldIn(t, empty.rdb, "j") })
	b := newHost(t, "web-2", "ONCEONLY_REDIS="+px.url())
	b.run(caseRun("j", "--lease 3s --exit-busy 5", "true")...).want(t, 5, "")
	a.wait().want(t, 0, "")
	e := entryIn(t, empty.rdb, namespaceOf(t), "j", caseDay)
	if first := beatsOf(log)[0]; e.State != "done" || e.Attempt != 1 || e.Token != first.token || e.Host != "web-1" {
		t.Errorf("entry %+v, the command's token was %d", e, first.token)
	}
	b.run(caseRun("j", "--lease 3s --exit-done 6", "true")...).want(t, 6, "")
	if r := b.run("status", "j"); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "done") {
		t.Errorf("status: %v", r)
	}
	if n, _ := empty.rdb.SIsMember(context.Background(), namespaceOf(t)+":jobs", "j").Result(); !n {
		b.run(caseRun("j", "--lease 3s --date 2024-03-01", "true")...).want(t, 0, "")
		if n, _ := empty.rdb.SIsMember(context.Background(), namespaceOf(t)+":jobs", "j").Result(); !n {
			t.Error("the job is not in the list of jobs, also after the next run")
		}
	}
}

// SH-29: the same, and another host began first on the empty server: the first sees it at its next renewal.
//
// Manual: Redis fails over
func TestCaseEmptyServerTaken(t *testing.T) {
	t.Parallel()
	empty, log := newRedis(t), filepath.Join(t.TempDir(), "log")
	px := newProxy(t, shared.address())
	args := caseRun("j", "--lease 3s", beating(t, log, "10ms", "4s")...)
	a := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(args...))
	eventually(t, "it begins", beats(log, "web-1"))
	renewalPasses(t, px)
	px.switchTo(empty.address())
	b := caseStart(t, newHost(t, "web-2", "ONCEONLY_REDIS="+px.url()).command(args...))
	a.wait().wantMatch(t, 75, lostLine("j", "web-2", 1))
	b.wait().want(t, 0, "")
	over := -handover(t, log, "web-1", "web-2")
	if t.Logf("two ran together for %v", over); over > 750*time.Millisecond+300*time.Millisecond {
		t.Errorf("two ran together for %v, renewals are 750 ms apart", over)
	}
	if e := entryIn(t, empty.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Host != "web-2" || e.Stale != 1 {
		t.Errorf("entry %+v", e)
	}
}

// SH-30: the server forgets its scripts during a run, again and again, and just before the end.
func TestCaseScriptsFlushedDuringARun(t *testing.T) {
	t.Parallel()
	ctx, r, e := context.Background(), newRedis(t), newEnder(t)
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).command(caseRun("j", "--lease 1s", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	for range 8 {
		r.rdb.ScriptFlush(ctx)
		time.Sleep(200 * time.Millisecond)
		if !heldIn(t, r.rdb, "j") {
			t.Fatal("the lease is lost")
		}
	}
	r.rdb.ScriptFlush(ctx)
	e.end(t)
	p.wait().want(t, 0, "")
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || heldIn(t, r.rdb, "j") {
		t.Errorf("entry %+v, held %v", e, heldIn(t, r.rdb, "j"))
	}
}

// SH-31: Redis is silent: from the start, after the handshake, with a password; or it speaks TLS where none is expected,
// and the reverse. Within the time allowed one line and 69, no command, and no process left. status likewise.
func TestCaseRedisSilent(t *testing.T) {
	t.Parallel()
	locked, _ := secretRedis(t, "geheim")
	tlsAddress := tlsListener(t)
	for _, c := range []struct {
		what string
		url  func(t *testing.T) string
	}{
		{"after connecting", func(t *testing.T) string {
			px := newProxy(t, shared.address())
			px.swallow(true, true)
			return px.url()
		}},
		{"after the handshake", func(t *testing.T) string { return deafTo(t, shared.address(), "EVAL") }},
		{"after AUTH", func(t *testing.T) string {
			return strings.Replace(deafTo(t, locked.address(), "EVAL"), "redis://", "redis://:geheim@", 1)
		}},
		{"plain to a TLS port", func(t *testing.T) string { return "redis://" + tlsAddress + "/0" }},
		{"TLS to a plain port", func(t *testing.T) string { return "rediss://" + shared.address() + "/0" }},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			url, log := c.url(t), filepath.Join(t.TempDir(), "log")
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+url)
			began := time.Now()
			p := caseStart(t, h.command(caseRun("j", "--lease 1s --redis-wait 1s", "touch", log)...))
			p.wait().wantMatch(t, 69, `onceonly: j `+caseDay+`: not run: Redis at [^\n]+\n(onceonly: hint: [^\n]*\n)?`)
			if took := time.Since(began); took > 7*time.Second { // the wait, a request, the lease, a farewell, another request
				t.Errorf("took %v", took)
			}
			if _, err := os.Stat(log); err == nil {
				t.Error("the command was started")
			}
			if strings.HasPrefix(c.what, "after the") || c.what == "after AUTH" {
				return // status asks otherwise, and is answered
			}
			began = time.Now()
			if r := h.run("status", "--redis-wait", "1s"); r.status != 69 || strings.Count(r.stderr, "\n") > 2 || r.stderr == "" {
				t.Errorf("status: %v", r)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("status took %v", took)
			}
		})
	}
}

// deafTo relays all but one command, which is lost; it returns the URL.
func deafTo(t *testing.T, target, command string) string {
	t.Helper()
	url, _ := withholds(t, target, command)
	return url
}

// withholds relays all but one command: those it keeps, and answers nothing.
func withholds(t *testing.T, target, command string) (url string, kept func() [][]byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	var all [][]byte
	serve := func(c net.Conn) {
		defer c.Close()
		s, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer s.Close()
		go func() { io.Copy(c, s); c.Close() }()
		for in := bufio.NewReader(c); ; {
			raw, words, err := readRESP(in)
			if err != nil {
				return
			}
			if len(words) > 0 && strings.EqualFold(words[0], command) {
				mu.Lock()
				all = append(all, raw)
				mu.Unlock()
				continue
			}
			s.Write(raw)
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "redis://" + l.Addr().String() + "/0", func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// tlsListener speaks TLS and nothing else.
func tlsListener(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(io.Discard, c); c.Close() }()
		}
	}()
	return l.Addr().String()
}

// SH-47: TERM while Redis does not answer: over within a second, no command, no key, not a word.
func TestCaseTermWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	for _, c := range []struct {
		what string
		bad  func(*proxy)
	}{
		{"silent", func(p *proxy) { p.swallow(true, true) }},
		{"refused", (*proxy).refuse},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			px, log := newProxy(t, r.address()), filepath.Join(t.TempDir(), "log")
			c.bad(px)
			p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "", "touch", log)...))
			eventually(t, "it waits", func() bool { return c.what == "refused" || px.connections() > 0 })
			time.Sleep(300 * time.Millisecond)
			at := time.Now()
			p.say(unix.SIGTERM)
			p.wait().want(t, 143, "")
			if took := time.Since(at); took > time.Second {
				t.Errorf("took %v", took)
			}
			if _, err := os.Stat(log); err == nil {
				t.Error("the command was started")
			}
			if keys := r.rdb.Keys(context.Background(), namespaceOf(t)+":*").Val(); len(keys) > 0 {
				t.Errorf("keys %q", keys)
			}
		})
	}
}

// SH-47: the same, and Redis has executed the begin that nobody heard the answer of: the next onceonly on the host gives
// the slot back, and it is nobody's attempt.
func TestCaseTermBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	h := newHost(t, "web-1")
	px.dropReply("EVAL", 1, false)
	cmd := h.command(caseRun("j", "", "touch", log)...)
	cmd.Env = append(cmd.Env, "ONCEONLY_REDIS="+px.url())
	p := caseStart(t, cmd)
	eventually(t, "the begin is executed", func() bool { return px.dropsLeft() == 0 })
	px.swallow(true, true)
	at := time.Now()
	p.say(unix.SIGTERM)
	p.wait().want(t, 143, "")
	if took := time.Since(at); took > time.Second {
		t.Errorf("took %v", took)
	}
	if !isHeld(t, "j") {
		t.Fatal("nothing to give back")
	}
	// The same server by the same address: only there the end is at home.
	px.pass()
	px.resetOnce()
	cmd = h.command(caseRun("other", "", "true")...)
	cmd.Env = append(cmd.Env, "ONCEONLY_REDIS="+px.url())
	caseStart(t, cmd).wait().want(t, 0, "")
	if isHeld(t, "j") {
		t.Error("the lease is still held")
	}
	newHost(t, "web-2").run(caseRun("j", "", "touch", log)...).want(t, 0, "")
	if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 1 {
		t.Errorf("entry %+v", e)
	}
}

// SH-51: nobody reads the command's output for longer than two leases. The lease is kept, nobody else begins, all arrives.
func TestCaseReaderSleeps(t *testing.T) {
	t.Parallel()
	out, in := casePipe(t)
	cmd := newHost(t, "web-1").command(caseRun("slow", "--lease 3s", caseSelf(t), "case:bytes", "1000000", "0")...)
	cmd.Stdout = in
	p := caseStart(t, cmd)
	in.Close()
	eventually(t, "it begins", func() bool { return isHeld(t, "slow") })
	rival := newHost(t, "web-2")
	for until := time.Now().Add(time.Duration(rounds(7, 20)) * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		rival.run(caseRun("slow", "--lease 3s --exit-busy 5", "true")...).want(t, 5, "")
	}
	if sumOf(out) != sumOf(caseBytes(1000000)) {
		t.Error("other bytes arrived")
	}
	p.wait().want(t, 0, "")
	wantEntry(t, "slow", "done", 0, "", "")
}

// SH-57: a user that no file knows, without a home, in a folder that it cannot read, with a TMPDIR that is not there: it
// works, and creates no file.
func TestCaseUnknownUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		absent(t, "root, to become somebody else")
	}
	dir := t.TempDir()
	os.Chmod(filepath.Dir(dir), 0o755)
	os.Chmod(dir, 0o755)
	copyFile(t, binary, filepath.Join(dir, "onceonly"))
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(trace, command string) result {
		words := []string{"setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"}
		if trace != "" {
			words = append([]string{"strace", "-f", "-qq", "-e", "trace=openat,open,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,symlink,symlinkat", "-o", trace}, words...)
		}
		words = append(words, "env", "-i", "PATH=/usr/bin:/bin", "TMPDIR=/nowhere", "ONCEONLY_REDIS="+shared.url(),
			"ONCEONLY_NAMESPACE="+namespaceOf(t), filepath.Join(dir, "onceonly"))
		words = append(words, caseRun("j"+filepath.Base(trace), "", "sh", "-c", command)...)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = closed
		return caseStart(t, cmd).wait()
	}
	if r := run("", "id -u; sleep 1.3"); r.status != 0 || r.stdout != "54321\n" || r.stderr != "" { // long enough for a guard
		t.Errorf("got %v", r)
	}
	if e := entryOf(t, "j.", caseDay); e.State != "done" || e.User != "54321" {
		t.Errorf("entry %+v", e)
	}
	if _, err := exec.LookPath("strace"); err != nil {
		absent(t, "strace, to see which files are created")
	}
	trace := filepath.Join(dir, "trace")
	if r := run(trace, "sleep 1.3"); r.status != 0 || r.stderr != "" {
		t.Errorf("got %v", r)
	}
	for _, l := range lines(trace) {
		if regexp.MustCompile(`O_CREAT|(creat|mkdir|mkdirat|mknod|mknodat|rename|renameat|renameat2|link|linkat|symlink|symlinkat)\(`).MatchString(l) {
			t.Errorf("creates: %s", l)
		}
	}
	if len(lines(trace)) == 0 {
		t.Error("nothing was traced")
	}
}

// SH-57: an empty root with nothing but onceonly in it: no passwd, no resolv.conf, no zone files, no /dev, no /proc.
func TestCaseEmptyRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		absent(t, "root, for chroot")
	}
	root := t.TempDir()
	copyFile(t, binary, filepath.Join(root, "onceonly"))
	os.Chmod(root, 0o555)
	for _, command := range []string{"one", "two"} {
		cmd := exec.Command("chroot", append([]string{"--userspec=54321:54321", root, "/onceonly"}, caseRun(command, "", "/onceonly", "--version")...)...)
		cmd.Env = []string{"ONCEONLY_REDIS=" + shared.url(), "ONCEONLY_NAMESPACE=" + namespaceOf(t), "ONCEONLY_HOST=web-1"}
		if r := caseStart(t, cmd).wait(); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "onceonly") {
			t.Errorf("%s: %v", command, r)
		}
		wantEntry(t, command, "done", 0, "", "")
	}
	if names, _ := os.ReadDir(root); len(names) != 1 {
		t.Errorf("left in the root: %v", names)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err == nil {
		err = os.Chmod(to, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Redis is cut off at a random moment, in one of several ways, from a command that is deaf to TERM. Its last sign of life
// comes before the first of its successor. (DESIGN §1, §5)
//
// Manual: the host is cut off from Redis
func TestCaseCutOffAtRandom(t *testing.T) {
	t.Parallel()
	ways := []struct {
		what string
		cut  func(*proxy)
	}{
		{"refused", (*proxy).refuse}, {"silent", func(p *proxy) { p.swallow(true, true) }},
		{"not answered", func(p *proxy) { p.swallow(false, true) }}, {"reset", (*proxy).reset},
		{"closed", (*proxy).hangUp}, {"read-only", func(p *proxy) { p.answer("-READONLY no", "EVAL") }},
	}
	var mu sync.Mutex
	smallest, n := time.Hour, 0
	round := func(k int) {
		way, moment := ways[k%len(ways)], mathrand.N(2*time.Second)
		job := fmt.Sprint("j", k)
		px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
		a := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun(job, "--lease 2s --attempts 2", beating(t, log, "2ms", "15s", "deaf")...)...))
		eventually(t, "it begins", beats(log, "web-1"))
		b := caseStart(t, newHost(t, "web-2").command(caseRun(job, "--lease 10s --attempts 2 --standby", beating(t, log, "2ms", "300ms")...)...))
		time.Sleep(moment) // the case itself: cut off at a random moment
		way.cut(px)
		ra, rb := a.wait(), b.wait()
		if ra.status != 75 || rb.status != 0 {
			t.Errorf("%s after %v: %v, then %v", way.what, moment, ra, rb)
		}
		margin := handover(t, log, "web-1", "web-2")
		mu.Lock()
		defer mu.Unlock()
		if smallest, n = min(smallest, margin), n+1; margin <= 0 {
			t.Errorf("%s after %v: two ran together for %v", way.what, moment, -margin)
		}
	}
	for k := 0; k < rounds(10, 100); k += 2 {
		atOnce([]int{k, k + 1}, round)
	}
	t.Logf("%d rounds, lease 2s: the smallest margin was %v", n, smallest)
}
