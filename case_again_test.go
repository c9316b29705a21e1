package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"
)

// The attempt after the delay is asked for like the first one: whoever gets none says why. The exit is the last attempt's.
//
//	this host: begin, attempt 1 fails, end (lease kept) ... delay ... begin again -> refused, or no answer
//	somebody:                                                   meddles

// triesAgain runs a command that fails with 5, and meddles before the second attempt is asked for.
func triesAgain(t *testing.T, job string, options map[string]string, meddle func()) result {
	t.Helper()
	all := map[string]string{"job": job, "date": caseDay, "attempts": "2", "retry-delay": "10ms", "lease": "1s", "redis-wait": "100ms"}
	for name, value := range options {
		all[name] = value
	}
	c, err := newCallAt(t, time.Now(), all, "sh", "-c", "exit 5")
	if err != nil {
		t.Fatal(err)
	}
	c.wall = time.Now
	c.ledger.AddHook(&hookAt{3, meddle})
	var said bytes.Buffer
	v := &voice{w: &said, verbose: options["verbose"] != ""}
	e := c.execute(v)
	if e == nil {
		t.Fatal("it ended with 0")
	}
	v.leave(e)
	return result{status: e.status, stderr: said.String()}
}

func TestCaseAgainRedisGone(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared.address())
	triesAgain(t, "etl", map[string]string{"redis": p.url()}, p.refuse).wantMatch(t, 5,
		fmt.Sprintf("onceonly: etl %s: not run: Redis at %s not reached in [^\n]*: connection refused\n", caseDay, p.address()))
	if e := entryOf(t, "etl", caseDay); e.State != "failed" || e.Attempt != 1 {
		t.Errorf("entry %+v", e)
	}
}

func TestCaseAgainRefused(t *testing.T) {
	t.Parallel()
	lapse := func(t *testing.T, job string) { shared.rdb.Del(context.Background(), lockKey(t, job)) }
	for job, c := range map[string]struct {
		options map[string]string
		meddle  func(*testing.T, string)
		says    string
	}{
		"failed": {meddle: func(t *testing.T, job string) {
			lapse(t, job)
			newHost(t, "web-2").run(caseRun(job, "--attempts 2", "sh", "-c", "exit 6")...).want(t, 6, "")
		}, says: `onceonly: failed ` + caseDay + `: not run: failed on web-2 at [^\n]* \(exit 6\), no attempt left\n` +
			`onceonly: hint: onceonly resolve failed --namespace ` + namespaceOf(t) + `.failed --date ` + caseDay + ` --done or --reopen, --reason TEXT\n`},
		"denied": {options: map[string]string{}, meddle: nil, says: `onceonly: denied ` + caseDay + `: not run: Redis at [^\n]*NOAUTH[^\n]*\n`},
		"paused": {meddle: slotPause, says: ""},
		"paused, verbose": {options: map[string]string{"verbose": "yes"}, meddle: slotPause,
			says: `onceonly: paused, verbose ` + caseDay + `: not run: paused by kim@web-9 since [^\n]*: migration\n`},
		"done": {options: map[string]string{"exit-done": "9"}, meddle: func(t *testing.T, job string) {
			lapse(t, job)
			newHost(t, "web-2").run(caseRun(job, "--attempts 2", "true")...).want(t, 0, "")
		}, says: ""},
	} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			if job == "denied" {
				p := newProxy(t, shared.address())
				c.options["redis"] = p.url()
				c.meddle = func(*testing.T, string) { p.answer("-NOAUTH Authentication required.") }
			}
			triesAgain(t, job, c.options, func() { c.meddle(t, job) }).wantMatch(t, 5, c.says)
			if job != "denied" {
				wantNoLock(t, job)
			}
		})
	}
}
