//go:build !race

package main

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Users' cases where Redis is away from a running command: for a while, or for good.

// renewalPasses returns just after the next renewal that passes the proxy.
func renewalPasses(t *testing.T, p *proxy) {
	t.Helper()
	p.forget()
	eventually(t, "a renewal is answered", func() bool { return slices.Contains(p.replies(), "EVAL") })
	eventually(t, "the answer is read", func() bool {
		sockets, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(p.clients(), func(port int) bool { // an address is hexadecimal, and the queues follow the state
			return !strings.Contains(string(sockets), fmt.Sprintf(" 0100007F:%04X 0100007F:%04X 01 00000000:00000000 ", port, p.port))
		})
	})
}

const faultClock = `(\d\d-\d\d )?\d\d:\d\d:\d\d`

// notRenewed is the line that warns of an outage.
func notRenewed(job string) string {
	return "onceonly: " + job + " " + caseDay + ": lease not renewed for [^\n]+; going on until " + faultClock + "\n"
}

// SH-08: hiccups are no loss: connections refused for a second, reset, a silence of one and a half. The command is never
// signalled, and there is at most one line an outage.
func TestCaseHiccups(t *testing.T) {
	t.Parallel()
	px, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "--lease 6s", beating(t, log, "20ms", "12s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	for _, fault := range []struct {
		begin func()
		lasts time.Duration
	}{{px.refuse, time.Second}, {px.resetOnce, 0}, {func() { px.swallow(true, true) }, 1500 * time.Millisecond}} {
		renewalPasses(t, px)
		strikeAfter(time.Second) // half a second before the next is due
		lasting(fault.lasts, fault.begin, px.pass)
	}
	p.wait().wantMatch(t, 0, "("+notRenewed("j")+"){1,2}") // refused, it was tried twice
	wantWhole(t, log)
	wantEntry(t, "j", "done", 0, "", "")
}

// SH-28 (b): the master becomes a read-only replica for two seconds in the middle of a run.
func TestCaseReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	ctx, r, log := context.Background(), newRedis(t), filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).command(caseRun("j", "--lease 6s", beating(t, log, "20ms", "8s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	become := func(host, port string) func() {
		return func() {
			if err := r.rdb.ReplicaOf(ctx, host, port).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	lasting(2*time.Second, become("127.0.0.1", "1"), become("NO", "ONE"))
	p.wait().wantMatch(t, 0, "("+notRenewed("j")+")?")
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Attempt != 1 {
		t.Errorf("entry %+v", e)
	}
	wantWhole(t, log)
}

// Redis is cut off at a random moment, in one of several ways, from a command that is deaf to TERM. Its last sign of life
// comes before the first of its successor.
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
		strikeAfter(moment) // of the length of the lease
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
