package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Cases of real users about dates: those on which arithmetic breaks, and those that are none.

func dayLine(t *testing.T, zone string) line {
	t.Helper()
	z, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return line{every: daily, zone: z}
}

func instant(t *testing.T, rfc3339 string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, rfc3339)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// SH-16: the days on which date arithmetic breaks. The ISO year of the last three is not the calendar's.
func TestCaseLeapDayMonthEndYearEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, now, today, yesterday string }{
		{"UTC", "2024-02-29T12:00:00Z", "2024-02-29", "2024-02-28"},
		{"UTC", "2024-03-01T00:00:00Z", "2024-03-01", "2024-02-29"},
		{"UTC", "2026-02-28T23:59:59Z", "2026-02-28", "2026-02-27"},
		{"UTC", "2026-03-01T00:00:00Z", "2026-03-01", "2026-02-28"},
		{"UTC", "2100-03-01T00:00:00Z", "2100-03-01", "2100-02-28"}, // no leap year
		{"UTC", "2000-03-01T00:00:00Z", "2000-03-01", "2000-02-29"}, // one
		{"UTC", "2026-12-31T23:30:00Z", "2026-12-31", "2026-12-30"},
		{"UTC", "2027-01-01T00:00:00Z", "2027-01-01", "2026-12-31"},
		{"UTC", "2024-12-30T12:00:00Z", "2024-12-30", "2024-12-29"},
		{"UTC", "2029-12-31T12:00:00Z", "2029-12-31", "2029-12-30"},
		{"Asia/Seoul", "2026-12-31T15:00:00Z", "2027-01-01", "2026-12-31"},
		{"Asia/Seoul", "2026-12-31T14:59:59Z", "2026-12-31", "2026-12-30"},
		{"America/St_Johns", "2028-03-01T03:29:59Z", "2028-02-29", "2028-02-28"},
		{"Pacific/Kiritimati", "2026-12-31T10:00:00Z", "2027-01-01", "2026-12-31"},
		// The day of 23 hours, the day of 25, and the days after them: yesterday is the calendar's, not 24 hours ago.
		{"Europe/Berlin", "2026-03-29T22:30:00Z", "2026-03-30", "2026-03-29"},
		{"Europe/Berlin", "2026-10-25T22:30:00Z", "2026-10-25", "2026-10-24"},
		{"Europe/Berlin", "2026-10-25T23:00:00Z", "2026-10-26", "2026-10-25"},
		{"America/New_York", "2026-11-02T04:30:00Z", "2026-11-01", "2026-10-31"},
		{"America/Santiago", "2026-09-06T04:00:00Z", "2026-09-06", "2026-09-05"}, // midnight itself is skipped
		{"Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-29"},     // the 30th never was
	} {
		l, now := dayLine(t, c.zone), instant(t, c.now)
		at, err := l.at(now)
		if err != nil || at.name != c.today || at.date != c.today {
			t.Errorf("%s %s: slot %q, business date %q, %v; want %s", c.zone, c.now, at.name, at.date, err, c.today)
		}
		for word, want := range map[string]string{"today": c.today, "yesterday": c.yesterday, c.now: c.today, c.today: c.today} {
			s, err := l.parse(word, now)
			if err != nil || s.name != want || s.date != want {
				t.Errorf("%s %s: --date %s is slot %q, business date %q, %v; want %s", c.zone, c.now, word, s.name, s.date, err, want)
			}
		}
	}
}

// The last days of months and years, where arithmetic and week years go wrong, have their own names. (SH-16)
func TestLeapDayMonthEndYearEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for at, want := range map[string][3]string{
		"2024-02-29T12:00:00Z": {"2024-02-29 2024-02-29", "2024-W09 2024-02-26", "2024-02 2024-02-01"},
		"2023-02-28T23:59:59Z": {"2023-02-28 2023-02-28", "2023-W09 2023-02-27", "2023-02 2023-02-01"},
		"2020-12-31T23:30:00Z": {"2020-12-31 2020-12-31", "2020-W53 2020-12-28", "2020-12 2020-12-01"},
		"2022-01-01T00:00:00Z": {"2022-01-01 2022-01-01", "2021-W52 2021-12-27", "2022-01 2022-01-01"},
		"2024-12-30T12:00:00Z": {"2024-12-30 2024-12-30", "2025-W01 2024-12-30", "2024-12 2024-12-01"},
	} {
		for i, every := range []string{"day", "week", "month"} {
			h.run(append([]string{"run", "--job", every, "--every", every, "--date", at}, tellSlot...)...).wantOut(t, want[i]+"\n")
		}
		day, _, _ := strings.Cut(want[0], " ")
		if e := entryOf(t, "day", day); e.State != "done" {
			t.Errorf("%s is %s in the ledger", day, e.State)
		}
	}
	// These lie ahead, where no real clock may run yet.
	for at, want := range map[string][2]string{
		"2026-02-28T23:59:59Z": {"2026-02-28", "2026-W09"},
		"2026-12-31T23:30:00Z": {"2026-12-31", "2026-W53"},
		"2027-01-01T00:00:00Z": {"2027-01-01", "2026-W53"},
		"2028-02-29T23:59:59Z": {"2028-02-29", "2028-W09"},
		"2029-12-31T12:00:00Z": {"2029-12-31", "2030-W01"},
	} {
		now, _ := time.Parse(time.RFC3339, at)
		day, err := newCallAt(t, now, nil, "true")
		if err != nil || day.slot.name != want[0] || day.slot.date != want[0] {
			t.Errorf("the day at %s is %v, %v, want %s", at, day.slot, err, want[0])
		}
		week, err := newCallAt(t, now, map[string]string{"every": "week"}, "true")
		if err != nil || week.slot.name != want[1] {
			t.Errorf("the week at %s is %v, %v, want %s", at, week.slot, err, want[1])
		}
	}
}

// SH-16: what the command gets on 29 February is what the ledger says.
func TestCaseLeapDayReachesTheCommand(t *testing.T) {
	t.Parallel()
	web := newHost(t, "web-1", "TZ=Asia/Seoul")
	for _, c := range []struct{ given, day string }{
		{"2024-02-29", "2024-02-29"},
		{"2024-02-28T15:00:00Z", "2024-02-29"}, // already done
		{"2024-02-29T15:00:00Z", "2024-03-01"},
		{"2024-12-30T12:00:00Z", "2024-12-30"},
		{"2024-12-31T15:00:00Z", "2025-01-01"},
	} {
		r := web.run("run", "--job", "close", "--date", c.given, "--", "sh", "-c", `echo $ONCEONLY_SLOT $ONCEONLY_BUSINESS_DATE $ONCEONLY_KEY $TZ`)
		r.want(t, 0, "")
		want := c.day + " " + c.day + " close/" + c.day + " Asia/Seoul\n"
		if c.given == "2024-02-28T15:00:00Z" {
			want = ""
		}
		if r.stdout != want {
			t.Errorf("--date %s: the command saw %q, want %q", c.given, r.stdout, want)
		}
		if e := entryOf(t, "close", c.day); e.State != "done" {
			t.Errorf("entry %s is %q, want done", c.day, e.State)
		}
	}
}

// SH-17: dates that are not dates, or not yet. They are refused, and the reason is a usage error.
func TestCaseDatesThatAreNone(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-11-29T12:00:00Z")
	l := dayLine(t, "UTC")
	for _, date := range append(wrongDates(), "2026-11-30", "2026-11-30T00:00:00Z", "2126-11-29") {
		s, err := l.parse(date, now)
		var u *usageError
		if !errors.As(err, &u) {
			t.Errorf("--date %q is slot %q, error %v; want a usage error", date, s.name, err)
		}
	}
}

// wrongDates are dates that no line of days takes, whatever day it is.
func wrongDates() []string {
	return []string{"2023-02-29", "2100-02-29", "2026-02-30", "2026-04-31", "2026-13-01", "2026-00-10", "2026-01-00", "2026-01-32",
		"2026-2-3", "2026-02-3", "26-02-03", "02026-02-03", "-2026-02-03", "+2026-02-03", "20260203", "2026/02/03", "2026.02.03",
		"03-02-2026", "02/03/2026", "2026-02-03 ", " 2026-02-03", "2026-02-03\n", "2026-02-03\t", "2026-02-03x", "x2026-02-03", "2026-034",
		"２０２６-02-03", "2026‐02‐03", "2026-02-03T00:00", "2026-02-03T00", "2026-02-03T00:00+00:00", "2026-02-03T", "2026-02-03T00:00:00",
		"2026-02-03 00:00:00", "2026-02-03 00:00:00Z", "2026-02-03t00:00:00z", "2026-02-03T24:00:00Z", "2026-02-03T23:60:00Z",
		"2026-02-03T23:59:60Z", "2026-02-30T00:00:00Z", "2026-02-03T0:00:00Z", "2026-02-03T00:00:00+9", "2026-02-03T00:00:00+0900",
		"2026-02-03T00:00:00+24:00", "2026-02-03T00:00:00+23:60", "2026-02-03T00:00:00,5Z", "2026-02", "2026-W05", "2026-W05-2", "2026", "tomorrow", "now", "Today",
		"TODAY", "Yesterday", "today ", "-1", "0", "1", "-1 day", "yesterday-1", "2 days ago", "1795970688", "@1795970688", "null",
		"0000-00-00", "1969-12-31", "9999-12-31", "*", "{date}", "--job"}
}

// SH-17: nothing is run and nothing is written, not one key, for a date that is none; one line and at most a hint.
func TestCaseWrongDateWritesNothing(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	dates := append([]string{"", tomorrow, tomorrow + "T00:00:00Z"}, wrongDates()...)
	for _, date := range dates {
		wantRefused(t, r, 64, web.run("run", "--job", "close", "--date", date, "--", "echo", "ran"), "--date", date)
	}
	wantRefused(t, r, 64, web.run("run", "--job", "close", "--date", "2026-02-30", "--", "echo", "ran"),
		`onceonly: --date "2026-02-30": there is no such day`+"\n")
}
