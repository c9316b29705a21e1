package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Cases of real users about slots that nobody asked for: hosts were off, cron was stopped, an earlier run took too
// long.

// A backlog is a job whose line is due at midnight each day. Days are counted from today, in a zone where it is about noon.
type backlog struct {
	t    *testing.T
	job  string
	zone string
	day  func(int) string
	log  string
}

// newBacklog is a job that last ran three days ago.
func newBacklog(t *testing.T, job string) *backlog {
	t.Helper()
	east := 12 - time.Now().UTC().Hour()
	b := &backlog{t: t, job: job, zone: fmt.Sprintf("Etc/GMT%+d", -east), log: filepath.Join(t.TempDir(), "log")}
	b.day = func(n int) string {
		return time.Now().UTC().Add(time.Duration(east)*time.Hour).AddDate(0, 0, n).Format(time.DateOnly)
	}
	b.run("web-0", "--date", b.day(-3)).want(t, 0, "")
	b.wantRan(-3)
	return b
}

// line is the job's line; the command logs slot, range and attempt, and ends with the status in the file of its slot.
func (b *backlog) line(options ...string) []string {
	args := append([]string{"run", "--job", b.job, "--schedule", "0 0 * * *", "--tz", b.zone}, options...)
	return append(args, "--", "sh", "-c", `echo START $ONCEONLY_SLOT $ONCEONLY_FIRST_SLOT $ONCEONLY_LAST_SLOT $ONCEONLY_ATTEMPT >>"$0"
		while [ -e "$0.hold.$ONCEONLY_SLOT" ]; do sleep 0.02; done
		echo END $ONCEONLY_SLOT >>"$0"; [ ! -e "$0.$ONCEONLY_SLOT" ] || exit $(cat "$0.$ONCEONLY_SLOT")`, b.log)
}

func (b *backlog) run(name string, options ...string) result {
	b.t.Helper()
	return newHost(b.t, name).run(b.line(options...)...)
}

// call is the line as a call in this process, of web-1.
func (b *backlog) call(options map[string]string) *call {
	b.t.Helper()
	options["job"], options["schedule"], options["tz"] = b.job, "0 0 * * *", b.zone
	words := b.line()
	c, err := newCallAt(b.t, time.Now(), options, words[slices.Index(words, "--")+1:]...)
	if err != nil {
		b.t.Fatal(err)
	}
	c.wall = time.Now
	return c
}

// wantRan fails the test if the command did not run for just these days, one after the other.
func (b *backlog) wantRan(days ...int) {
	b.t.Helper()
	var want []string
	for _, n := range days {
		want = append(want, fmt.Sprintf("START %[1]s %[1]s %[1]s 1", b.day(n)), "END "+b.day(n))
	}
	wantLines(b.t, lines(b.log), want...)
}

func (b *backlog) wantStates(days map[int]string) {
	b.t.Helper()
	for n, want := range days {
		if s := stateOf(b.t, b.job, b.day(n)); s != want {
			b.t.Errorf("%s is %q, want %q", b.day(n), s, want)
		}
	}
}

// missedLine is what one host says.
func (b *backlog) missedLine(hint bool, days ...int) string {
	var names []string
	for _, n := range days {
		names = append(names, b.day(n))
	}
	text := fmt.Sprintf("onceonly: %s: missed %s\n", b.job, strings.Join(names, ", "))
	if hint {
		text += fmt.Sprintf("onceonly: hint: --catch-up each, or --date %s\n", names[0])
	}
	return text
}

// Two days of downtime: one line, once in the fleet. The missed days are on the record, can be run later, and only once.
// Nothing before the first entry is missed. (SH-66)
func TestMissedTold(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "told")
	var mu sync.Mutex
	var all sync.WaitGroup
	said := ""
	for i := range 10 {
		all.Go(func() {
			r := b.run(fmt.Sprint("web-", i))
			mu.Lock()
			defer mu.Unlock()
			said += r.stderr
			if r.status != 0 {
				t.Errorf("%v", r)
			}
		})
	}
	all.Wait()
	if want := b.missedLine(true, -2, -1); said != want {
		t.Errorf("ten hosts said %q, want %q", said, want)
	}
	b.wantRan(-3, 0)
	b.wantStates(map[int]string{-4: "", -3: "done", -2: "missed", -1: "missed", 0: "done"})
	for range 2 {
		b.run("web-1", "--date", b.day(-2)).want(t, 0, "")
	}
	b.wantRan(-3, 0, -2)
	b.wantStates(map[int]string{-2: "done", -1: "missed"})

	// Two found the same gap: whoever writes it tells it, the other one is silent.
	b = newBacklog(t, "told-2")
	c := b.call(map[string]string{})
	c.ledger.AddHook(&hookAt{2, func() { b.run("web-2").want(t, 0, b.missedLine(true, -2, -1)) }})
	var second bytes.Buffer
	if e := c.execute(&voice{w: &second}); e != nil && (e.status != 0 || !e.normal) || second.Len() > 0 {
		t.Errorf("the second one: exit %+v, said %q", e, &second)
	}
	b.wantRan(-3, 0)
}

// A job that has never run has missed nothing, and neither has a line that does not say when it is due.
func TestNothingMissed(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "new")
	shared.rdb.Del(context.Background(), jobKeys(t, "new")...)
	b.run("web-1", "--catch-up", "each").want(t, 0, "")
	b.wantRan(-3, 0)
	b.wantStates(map[int]string{-3: "", -2: "", -1: "", 0: "done"})

	for i, day := range []string{b.day(-3), ""} {
		args := []string{"run", "--job", "daily", "--every", "day", "--tz", b.zone, "--catch-up", "each"}
		if day != "" {
			args = append(args, "--date", day)
		}
		newHost(t, fmt.Sprint("web-", i)).run(append(args, "--", "true")...).want(t, 0, "")
	}
	if n, _ := shared.rdb.HLen(context.Background(), jobKeys(t, "daily")[2]).Result(); n != 2 {
		t.Errorf("%d entries of a line without a schedule", n)
	}
	// With a date the run is for that day, whatever was missed before.
	b = newBacklog(t, "dated")
	b.run("web-1", "--catch-up", "each", "--date", b.day(-1)).want(t, 0, "")
	b.wantRan(-3, -1)
	b.wantStates(map[int]string{-2: ""})
}

// Of a long downtime the newest hundred slots are written, in one line.
func TestManyMissed(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	line := []string{"run", "--job", "tick", "--schedule", "* * * * *"}
	h.run(append(line, "--date", time.Now().Add(-20*time.Hour).Format(time.RFC3339), "--", "true")...).want(t, 0, "")
	h.run(append(line, "--", "true")...).wantLike(t, 0, `onceonly: tick: missed [^\n]+\nonceonly: hint: --catch-up each, or --date [^\n]+\n`)
	states := map[string]int{}
	texts, _ := shared.rdb.HVals(context.Background(), jobKeys(t, "tick")[2]).Result()
	for _, text := range texts {
		e, err := decode[entry](text)
		if err != nil {
			t.Fatal(err)
		}
		states[e.State]++
	}
	if states["missed"] != 100 || states["done"] != 2 {
		t.Errorf("entries: %v", states)
	}
}

// What lies in the time of a slot of the other line was not missed: a line that is changed host by host counts from the first
// slot that overlaps none.
func TestOtherLinesTimeIsNotMissed(t *testing.T) {
	t.Parallel()
	even := time.Now().UTC().Truncate(2 * time.Minute)
	at := func(name string, n int, line string, more ...string) result {
		args := append([]string{"run", "--job", "sync", "--schedule", line}, more...)
		return newHost(t, name).runAt(even.Add(time.Duration(n)*time.Minute), append(args, "--", "sh", "-c", "echo $ONCEONLY_SLOT")...)
	}
	name := func(n int) string { return even.Add(time.Duration(n) * time.Minute).Format("2006-01-02T15:04+00:00") }
	clock := func(r result) result { // it may say that its clock is off
		if strings.HasPrefix(r.stderr, "onceonly: clock is ") {
			_, r.stderr, _ = strings.Cut(r.stderr, "\n")
		}
		return r
	}
	clock(at("web-1", 0, "*/2 * * * *")).wantOut(t, name(0)+"\n")
	clock(at("web-2", 1, "* * * * *")).wantLike(t, exitDisagree, "onceonly: sync: not run: .* their slots overlap.*")
	clock(at("web-2", 2, "* * * * *", "--catch-up", "each")).wantOut(t, name(2)+"\n")
	if s := stateOf(t, "sync", name(1)); s != "" {
		t.Errorf("a minute of the other line's slot is %q", s)
	}
}
