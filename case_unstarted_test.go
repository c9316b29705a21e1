//go:build !race

// They run the binary, which has no race detector in it.

package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A begin that nobody hears the answer of is kept in the spool, too: it is nobody's attempt.

// replay sends what was meant for Redis, late.
func replay(t *testing.T, r *redisServer, raw []byte) string {
	t.Helper()
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write(raw)
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	var answer bytes.Buffer
	buf := make([]byte, 65536)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	answer.Write(buf[:n])
	return answer.String()
}

// A begin is sent, never answered, and given up. The next onceonly on the host says so to the ledger; whenever the begin
// arrives, before that or after, nobody is kept from the slot, and it is nobody's attempt.
//
//	web-1  begin ....................................... arrives
//	       69, spool
//	web-1                  delivers        | or here: arrives, then delivered
//	web-2                                                         runs, attempt 1
func TestSpoolUnstarted(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"after the delivery", "before the delivery"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newRedis(t)
			px := newProxy(t, "127.0.0.1:1")
			deaf, kept := withholds(t, r.address(), "EVAL")
			px.switchTo(strings.TrimSuffix(strings.TrimPrefix(deaf, "redis://"), "/0"))
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+px.url())
			got := h.run(caseRun("j", "--lease 1s --redis-wait 1s", "true")...)
			if got.status != 69 || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got %v", got)
			}
			begins := kept()
			if len(begins) == 0 || len(h.kept()) != 1 {
				t.Fatalf("%d begins, kept %v", len(begins), h.kept())
			}
			px.switchTo(r.address())
			if when == "before the delivery" {
				answer := replay(t, r, begins[0])
				if !strings.Contains(answer, `"verdict":"run"`) || !heldIn(t, r.rdb, "j") {
					t.Errorf("answer %q", answer)
				}
			}
			h.run(caseRun("other", "", "true")...).want(t, 0, "")
			if len(h.kept()) != 0 || len(h.setAside()) != 0 {
				t.Errorf("kept %v, set aside %v", h.kept(), h.setAside())
			}
			if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "failed" || e.Reason != "not_started" || e.Attempt != 0 || e.Stale != 0 {
				t.Errorf("entry %+v", e)
			}
			for _, begin := range begins {
				if answer := replay(t, r, begin); strings.Contains(answer, `"verdict":"run"`) || heldIn(t, r.rdb, "j") {
					t.Errorf("a late begin: %q, held %v", answer, heldIn(t, r.rdb, "j"))
				}
			}
			h.run(caseRun("j", "", "true")...).want(t, 0, "")
			for _, begin := range begins {
				replay(t, r, begin)
			}
			if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Attempt != 1 || e.Stale != 0 || heldIn(t, r.rdb, "j") {
				t.Errorf("entry %+v, held %v", e, heldIn(t, r.rdb, "j"))
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
