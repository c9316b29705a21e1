package main

import (
	"errors"
	"testing"
)

func TestDates(t *testing.T) {
	for _, c := range []struct{ line, zone, now, date, name, begins string }{
		{"every day", "Asia/Seoul", "2026-11-29T05:00:00Z", "2026-11-29", "2026-11-29", "2026-11-28T15:00:00Z"},
		{"every day", "Asia/Seoul", "2026-11-29T05:00:00Z", "today", "2026-11-29", "2026-11-28T15:00:00Z"},
		{"every day", "Asia/Seoul", "2026-11-29T05:00:00Z", "yesterday", "2026-11-28", "2026-11-27T15:00:00Z"},
		{"every day", "Asia/Seoul", "2026-11-29T05:00:00Z", "2024-02-29", "2024-02-29", "2024-02-28T15:00:00Z"},
		// A time falls in a slot, in whatever zone it is written; 15:00Z is midnight in Seoul.
		{"every day", "Asia/Seoul", "2026-11-29T05:00:00Z", "2026-11-28T14:59:59.9Z", "2026-11-28", "2026-11-27T15:00:00Z"},
		{"every day", "Asia/Seoul", "2026-11-29T05:00:00Z", "2026-11-28T10:00:00-05:00", "2026-11-29", "2026-11-28T15:00:00Z"},
		// Later today is today's slot, which has begun.
		{"every day", "Asia/Seoul", "2026-11-29T05:00:00Z", "2026-11-29T23:00:00+09:00", "2026-11-29", "2026-11-28T15:00:00Z"},
		{"0 2 * * *", "Asia/Seoul", "2026-11-29T05:00:00Z", "2026-11-29T01:00:00+09:00", "2026-11-28", "2026-11-27T17:00:00Z"},
		// Yesterday is the calendar's: at 23:30 on the day after the day of 25 hours, 24 hours ago is today still.
		{"every day", "America/New_York", "2026-11-02T04:30:00Z", "yesterday", "2026-10-31", "2026-10-31T04:00:00Z"},
		{"every day", "America/New_York", "2026-03-09T04:30:00Z", "yesterday", "2026-03-08", "2026-03-08T05:00:00Z"},
		{"every day", "Africa/Cairo", "2026-04-24T12:00:00Z", "today", "2026-04-24", "2026-04-23T22:00:00Z"},
		{"every day", "Africa/Cairo", "2026-04-25T12:00:00Z", "yesterday", "2026-04-24", "2026-04-23T22:00:00Z"},
		{"every day", "Pacific/Apia", "2011-12-30T12:00:00Z", "yesterday", "2011-12-29", "2011-12-29T10:00:00Z"},
		{"every day from 04:00", "Asia/Seoul", "2026-11-29T05:00:00Z", "2026-11-28", "2026-11-28", "2026-11-27T19:00:00Z"},
		// A week or a month is named, or any of its days is.
		{"every week", "UTC", "2026-11-29T05:00:00Z", "2026-W48", "2026-W48", "2026-11-23T00:00:00Z"},
		{"every week", "UTC", "2026-11-29T05:00:00Z", "today", "2026-W48", "2026-11-23T00:00:00Z"},
		{"every week", "UTC", "2027-11-29T05:00:00Z", "2027-01-03", "2026-W53", "2026-12-28T00:00:00Z"},
		{"every week", "UTC", "2026-11-29T05:00:00Z", "2025-W01", "2025-W01", "2024-12-30T00:00:00Z"},
		{"every week from 04:00", "UTC", "2026-11-29T05:00:00Z", "2026-11-23", "2026-W48", "2026-11-23T04:00:00Z"},
		{"every month", "UTC", "2026-11-29T05:00:00Z", "2026-02", "2026-02", "2026-02-01T00:00:00Z"},
		{"every month", "UTC", "2026-11-29T05:00:00Z", "2026-02-28", "2026-02", "2026-02-01T00:00:00Z"},
		// A schedule's day is its slot; a list's needs the time, and then no offset is needed.
		{"0 2 * * 1", "UTC", "2026-11-29T05:00:00Z", "2026-11-23", "2026-11-23", "2026-11-23T02:00:00Z"},
		{"30 1,13 * * *", "UTC", "2026-11-29T05:00:00Z", "2026-11-28T13:30", "2026-11-28T13:30", "2026-11-28T13:30:00Z"},
		{"30 1,13 * * *", "Asia/Seoul", "2026-11-29T05:00:00Z", "2026-11-29T13:30+09:00", "2026-11-29T13:30", "2026-11-29T04:30:00Z"},
		{"30 1,13 * * *", "America/New_York", "2026-11-29T05:00:00Z", "2026-11-01T01:30-05:00", "2026-11-01T01:30", "2026-11-01T05:30:00Z"},
		{"30 2,13 * * *", "America/New_York", "2026-11-29T05:00:00Z", "2026-03-08T02:30-05:00", "2026-03-08T02:30", "2026-03-08T07:00:00Z"},
		{"*/5 * * * *", "Asia/Seoul", "2026-11-29T06:00:00Z", "2026-11-29T14:05+09:00", "2026-11-29T14:05+09:00", "2026-11-29T05:05:00Z"},
		{"*/5 * * * *", "Asia/Seoul", "2026-11-29T06:00:00Z", "2026-11-29T14:05", "2026-11-29T14:05+09:00", "2026-11-29T05:05:00Z"},
		{"every 15m", "UTC", "2026-11-29T06:00:00Z", "2026-11-29T05:45Z", "2026-11-29T05:45+00:00", "2026-11-29T05:45:00Z"},
		{"every 15m", "UTC", "2026-11-29T06:00:00Z", "2026-11-29T05:47:12Z", "2026-11-29T05:45+00:00", "2026-11-29T05:45:00Z"},
		// 01:30 twice: without offset the latest that has begun.
		{"every 15m", "America/New_York", "2026-11-01T06:00:00Z", "2026-11-01T01:30", "2026-11-01T01:30-04:00", "2026-11-01T05:30:00Z"},
		{"every 15m", "America/New_York", "2026-11-01T07:00:00Z", "2026-11-01T01:30", "2026-11-01T01:30-05:00", "2026-11-01T06:30:00Z"},
		{"every 15m", "America/New_York", "2026-11-01T07:00:00Z", "2026-11-01T01:30-04:00", "2026-11-01T01:30-04:00", "2026-11-01T05:30:00Z"},
		// The slot that began in what was skipped, by its label with or without the offset from before.
		{"every hour", "Australia/Lord_Howe", "2026-11-01T07:00:00Z", "2026-10-04T02:00", "2026-10-04T02:00+10:30", "2026-10-03T15:30:00Z"},
		{"every hour", "Australia/Lord_Howe", "2026-11-01T07:00:00Z", "2026-10-04T02:00+10:30", "2026-10-04T02:00+10:30", "2026-10-03T15:30:00Z"},
		{"0 */6 1 * *", "UTC", "2026-11-29T06:00:00Z", "2026-11-01T06:00", "2026-11-01T06:00+00:00", "2026-11-01T06:00:00Z"},
		// By "*" but with one slot that day: it can only be that one.
		{"*/60 3 * * *", "UTC", "2026-11-29T06:00:00Z", "2026-11-28", "2026-11-28T03:00+00:00", "2026-11-28T03:00:00Z"},
	} {
		l := lineOf(t, c.line, c.zone)
		s, err := l.parse(c.date, instantOf(t, c.now))
		if err != nil || s.name != c.name || utc(s.begins) != c.begins {
			t.Errorf("%s in %s at %s --date %s:\n got %s, begins %s, %v\nwant %s, begins %s",
				c.line, c.zone, c.now, c.date, s.name, utc(s.begins), complaint(err), c.name, c.begins)
		}
	}
}

func TestDatesRefused(t *testing.T) {
	const now = "2026-11-29T05:07:00Z"
	const notADate = "not a date / 2026-11-29, today, yesterday, 2026-11-29T14:05:00+09:00, or a slot's name"
	const aTime = " / 2026-11-29T14:05 or 2026-11-29T14:05:00+09:00"
	const daily = "a job that runs every day has no such slot / name one: "
	for _, c := range []struct{ line, zone, date, want string }{
		// SH-17.
		{"every day", "UTC", "2023-02-29", "there is no such day"},
		{"every day", "UTC", "2026-02-30", "there is no such day"},
		{"every day", "UTC", "2026-13-01", "there is no such day"},
		{"every day", "UTC", "2026-00-10", "there is no such day"},
		{"every day", "UTC", "2026-2-3", notADate},
		{"every day", "UTC", "20260203", notADate},
		{"every day", "UTC", " 2026-02-03", notADate},
		{"every day", "UTC", "2026-02-03 ", notADate},
		{"every day", "UTC", "2026-02-03T00:00", daily + "2026-02-03"},
		{"every day", "UTC", "2026-02-03T00:00+00:00", daily + "2026-02-03"},
		{"every day", "UTC", "", notADate},
		{"every day", "UTC", "tomorrow", notADate},
		{"every day", "UTC", "Today", notADate},
		{"every day", "UTC", "2026-02-03T24:00:00Z", "there is no such time"},
		{"every day", "UTC", "2026-02-30T12:00:00Z", "there is no such time"},
		{"every day", "UTC", "2026-02-03T05:00:00,5Z", "not a UTC offset: :00,5Z" + aTime},
		{"every day", "UTC", "2026-02-03T05:00:00.Z", "not a UTC offset: :00.Z" + aTime},
		{"every day", "UTC", "2026-02-03T05:00:00.5.5Z", "not a UTC offset: :00.5.5Z" + aTime},
		{"every day", "UTC", "2026-02-03T05:00:00+24:00", "not a UTC offset: :00+24:00" + aTime},
		{"every day", "UTC", "2026-02-03T05:00:00+09:60", "not a UTC offset: :00+09:60" + aTime},
		{"every day", "UTC", "2026-02-03T05:00:00+9:00", "not a UTC offset: :00+9:00" + aTime},
		{"every day", "UTC", "2026-02-03t05:00:00z", notADate},
		{"every day", "UTC", "2026-02-03T5:00:00Z", notADate},
		{"every day", "UTC", "2026-02-03 05:00:00Z", notADate},
		{"every day", "UTC", "2026-02-03T05:00:00", "not a UTC offset: :00" + aTime},
		{"every day", "UTC", "٢٠٢٦-02-03", notADate},
		{"every day", "UTC", "2026-W05", daily + "2026-01-26"},
		{"every day", "UTC", "2026-02", daily + "2026-02-01"},
		{"0 2 * * *", "UTC", "2026-02-03T02:00", "a job that runs at '0 2 * * *' has no such slot / name one: 2026-02-03"},
		// A slot still to come, which a typing error must not use up.
		{"every day", "UTC", "2026-11-30", "begins only at 2026-11-30 00:00"},
		{"every day", "UTC", "2027-11-29", "begins only at 2027-11-29 00:00"},
		{"every day", "UTC", "2026-11-30T00:00:00Z", "begins only at 2026-11-30 00:00"},
		{"every day from 06:00", "UTC", "today", "begins only at 2026-11-29 06:00"},
		{"0 6 * * *", "UTC", "2026-11-29", "begins only at 2026-11-29 06:00"},
		{"every week", "UTC", "2026-W49", "begins only at 2026-11-30 00:00"},
		{"every month", "UTC", "2026-12", "begins only at 2026-12-01 00:00"},
		{"every 15m", "UTC", "2026-11-29T05:15", "begins only at 2026-11-29 05:15"},
		{"30 1,13 * * *", "UTC", "2026-11-29T13:30", "begins only at 2026-11-29 13:30"},
		{"every day", "UTC", "0026-11-29", "before 1970"},
		{"every day", "UTC", "0000-01-01", "before 1970"},
		{"every week", "UTC", "2025-W53", "there is no such week"},
		{"every week", "UTC", "2025-W00", "there is no such week"},
		{"every week", "UTC", "2026-w05", notADate},
		{"every month", "UTC", "2026-13", "there is no such month"},
		// A day that is no slot, for it has many or none; a time at which none begins. What may be written is named.
		{"every 5m", "UTC", "2026-11-28", "a job that runs every 5m has many slots that day / name one: 2026-11-28T23:55"},
		{"every 5m", "UTC", "today", "a job that runs every 5m has many slots that day / name one: 2026-11-29T05:05"},
		{"*/5 * * * *", "UTC", "2026-11-28", "a job that runs at '*/5 * * * *' has many slots that day / name one: 2026-11-28T23:55"},
		{"30 1,13 * * *", "UTC", "2026-11-28", "a job that runs at '30 1,13 * * *' has many slots that day / name one: 2026-11-28T13:30"},
		{"0 2 * * 1", "UTC", "2026-11-28", "a job that runs at '0 2 * * 1' has no slot that day / the one before: 2026-11-23"},
		{"every 15m", "UTC", "2026-11-29T05:07", "a job that runs every 15m has no such slot / name one: 2026-11-29T05:00+00:00"},
		{"every 15m", "UTC", "2026-11-29T05:00+09:00", "a job that runs every 15m has no such slot / name one: 2026-11-29T05:00+00:00"},
		{"every 15m", "UTC", "2026-11-29T25:00", "there is no such time"},
		{"every 15m", "UTC", "2026-11-29T05:00x", "not a UTC offset: x" + aTime},
		{"every 15m", "UTC", "2026-11-29T05:00x00:00", "not a UTC offset: x00:00" + aTime},
		{"30 1,13 * * *", "UTC", "2026-11-28T13:30+09:00",
			"a job that runs at '30 1,13 * * *' has no such slot / name one: 2026-11-28T13:30"},
		{"30 1,13 * * *", "UTC", "2026-11-28T13:31",
			"a job that runs at '30 1,13 * * *' has no such slot / name one: 2026-11-28T13:30"},
		// What a clock never shows: a wildcard's tick in the skipped hour, a day that was left out.
		{"*/5 * * * *", "America/New_York", "2026-03-08T02:30",
			"a job that runs at '*/5 * * * *' has no such slot / name one: 2026-03-08T03:00-04:00"},
		{"every 15m", "America/New_York", "2026-03-08T02:30",
			"a job that runs every 15m has no such slot / name one: 2026-03-08T03:00-04:00"},
		{"every day", "Pacific/Apia", "2011-12-30", "there is no such day in Pacific/Apia"},
		{"every day from 04:00", "Pacific/Apia", "2011-12-30", "there is no such day in Pacific/Apia"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-30", "there is no such day in Pacific/Apia"},
	} {
		want := `--date "` + c.date + `": ` + c.want
		if s, err := lineOf(t, c.line, c.zone).parse(c.date, instantOf(t, now)); complaint(err) != want {
			t.Errorf("%s in %s:\n got %s %s\nwant %s", c.line, c.zone, s.name, complaint(err), want)
		}
	}
}

func TestNamesInTheLedger(t *testing.T) {
	l := lineOf(t, "every 15m", "America/New_York")
	if s := must(l.named("2199-11-01T01:30-04:00"))(t); s.name != "2199-11-01T01:30-04:00" {
		t.Error(s.name)
	}
	for _, name := range []string{"2026-11-01", "2026-11-01T01:30", "2026-11-01T05:30:00Z", "today", "2026-W48", "2026-11-01T01:31-04:00"} {
		if s, err := l.named(name); err == nil {
			t.Errorf("%s is taken for %s", name, s.name)
		} else if errors.Unwrap(err) != nil {
			t.Error(err)
		}
	}
}
