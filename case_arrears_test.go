package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Cases of real users about missed slots with younger entries before them: what was skipped, paused, run by its date or
// settled by hand says nothing of the slots before.

// Whatever has been done about yesterday, the day before is told, once, and can be caught up with.
func TestYoungerEntriesHideNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     func(*backlog)
		ran    []int // with --catch-up each
		states string
	}{
		"run by its date": {func(b *backlog) { b.run("web-2", "--date", b.day(-1)).want(b.t, 0, "") }, []int{-3, -1, -2, 0}, "done"},
		"skipped": {func(b *backlog) {
			slotWrite(b.t, b.log+".hold."+b.day(-4), "")
			one := newHost(b.t, "web-2").launch(b.line("--date", b.day(-4))...)
			eventually(b.t, "it runs", func() bool { return len(lines(b.log)) == 3 })
			b.run("web-1", "--overlap", "skip", "--date", b.day(-1)).want(b.t, 0, "")
			slotRemove(b.t, b.log+".hold."+b.day(-4))
			one.wait().want(b.t, 0, "")
		}, []int{-3, -4, -2, -1, 0}, "done"},
		"paused": {func(b *backlog) {
			h := newHost(b.t, "web-2")
			h.run("pause", b.job).want(b.t, 0, "")
			b.run("web-1", "--date", b.day(-1)).want(b.t, 0, "")
			h.run("resume", b.job).want(b.t, 0, "")
		}, []int{-3, -2, 0}, "paused"},
		"settled by hand": {func(b *backlog) {
			shared.rdb.HSet(context.Background(), jobKeys(b.t, b.job)[5], "zone", b.zone) // as after a run that was not by its date
			newHost(b.t, "web-2").run("resolve", b.job, "--date", b.day(-1), "--done", "--reason", "by hand").want(b.t, 0, "")
		}, []int{-3, -2, 0}, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range []string{"none", "each"} {
				b := newBacklog(t, strings.ReplaceAll(name, " ", "-")+"-"+how)
				c.do(b)
				b.run("web-1", "--catch-up", how).want(t, 0, b.missedLine(how == "none", -2))
				b.run("web-3", "--catch-up", how).want(t, 0, "")
				if how == "each" {
					b.wantRan(c.ran...)
					b.wantStates(map[int]string{-2: "done", -1: c.states})
				} else {
					b.wantStates(map[int]string{-2: "missed"})
				}
			}
		})
	}
}

// minutes is a line of every minute, called in this process as if it were so many minutes ago.
type minutes struct {
	t    *testing.T
	log  string
	keep string
	now  time.Time
}

func newMinutes(t *testing.T, keep string) *minutes {
	return &minutes{t, filepath.Join(t.TempDir(), "log"), keep, time.Now().Add(time.Second)}
}

func (m *minutes) name(ago int) string {
	return m.now.Add(-time.Duration(ago) * time.Minute).UTC().Format("2006-01-02T15:04+00:00")
}

// ask returns what is said, but for what is said of the clock.
func (m *minutes) ask(ago int, options map[string]string) string {
	m.t.Helper()
	for name, value := range map[string]string{"job": "m", "schedule": "* * * * *", "keep": m.keep} {
		options[name] = value
	}
	c, err := newCallAt(m.t, m.now.Add(-time.Duration(ago)*time.Minute), options, "sh", "-c",
		`echo $ONCEONLY_SLOT >>"$0"; while [ -e "$0.hold" ]; do sleep 0.02; done`, m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	var said bytes.Buffer
	if e := c.execute(&voice{w: &said}); e != nil && e.status != 0 {
		m.t.Errorf("%d minutes ago: %+v", ago, e)
	}
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(said.String(), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "onceonly: clock is ")
	}), "")
}

// Nobody asked for two slots, the third was skipped: the two are told and caught up with by the next run, with the third.
func TestSkippedAfterMissed(t *testing.T) {
	t.Parallel()
	m := newMinutes(t, "1000")
	slotWrite(t, m.log+".hold", "")
	ended := make(chan string, 1)
	go func() { ended <- m.ask(9, map[string]string{}) }()
	eventually(t, "it runs", func() bool { return len(lines(m.log)) == 1 })
	if said := m.ask(6, map[string]string{"overlap": "skip"}); said != "" {
		t.Errorf("skipped: %q", said)
	}
	slotRemove(t, m.log+".hold")
	<-ended
	shown := func(ago int) string { return strings.TrimSuffix(m.name(ago), "+00:00") }
	want := fmt.Sprintf("onceonly: m: missed %s, %s, %s\n", shown(8), shown(7), shown(5))
	if said := m.ask(4, map[string]string{"catch-up": "each"}); said != want {
		t.Errorf("%q, want %q", said, want)
	}
	wantLines(t, lines(m.log), m.name(9), m.name(8), m.name(7), m.name(6), m.name(5), m.name(4))
}

// Slots that ran, and that the ledger has forgotten since, are not found missed: they would run twice.
func TestForgottenIsNotMissed(t *testing.T) {
	t.Parallel()
	m := newMinutes(t, "10")
	m.ask(30, map[string]string{})
	var want []string
	for ago := 29; ago >= 5; ago-- {
		m.ask(ago, map[string]string{"date": m.name(ago)})
	}
	for ago := 30; ago >= 0; ago-- {
		want = append(want, m.name(ago))
	}
	shown := func(ago int) string { return strings.TrimSuffix(m.name(ago), "+00:00") }
	said, told := m.ask(0, map[string]string{"catch-up": "each", "catch-up-max": "9"}),
		fmt.Sprintf("onceonly: m: missed %s, %s, %s, %s\n", shown(4), shown(3), shown(2), shown(1))
	if said != told {
		t.Errorf("%q, want %q", said, told)
	}
	wantLines(t, lines(m.log), want...)
}

// explain says what run would tell, run before and cover, and nothing where run does nothing.
func TestArrearsExplained(t *testing.T) {
	t.Parallel()
	explained := func(b *backlog, options ...string) string {
		args := b.line(options...)
		args[0] = "explain"
		r := newHost(t, "web-1").run(args...)
		_, after, _ := strings.Cut(r.stdout, ": would run, attempt ")
		_, after, _ = strings.Cut(after, "\n")
		if r.status != 0 {
			t.Errorf("%v", r)
		}
		return after
	}
	wants := func(b *backlog, options []string, format string, days ...int) {
		t.Helper()
		var names []any
		for _, n := range days {
			names = append(names, b.day(n))
		}
		if got, want := explained(b, options...), fmt.Sprintf(format, names...); got != want {
			t.Errorf("%s %v: %q, want %q", b.job, options, got, want)
		}
	}
	b := newBacklog(t, "missed")
	none, each, merge := []string{}, []string{"--catch-up", "each"}, []string{"--catch-up", "merge"}
	wants(b, none, "would tell: missed %s, %s\n", -2, -1)
	wants(b, each, "would tell: missed %s, %s\nwould run before: %[1]s, %[2]s\n", -2, -1)
	wants(b, append(each, "--catch-up-max", "1"), "would tell: missed %s, %s\nwould run before: %[2]s\n", -2, -1)
	wants(b, merge, "would tell: missed %s, %s\nwould cover: %[1]s to %[3]s\n", -2, -1, 0)
	b.wantStates(map[int]string{-2: "", -1: "", 0: ""})

	slotWrite(t, b.log+".hold."+b.day(0), "")
	again := append(merge, "--attempts", "2", "--lease", "1s")
	one := newHost(t, "web-1").launch(b.line(again...)...)
	eventually(t, "the merged run has begun", func() bool { return len(lines(b.log)) == 3 })
	one.die()
	eventually(t, "the lease is over", func() bool { return slotLock(t, b.job) == "" })
	wants(b, again, "would cover: %s to %s\n", -2, 0)

	b = newBacklog(t, "all-paused")
	shared.rdb.HSet(context.Background(), jobKeys(t, b.job)[5], "paused",
		fmt.Sprintf(`{"since":%d,"until":%d,"by":"kim@web-9","n":1}`, time.Now().AddDate(0, 0, -3).UnixMilli(), time.Now().UnixMilli()))
	wants(b, each, "")
}

// A line that the job had before has left slots that were missed: those of another line are neither run nor covered, and
// not asked about again and again.
func TestAnotherLinesArrears(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"each", "merge"} {
		b := newBacklog(t, "was-daily-"+how)
		b.run("web-1").want(t, 0, b.missedLine(true, -2, -1))
		tomorrow, err := time.Parse(time.DateOnly, b.day(1))
		if err != nil {
			t.Fatal(err)
		}
		weekly := must(parseSchedule(fmt.Sprintf("0 0 * * %d", tomorrow.Weekday())))(t)
		var requests []int
		for weeks := range 2 {
			c := b.call(map[string]string{"catch-up": how})
			c.line.schedule, c.schedule = weekly, weekly.text
			c.slot = must(c.line.at(time.Now().AddDate(0, 0, 1+7*weeks)))(t)
			hook := &hookAt{n: 100}
			c.ledger.AddHook(hook)
			if e := c.execute(&voice{w: os.Stderr}); e != nil && e.status != 0 {
				t.Errorf("%+v", e)
			}
			requests = append(requests, 100-hook.n)
			if e := entryOf(t, b.job, c.slot.name); e.State != "done" || e.First != "" {
				t.Errorf("%s %s: %+v", how, c.slot.name, e)
			}
		}
		if !slices.Equal(requests, []int{3, 2}) {
			t.Errorf("%s: requests %v, want one question more, and only once", how, requests)
		}
		b.wantStates(map[int]string{-2: "missed", -1: "missed"})
	}
}
