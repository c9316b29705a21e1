package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Cases of real users about clocks: set back, plainly wrong, or a little late.

// atMidnight is a zone of a whole hour whose next or last midnight is at most half an hour away, and that midnight. Redis's
// clock is the machine's, and a host may not be off it by more than an hour.
func atMidnight() (zone string, midnight time.Time) {
	midnight = time.Now().UTC().Round(time.Hour)
	east := (24 - midnight.Hour()) % 24 // hours to add until the clock shows 00:00
	if east > 12 {
		east -= 24
	}
	return fmt.Sprintf("Etc/GMT%+d", -east), midnight // its sign is the other way round
}

// A clock that is set back makes no second effect: not within the day, not across midnight. (SH-19)
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	zone, midnight := atMidnight()
	h := newHost(t, "web-1")
	log := filepath.Join(t.TempDir(), "log")
	at := func(d time.Duration, line ...string) {
		t.Helper()
		args := append(append([]string{"run", "--tz", zone}, line...), "--", "sh", "-c", `echo $ONCEONLY_JOB $ONCEONLY_SLOT >>"$0"`, log)
		if r := h.runAt(midnight.Add(d), args...); r.status != 0 || strings.Count(r.stderr, "\n") > 1 { // it may be told that its clock is off
			t.Errorf("%v after midnight: %v", d, r)
		}
	}
	local := func(d time.Duration, layout string) string {
		l, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		return midnight.Add(d).In(l).Format(layout)
	}
	day := []string{"--job", "day", "--every", "day"}
	hour := []string{"--job", "hour", "--every", "hour"}
	line := []string{"--job", "line", "--schedule", "0 0 * * *"}
	for _, l := range [][]string{day, hour, line} {
		for _, d := range []time.Duration{-2 * time.Second, 5 * time.Second, -2 * time.Second, 20 * time.Minute, 10 * time.Minute,
			20*time.Minute - 7*time.Second, 5 * time.Second, -10 * time.Minute} {
			at(d, l...)
		}
	}
	before, after := local(-time.Second, time.DateOnly), local(0, time.DateOnly)
	want := []string{"day " + before, "day " + after, "hour " + local(-time.Hour, "2006-01-02T15:04-07:00"),
		"hour " + local(0, "2006-01-02T15:04-07:00"), "line " + before, "line " + after}
	if got := lines(log); !slices.Equal(got, want) {
		t.Errorf("effects: %q, want %q", got, want)
	}
}

// A host whose clock is plainly wrong would use up a day to come: it is refused, and told both times. One that is a bit
// off runs and says so; seconds are not worth a word. (SH-20)
func TestClockPlainlyWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		job    string
		off    time.Duration
		status int
		stderr string
	}{
		{"day-ahead", 26 * time.Hour, exitDisagree, `onceonly: day-ahead: not run: clock is 2[56]h\d+m\S* ahead of Redis \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d here, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d there\)` +
			"\nonceonly: hint: timedatectl status\n"},
		{"day-behind", -26 * time.Hour, exitDisagree, `onceonly: day-behind: not run: clock is 26h0m\S* behind Redis \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d here, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d there\)` +
			"\nonceonly: hint: timedatectl status\n"},
		{"61m-ahead", 61 * time.Minute, exitDisagree, "onceonly: 61m-ahead: not run: clock is .*\n"},
		{"59m-ahead", 59 * time.Minute, 0, `onceonly: clock is 5[89]m\S* ahead of Redis` + "\n"},
		{"2m-ahead", 124 * time.Second, 0, `onceonly: clock is 2m0[0-4]s ahead of Redis` + "\n"},
		{"2m-behind", -124 * time.Second, 0, `onceonly: clock is 2m\d+s behind Redis` + "\n"},
		{"20s-ahead", 20 * time.Second, 0, ""},
		{"20s-behind", -20 * time.Second, 0, ""},
	} {
		h, log := newHost(t, "web-1"), filepath.Join(t.TempDir(), "log")
		args := []string{"run", "--job", c.job, "--every", "day", "--", "sh", "-c", `echo run >>"$0"`, log}
		h.runAt(time.Now().Add(c.off), args...).wantLike(t, c.status, c.stderr)
		if ran := len(lines(log)) == 1; ran != (c.status == 0) {
			t.Errorf("%s: ran: %v", c.job, ran)
		}
		if n, _ := shared.rdb.HLen(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys(c.job)[2]).Result(); (n == 1) != (c.status == 0) {
			t.Errorf("%s: %d entries", c.job, n)
		}
		// Whoever finds it done says nothing about clocks, however wrong they are within the hour.
		if c.status == 0 && c.off > time.Minute {
			newHost(t, "web-2").runAt(time.Now().Add(c.off), args...).wantOut(t, "")
		}
	}
}

// A line near midnight that is started a little late works for the day that it was meant for: by the clock, not by --date.
func TestLineNearMidnight(t *testing.T) {
	t.Parallel()
	zone, midnight := atMidnight()
	local, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	yesterday := midnight.In(local).AddDate(0, 0, -1).Format(time.DateOnly)
	args := append([]string{"run", "--job", "close", "--schedule", "59 23 * * *", "--tz", zone}, tellSlot...)
	r := newHost(t, "web-1").runAt(midnight.Add(20*time.Second), args...)
	if r.status != 0 || r.stdout != yesterday+" "+yesterday+"\n" {
		t.Errorf("20 s after midnight: %v, want %s", r, yesterday)
	}
	newHost(t, "web-2").runAt(midnight.Add(-50*time.Second), args...).wantOut(t, "")
	calendar := append([]string{"run", "--job", "calendar", "--date", "yesterday", "--tz", zone}, tellSlot...)
	if r := newHost(t, "web-1").runAt(midnight.Add(20*time.Second), calendar...); r.stdout != yesterday+" "+yesterday+"\n" {
		t.Errorf("yesterday: %v, want %s", r, yesterday)
	}
}
