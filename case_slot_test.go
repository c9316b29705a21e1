package main

import (
	"fmt"
	"strings"
	"testing"
)

// Cases of real users about slots: which one it is, and its business date. The dates lie in the past, so that they stay
// what they are.

// tellSlot is the end of a command line whose command says which slot and date it was told.
var tellSlot = []string{"--", "sh", "-c", `echo $ONCEONLY_SLOT $ONCEONLY_BUSINESS_DATE`}

// The hour that comes twice is one day, and so is the one that is skipped: cron fires a line twice, or late, and the slot
// is the same. A line that runs every hour or less has each showing of the hour for itself. (SH-15)
func TestHourTwiceAndSkipped(t *testing.T) {
	t.Parallel()
	const newYork, berlin = "America/New_York", "Europe/Berlin"
	for _, c := range []struct {
		job, zone, line string
		at              []string // instants at which cron fires
		runs            []string // what the command is told; "" if it is not run
	}{
		{"autumn", newYork, "day", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"}, []string{"2025-11-02 2025-11-02", ""}},
		{"autumn-line", newYork, "30 1 * * *", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"}, []string{"2025-11-02 2025-11-02", ""}},
		{"spring", newYork, "day", []string{"2025-03-09T06:59:00Z", "2025-03-09T07:00:00Z"}, []string{"2025-03-09 2025-03-09", ""}},
		{"spring-line", newYork, "30 2 * * *", []string{"2025-03-09T06:59:00Z", "2025-03-09T07:00:00Z", "2025-03-09T07:30:00Z"},
			[]string{"2025-03-08 2025-03-08", "2025-03-09 2025-03-09", ""}},
		{"berlin", berlin, "day", []string{"2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z"}, []string{"2025-10-26 2025-10-26", ""}},
		{"berlin-line", berlin, "30 2 * * *", []string{"2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z"}, []string{"2025-10-26 2025-10-26", ""}},
		{"twice-a-day", newYork, "30 1,13 * * *", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"}, []string{"2025-11-02T01:30 2025-11-02", ""}},
		{"skipped-of-two", newYork, "30 2,14 * * *", []string{"2025-03-09T07:00:00Z", "2025-03-09T07:30:00Z"}, []string{"2025-03-09T02:30 2025-03-09", ""}},
		{"hourly", newYork, "hour", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z", "2025-11-02T06:59:59Z"},
			[]string{"2025-11-02T01:00-04:00 2025-11-02", "2025-11-02T01:00-05:00 2025-11-02", ""}},
		{"tick", newYork, "*/30 * * * *", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z", "2025-11-02T06:59:59Z"},
			[]string{"2025-11-02T01:30-04:00 2025-11-02", "2025-11-02T01:30-05:00 2025-11-02", ""}},
		{"midnight-skipped", "Asia/Beirut", "6h", []string{"2024-03-30T21:59:00Z", "2024-03-30T22:10:00Z", "2024-03-31T02:59:00Z", "2024-03-31T03:00:00Z"},
			[]string{"2024-03-30T18:00+02:00 2024-03-30", "2024-03-31T00:00+02:00 2024-03-31", "", "2024-03-31T06:00+03:00 2024-03-31"}},
	} {
		t.Run(c.job, func(t *testing.T) {
			option := "--every"
			if strings.Contains(c.line, " ") {
				option = "--schedule"
			}
			for i, at := range c.at {
				h := newHost(t, fmt.Sprintf("web-%d", i))
				args := []string{"run", "--job", c.job, "--tz", c.zone, option, c.line, "--date", at}
				want := c.runs[i]
				if want != "" {
					want += "\n"
				}
				h.run(append(args, tellSlot...)...).wantOut(t, want)
			}
		})
	}
}

// The command is told the name of its slot and its business date, for every kind of line.
func TestSlotsAndBusinessDates(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for i, c := range []struct {
		options []string
		at      string
		want    string
	}{
		{[]string{"--every", "day", "--day-start", "06:00"}, "2025-06-10T05:59:59Z", "2025-06-09 2025-06-09"},
		{[]string{"--every", "day", "--day-start", "06:00"}, "2025-06-10T06:00:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--every", "1d"}, "2025-06-10T23:59:59Z", "2025-06-10 2025-06-10"},
		{[]string{"--every", "week"}, "2025-06-15T23:59:59Z", "2025-W24 2025-06-09"},
		{[]string{"--every", "week"}, "2025-06-16T00:00:00Z", "2025-W25 2025-06-16"},
		{[]string{"--every", "week", "--day-start", "06:00"}, "2025-06-16T05:00:00Z", "2025-W24 2025-06-09"},
		{[]string{"--every", "month"}, "2025-06-30T23:59:59Z", "2025-06 2025-06-01"},
		{[]string{"--every", "month", "--day-start", "06:00"}, "2025-06-01T05:00:00Z", "2025-05 2025-05-01"},
		{[]string{"--every", "hour", "--day-start", "06:30"}, "2025-06-10T06:20:00Z", "2025-06-10T06:00+00:00 2025-06-10"},
		{[]string{"--every", "6h", "--day-start", "05:00"}, "2025-06-10T05:59:00Z", "2025-06-10T00:00+00:00 2025-06-10"},
		{[]string{"--every", "60m", "--tz", "Asia/Kolkata"}, "2025-06-10T00:10:00Z", "2025-06-10T05:00+05:30 2025-06-10"},
		{[]string{"--every", "15m"}, "2025-06-10T06:44:59Z", "2025-06-10T06:30+00:00 2025-06-10"},
		{[]string{"--schedule", "59 23 * * *"}, "2025-06-11T00:00:20Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "59 23 * * *"}, "2025-06-10T23:59:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "59 23 * * *", "--day-start", "06:00"}, "2025-06-11T00:00:20Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "@daily"}, "2025-06-10T12:00:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "@midnight"}, "2025-06-10T12:00:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "@hourly"}, "2025-06-10T12:34:00Z", "2025-06-10T12:00+00:00 2025-06-10"},
		{[]string{"--schedule", "@weekly"}, "2025-06-10T12:00:00Z", "2025-06-08 2025-06-08"},
		{[]string{"--schedule", "@monthly"}, "2025-06-10T12:00:00Z", "2025-06-01 2025-06-01"},
		{[]string{"--schedule", "@yearly"}, "2025-06-10T12:00:00Z", "2025-01-01 2025-01-01"},
		{[]string{"--schedule", "@annually"}, "2025-06-10T12:00:00Z", "2025-01-01 2025-01-01"},
		{[]string{"--schedule", "30 1,13 * * *"}, "2025-06-10T12:00:00Z", "2025-06-10T01:30 2025-06-10"},
		{[]string{"--schedule", "0 */6 * * *"}, "2025-06-10T12:34:00Z", "2025-06-10T12:00+00:00 2025-06-10"},
		{[]string{"--schedule", "0 2 1 * 1"}, "2025-06-10T12:00:00Z", "2025-06-09 2025-06-09"}, // the 1st or a Monday
		{[]string{"--schedule", "0 2 1 * 1"}, "2025-06-08T12:00:00Z", "2025-06-02 2025-06-02"},
		{[]string{"--schedule", "0 2 */8 * 1"}, "2025-06-10T12:00:00Z", "2025-06-09 2025-06-09"}, // the 9th and a Monday
		{[]string{"--schedule", "0 2 29 2 *"}, "2025-06-10T12:00:00Z", "2024-02-29 2024-02-29"},
		{[]string{"--schedule", "0 2 * * mon-fri"}, "2025-06-08T12:00:00Z", "2025-06-06 2025-06-06"},
		{[]string{"--schedule", "0 2 * * 7"}, "2025-06-10T12:00:00Z", "2025-06-08 2025-06-08"},
	} {
		args := append([]string{"run", "--job", fmt.Sprint("j", i), "--date", c.at}, c.options...)
		r := h.run(append(args, tellSlot...)...)
		if r.status != 0 || r.stdout != c.want+"\n" || r.stderr != "" {
			t.Errorf("%v at %s: %v, want %s", c.options, c.at, r, c.want)
		}
	}
}
