package main

import (
	"strings"
	"testing"
	"time"
)

// lineOf reads "every 15m", "every day from 04:00" or five fields, as the options would.
func lineOf(t testing.TB, text, zone string) line {
	t.Helper()
	l := line{zone: must(parseZone(zone))(t)}
	words, start, found := strings.Cut(text, " from ")
	if found {
		l.dayStart = must(parseDayStart(start))(t)
	}
	if p, ok := strings.CutPrefix(words, "every "); ok {
		l.every = must(parsePeriod(p))(t)
	} else {
		l.schedule = must(parseSchedule(words))(t)
	}
	return l
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func instantOf(t testing.TB, s string) time.Time {
	t.Helper()
	return must(time.Parse(time.RFC3339Nano, s))(t)
}

func utc(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Every row was worked out by hand from the zone's own rules. A blank line or zone is that of the row above.
var slotsByHand = []struct{ line, zone, now, name, date, begins string }{
	// SH-15. New York goes back at 06:00Z on 1 November 2026: 01:30 is 05:30Z (-04:00) and 06:30Z (-05:00), one slot.
	// Cron fires only at the first, so that is when it begins.
	{"30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-01", "2026-11-01", "2026-11-01T05:30:00Z"},
	{"", "", "2026-11-01T06:30:00Z", "2026-11-01", "2026-11-01", "2026-11-01T05:30:00Z"},
	{"", "", "2026-11-01T05:29:59Z", "2026-10-31", "2026-10-31", "2026-10-31T05:30:00Z"},
	// Between the two showings of 01:30 the clock shows 01:10 again; the slot is not yesterday's for that.
	{"", "", "2026-11-01T06:10:00Z", "2026-11-01", "2026-11-01", "2026-11-01T05:30:00Z"},
	{"every day", "", "2026-11-01T05:30:00Z", "2026-11-01", "2026-11-01", "2026-11-01T04:00:00Z"},
	{"", "", "2026-11-01T06:30:00Z", "2026-11-01", "2026-11-01", "2026-11-01T04:00:00Z"},
	// Forward at 07:00Z on 8 March 2026, 02:00 to 03:00. 02:30 is skipped: due at the jump, which is 07:00Z.
	{"30 2 * * *", "", "2026-03-08T06:59:59Z", "2026-03-07", "2026-03-07", "2026-03-07T07:30:00Z"},
	{"", "", "2026-03-08T07:00:00Z", "2026-03-08", "2026-03-08", "2026-03-08T07:00:00Z"},
	{"", "", "2026-03-08T07:29:00Z", "2026-03-08", "2026-03-08", "2026-03-08T07:00:00Z"},
	{"every day", "", "2026-03-08T06:59:00Z", "2026-03-08", "2026-03-08", "2026-03-08T05:00:00Z"},
	{"", "", "2026-03-08T07:00:00Z", "2026-03-08", "2026-03-08", "2026-03-08T05:00:00Z"},
	// Of two fixed times in the skipped hour the later is the one whose time it is; the other has begun, too.
	{"0,30 2 * * *", "", "2026-03-08T07:00:00Z", "2026-03-08T02:30", "2026-03-08", "2026-03-08T07:00:00Z"},
	// Of two in the repeated hour the later goes on through the repetition, as cron's own count does.
	{"0,30 1 * * *", "", "2026-11-01T06:10:00Z", "2026-11-01T01:30", "2026-11-01", "2026-11-01T05:30:00Z"},
	// A wildcard line: each showing its own, none in the skipped hour (01:45-05:00 is 06:45Z, 03:00-04:00 is 07:00Z).
	{"*/15 * * * *", "", "2026-11-01T05:31:00Z", "2026-11-01T01:30-04:00", "2026-11-01", "2026-11-01T05:30:00Z"},
	{"", "", "2026-11-01T06:31:00Z", "2026-11-01T01:30-05:00", "2026-11-01", "2026-11-01T06:30:00Z"},
	{"", "", "2026-03-08T06:59:59Z", "2026-03-08T01:45-05:00", "2026-03-08", "2026-03-08T06:45:00Z"},
	{"", "", "2026-03-08T07:00:00Z", "2026-03-08T03:00-04:00", "2026-03-08", "2026-03-08T07:00:00Z"},
	// "*" in the hour alone is enough, and minute 30 of hour 2 does not exist: until 03:30 the slot is 01:30.
	{"30 * * * *", "", "2026-03-08T07:29:59Z", "2026-03-08T01:30-05:00", "2026-03-08", "2026-03-08T06:30:00Z"},
	{"@hourly", "", "2026-11-01T06:00:00Z", "2026-11-01T01:00-05:00", "2026-11-01", "2026-11-01T06:00:00Z"},
	// 6h counts from midnight by the wall: 06:00-04:00 is 10:00Z in summer, 06:00-05:00 is 11:00Z in winter.
	{"every 6h", "", "2026-07-01T10:00:00Z", "2026-07-01T06:00-04:00", "2026-07-01", "2026-07-01T10:00:00Z"},
	{"", "", "2026-12-01T10:59:59Z", "2026-12-01T00:00-05:00", "2026-12-01", "2026-12-01T05:00:00Z"},
	{"", "", "2026-03-08T09:59:59Z", "2026-03-08T00:00-05:00", "2026-03-08", "2026-03-08T05:00:00Z"},
	// Near midnight: the line of 23:59, started late, is yesterday's. 23:59 EST is 04:59Z.
	{"59 23 * * *", "", "2026-12-02T05:00:20Z", "2026-12-01", "2026-12-01", "2026-12-02T04:59:00Z"},
	// The second Sunday of March at 2 is what New York skips. "*/7" is Sunday, and its star makes both days count.
	{"0 2 8-14 3 */7", "", "2026-03-08T07:00:00Z", "2026-03-08", "2026-03-08", "2026-03-08T07:00:00Z"},

	// SH-15. Berlin goes back at 01:00Z on 25 October 2026: 02:30 is 00:30Z and 01:30Z.
	{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25", "2026-10-25", "2026-10-25T00:30:00Z"},
	{"", "", "2026-10-25T01:30:00Z", "2026-10-25", "2026-10-25", "2026-10-25T00:30:00Z"},
	{"every hour", "", "2026-10-25T00:59:59Z", "2026-10-25T02:00+02:00", "2026-10-25", "2026-10-25T00:00:00Z"},
	{"", "", "2026-10-25T01:00:00Z", "2026-10-25T02:00+01:00", "2026-10-25", "2026-10-25T01:00:00Z"},
	{"every day", "", "2026-10-25T23:30:00Z", "2026-10-26", "2026-10-26", "2026-10-25T23:00:00Z"},

	// London goes forward at 01:00Z on 29 March 2026, 01:00 to 02:00.
	{"30 1,13 * * *", "Europe/London", "2026-03-29T01:00:00Z", "2026-03-29T01:30", "2026-03-29", "2026-03-29T01:00:00Z"},
	{"", "", "2026-11-29T13:30:00Z", "2026-11-29T13:30", "2026-11-29", "2026-11-29T13:30:00Z"},
	{"", "", "2026-11-29T01:29:59Z", "2026-11-28T13:30", "2026-11-28", "2026-11-28T13:30:00Z"},

	// Lord Howe's summer time is half an hour. Forward on 4 October 2026 at 15:30Z (3rd), 02:00+10:30 to 02:30+11:00.
	// The hour from 2 begins in what is skipped: its label is 02:00 with the offset from before the jump.
	{"every hour", "Australia/Lord_Howe", "2026-10-03T15:29:59Z", "2026-10-04T01:00+10:30", "2026-10-04", "2026-10-03T14:30:00Z"},
	{"", "", "2026-10-03T15:30:00Z", "2026-10-04T02:00+10:30", "2026-10-04", "2026-10-03T15:30:00Z"},
	{"", "", "2026-10-03T16:00:00Z", "2026-10-04T03:00+11:00", "2026-10-04", "2026-10-03T16:00:00Z"},
	// 15m finds 02:30+11:00 at the jump itself; 02:00 and 02:15 are never anybody's time.
	{"every 15m", "", "2026-10-03T15:30:00Z", "2026-10-04T02:30+11:00", "2026-10-04", "2026-10-03T15:30:00Z"},
	{"15 2 * * *", "", "2026-10-03T15:30:00Z", "2026-10-04", "2026-10-04", "2026-10-03T15:30:00Z"},
	{"0 * * * *", "", "2026-10-03T15:59:59Z", "2026-10-04T01:00+10:30", "2026-10-04", "2026-10-03T14:30:00Z"},
	// Back on 5 April 2026 at 15:00Z (4th), 02:00+11:00 to 01:30+10:30: only 01:30 to 01:59 repeat.
	{"30 1 * * *", "", "2026-04-04T15:10:00Z", "2026-04-05", "2026-04-05", "2026-04-04T14:30:00Z"},
	{"every 30m", "", "2026-04-04T15:10:00Z", "2026-04-05T01:30+10:30", "2026-04-05", "2026-04-04T15:00:00Z"},
	{"every hour", "", "2026-04-04T15:10:00Z", "2026-04-05T01:00+11:00", "2026-04-05", "2026-04-04T14:00:00Z"},

	// Kathmandu is +05:45: midnight is 18:15Z.
	{"every day", "Asia/Kathmandu", "2026-11-28T18:14:59Z", "2026-11-28", "2026-11-28", "2026-11-27T18:15:00Z"},
	{"", "", "2026-11-28T18:15:00Z", "2026-11-29", "2026-11-29", "2026-11-28T18:15:00Z"},
	{"every 15m", "", "2026-11-28T18:20:00Z", "2026-11-29T00:00+05:45", "2026-11-29", "2026-11-28T18:15:00Z"},
	{"every hour", "", "2026-11-28T18:14:59Z", "2026-11-28T23:00+05:45", "2026-11-28", "2026-11-28T17:15:00Z"},

	// Apia left out 30 December 2011: at 10:00Z 29 December 24:00 (-10:00) became 31 December 00:00 (+14:00).
	{"every day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29", "2011-12-29", "2011-12-29T10:00:00Z"},
	{"", "", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-31", "2011-12-30T10:00:00Z"},
	{"every day from 04:00", "", "2011-12-30T13:59:59Z", "2011-12-29", "2011-12-29", "2011-12-29T14:00:00Z"},
	{"", "", "2011-12-30T14:00:00Z", "2011-12-31", "2011-12-31", "2011-12-30T14:00:00Z"},
	// For cron that is a clock that was set: nothing is made up for. 12:00 on the 29th is 22:00Z.
	{"0 12 * * *", "", "2011-12-30T10:00:00Z", "2011-12-29", "2011-12-29", "2011-12-29T22:00:00Z"},
	{"every 12h", "", "2011-12-30T10:00:00Z", "2011-12-31T00:00+14:00", "2011-12-31", "2011-12-30T10:00:00Z"},
	// 26 December 2011 was a Monday, and its week is the last of the year in spite of the missing day.
	{"every week", "", "2011-12-31T09:59:59Z", "2011-W52", "2011-12-26", "2011-12-26T10:00:00Z"},

	// Cairo has no midnight on 24 April 2026: 24:00 of the 23rd (+02:00, 22:00Z) is 01:00 of the 24th.
	{"every day", "Africa/Cairo", "2026-04-23T21:59:59Z", "2026-04-23", "2026-04-23", "2026-04-22T22:00:00Z"},
	{"", "", "2026-04-23T22:00:00Z", "2026-04-24", "2026-04-24", "2026-04-23T22:00:00Z"},
	{"0 0 * * *", "", "2026-04-23T22:00:00Z", "2026-04-24", "2026-04-24", "2026-04-23T22:00:00Z"},
	{"every 6h", "", "2026-04-23T22:00:00Z", "2026-04-24T00:00+02:00", "2026-04-24", "2026-04-23T22:00:00Z"},
	{"every hour", "", "2026-04-23T22:00:00Z", "2026-04-24T01:00+03:00", "2026-04-24", "2026-04-23T22:00:00Z"},
	// In autumn 24:00 of 29 October 2026 (+03:00, 21:00Z) is 23:00 again: the day is longer, its last hour twice.
	{"every day", "", "2026-10-29T21:30:00Z", "2026-10-29", "2026-10-29", "2026-10-28T21:00:00Z"},
	{"", "", "2026-10-29T22:00:00Z", "2026-10-30", "2026-10-30", "2026-10-29T22:00:00Z"},
	{"30 23 * * *", "", "2026-10-29T21:40:00Z", "2026-10-29", "2026-10-29", "2026-10-29T20:30:00Z"},
	{"every hour", "", "2026-10-29T21:40:00Z", "2026-10-29T23:00+02:00", "2026-10-29", "2026-10-29T21:00:00Z"},

	// Asuncion (before 2024) and Sao Paulo (before 2019) skipped midnight, too; Havana repeats it: 00:30 is 04:30Z and 05:30Z.
	{"every day", "America/Asuncion", "2023-10-01T04:00:00Z", "2023-10-01", "2023-10-01", "2023-10-01T04:00:00Z"},
	{"5 0 * * *", "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04", "2018-11-04", "2018-11-04T03:00:00Z"},
	{"every day", "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01", "2026-11-01", "2026-11-01T04:00:00Z"},
	{"every 12h", "", "2026-11-01T05:30:00Z", "2026-11-01T00:00-05:00", "2026-11-01", "2026-11-01T05:00:00Z"},
	// St John's went back one minute after midnight, into the day before. The day that had begun goes on.
	{"every day", "America/St_Johns", "2008-11-02T03:00:00Z", "2008-11-02", "2008-11-02", "2008-11-02T02:30:00Z"},
	{"every hour", "", "2008-11-02T02:31:00Z", "2008-11-02T00:00-02:30", "2008-11-02", "2008-11-02T02:30:00Z"},

	// Seoul has no summer time. Midnight is 15:00Z.
	{"every day", "Asia/Seoul", "2026-11-28T17:00:01Z", "2026-11-29", "2026-11-29", "2026-11-28T15:00:00Z"},
	{"every 15m", "", "2026-11-29T05:14:59Z", "2026-11-29T14:00+09:00", "2026-11-29", "2026-11-29T05:00:00Z"},
	// SH-19. Clock set back over midnight: the day before, which is done.
	{"every day", "", "2026-11-28T15:00:05Z", "2026-11-29", "2026-11-29", "2026-11-28T15:00:00Z"},
	{"", "", "2026-11-28T14:59:58Z", "2026-11-28", "2026-11-28", "2026-11-27T15:00:00Z"},
	// A business day from 04:00 (19:00Z) is named by the day on which it begins; weeks from Monday 04:00.
	{"every day from 04:00", "", "2026-11-28T18:59:59Z", "2026-11-28", "2026-11-28", "2026-11-27T19:00:00Z"},
	{"", "", "2026-11-28T19:00:00Z", "2026-11-29", "2026-11-29", "2026-11-28T19:00:00Z"},
	{"every week from 04:00", "", "2026-11-29T18:59:59Z", "2026-W48", "2026-11-23", "2026-11-22T19:00:00Z"},
	{"every month from 04:00", "", "2026-11-30T18:59:59Z", "2026-11", "2026-11-01", "2026-10-31T19:00:00Z"},
	{"every 6h from 04:00", "", "2026-11-28T18:59:59Z", "2026-11-29T00:00+09:00", "2026-11-29", "2026-11-28T15:00:00Z"},

	// SH-16.
	{"every day", "UTC", "2024-02-29T12:00:00Z", "2024-02-29", "2024-02-29", "2024-02-29T00:00:00Z"},
	{"", "", "2026-02-28T23:59:59Z", "2026-02-28", "2026-02-28", "2026-02-28T00:00:00Z"},
	{"", "", "2026-12-31T23:30:00Z", "2026-12-31", "2026-12-31", "2026-12-31T00:00:00Z"},
	{"", "", "2027-01-01T00:00:00Z", "2027-01-01", "2027-01-01", "2027-01-01T00:00:00Z"},
	{"", "", "2024-12-30T12:00:00Z", "2024-12-30", "2024-12-30", "2024-12-30T00:00:00Z"},
	{"", "", "2029-12-31T12:00:00Z", "2029-12-31", "2029-12-31", "2029-12-31T00:00:00Z"},
	{"every week", "", "2027-01-01T00:00:00Z", "2026-W53", "2026-12-28", "2026-12-28T00:00:00Z"},
	{"", "", "2024-12-30T12:00:00Z", "2025-W01", "2024-12-30", "2024-12-30T00:00:00Z"},
	{"", "", "2029-12-31T12:00:00Z", "2030-W01", "2029-12-31", "2029-12-31T00:00:00Z"},
	{"every month", "", "2024-02-29T23:59:59Z", "2024-02", "2024-02-01", "2024-02-01T00:00:00Z"},
	{"0 0 29 2 *", "", "2026-06-01T00:00:00Z", "2024-02-29", "2024-02-29", "2024-02-29T00:00:00Z"},
	{"", "", "2104-02-28T23:59:59Z", "2096-02-29", "2096-02-29", "2096-02-29T00:00:00Z"}, // 2100 is no leap year
	{"0 0 31 * *", "", "2026-07-30T00:00:00Z", "2026-05-31", "2026-05-31", "2026-05-31T00:00:00Z"},
	{"@weekly", "", "2026-11-28T23:59:59Z", "2026-11-22", "2026-11-22", "2026-11-22T00:00:00Z"},
	{"@monthly", "", "2026-11-28T23:59:59Z", "2026-11-01", "2026-11-01", "2026-11-01T00:00:00Z"},
	{"*/5 * * * *", "", "2026-11-28T23:59:59.999Z", "2026-11-28T23:55+00:00", "2026-11-28", "2026-11-28T23:55:00Z"},
	// The 13th, and every Friday: either is enough. 13 November 2026 is a Friday, the 20th also.
	{"0 6 13 * 5", "", "2026-12-13T06:00:00Z", "2026-12-13", "2026-12-13", "2026-12-13T06:00:00Z"},
	{"", "", "2026-11-25T00:00:00Z", "2026-11-20", "2026-11-20", "2026-11-20T06:00:00Z"},
	// "*/2" begins with "*": both must hold. Odd days that are Fridays: 13 and 27 November, not the 20th.
	{"0 6 */2 * 5", "", "2026-11-25T00:00:00Z", "2026-11-13", "2026-11-13", "2026-11-13T06:00:00Z"},

	// Before 7 January 1972 Monrovia was 44 minutes and 30 seconds behind: midnight was 00:44:30Z.
	{"every day", "Africa/Monrovia", "1971-06-01T00:44:29Z", "1971-05-31", "1971-05-31", "1971-05-31T00:44:30Z"},
	{"every hour", "", "1971-06-01T00:44:30Z", "1971-06-01T00:00-00:44:30", "1971-06-01", "1971-06-01T00:44:30Z"},
	// The year 2040 is beyond the zone's table, and 31 December of a leap year is where package time errs.
	{"30 2 * * *", "America/New_York", "2040-12-31T12:00:00Z", "2040-12-31", "2040-12-31", "2040-12-31T07:30:00Z"},
	{"*/5 * * * *", "", "2040-12-31T12:04:00Z", "2040-12-31T07:00-05:00", "2040-12-31", "2040-12-31T12:00:00Z"},
	{"*/5 9 31 * *", "", "2040-12-31T13:00:00Z", "2040-10-31T09:55-04:00", "2040-10-31", "2040-10-31T13:55:00Z"},
	{"every week", "", "2040-12-31T12:04:00Z", "2041-W01", "2040-12-31", "2040-12-31T05:00:00Z"},
}

func TestSlotsWorkedOutByHand(t *testing.T) {
	text, zone := "", ""
	for _, c := range slotsByHand {
		if c.line != "" {
			text = c.line
		}
		if c.zone != "" {
			zone = c.zone
		}
		s, err := lineOf(t, text, zone).at(instantOf(t, c.now))
		if err != nil {
			t.Errorf("%s in %s at %s: %v", text, zone, c.now, err)
			continue
		}
		if s.name != c.name || s.date != c.date || utc(s.begins) != c.begins {
			t.Errorf("%s in %s at %s:\n got %s, %s, begins %s\nwant %s, %s, begins %s",
				text, zone, c.now, s.name, s.date, utc(s.begins), c.name, c.date, c.begins)
		}
	}
}

func TestNextSlots(t *testing.T) {
	for _, c := range []struct{ line, zone, from, next string }{
		// Both of the skipped hour begin at the jump, 07:00Z, and then 03:00 of the next day is long off.
		{"0,30 2 * * *", "America/New_York", "2026-03-08T06:00:00Z", "2026-03-08T02:00 2026-03-08T02:30 2026-03-09T02:00"},
		// At 03:00, the jump itself, a third.
		{"0 2,3 * * *", "America/New_York", "2026-03-08T06:00:00Z", "2026-03-08T02:00 2026-03-08T03:00 2026-03-09T02:00"},
		{"*/30 * * * *", "America/New_York", "2026-03-08T06:30:00Z", "2026-03-08T03:00-04:00 2026-03-08T03:30-04:00"},
		{"*/30 * * * *", "America/New_York", "2026-11-01T05:00:00Z",
			"2026-11-01T01:30-04:00 2026-11-01T01:00-05:00 2026-11-01T01:30-05:00 2026-11-01T02:00-05:00"},
		{"every hour", "Australia/Lord_Howe", "2026-10-03T14:30:00Z", "2026-10-04T02:00+10:30 2026-10-04T03:00+11:00"},
		{"every day", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-31 2012-01-01"},
		{"every month", "UTC", "2024-01-31T12:00:00Z", "2024-02 2024-03 2024-04"},
		{"every week", "UTC", "2026-12-21T12:00:00Z", "2026-W53 2027-W01"},
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "2104-02-29 2108-02-29"},
		{"59 23 * * *", "Europe/Berlin", "2026-12-31T22:59:00Z", "2027-01-01"},
	} {
		l := lineOf(t, c.line, c.zone)
		s := must(l.at(instantOf(t, c.from)))(t)
		var names []string
		for range strings.Fields(c.next) {
			s = must(l.next(s))(t)
			names = append(names, s.name)
		}
		if got := strings.Join(names, " "); got != c.next {
			t.Errorf("%s in %s from %s:\n got %s\nwant %s", c.line, c.zone, c.from, got, c.next)
		}
	}
}

func TestWhatASlotCovers(t *testing.T) {
	for _, c := range []struct{ line, zone, now, from, to string }{
		{"every day", "Asia/Seoul", "2026-11-29T00:00:00Z", "2026-11-28T15:00:00Z", "2026-11-29T15:00:00Z"},
		// The day's start moves when it begins, not what it covers; nor does a schedule's time of day.
		{"every day from 04:00", "Asia/Seoul", "2026-11-29T00:00:00Z", "2026-11-28T15:00:00Z", "2026-11-29T15:00:00Z"},
		{"0 2 * * *", "Asia/Seoul", "2026-11-29T00:00:00Z", "2026-11-28T15:00:00Z", "2026-11-29T15:00:00Z"},
		{"every week", "UTC", "2026-11-29T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"every month", "UTC", "2026-02-10T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"every day", "Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"},
		{"every day", "America/New_York", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"30 1,13 * * *", "UTC", "2026-11-29T14:00:00Z", "2026-11-29T13:30:00Z", "2026-11-30T01:30:00Z"},
		{"*/15 * * * *", "America/New_York", "2026-03-08T06:50:00Z", "2026-03-08T06:45:00Z", "2026-03-08T07:00:00Z"},
	} {
		s := must(lineOf(t, c.line, c.zone).at(instantOf(t, c.now)))(t)
		if utc(s.from) != c.from || utc(s.to) != c.to {
			t.Errorf("%s in %s at %s: covers %s to %s, want %s to %s", c.line, c.zone, c.now, utc(s.from), utc(s.to), c.from, c.to)
		}
	}
}

func TestBetween(t *testing.T) {
	l := lineOf(t, "0 2 * * *", "America/New_York")
	// SH-66: done on 7 March, then away for two nights, one of which has no 02:00.
	after, before := must(l.named("2026-03-06"))(t), must(l.named("2026-03-10"))(t)
	if got := names(must(l.between(after, before, 100))(t)); got != "2026-03-07 2026-03-08 2026-03-09" {
		t.Error(got)
	}
	if got := names(must(l.between(after, before, 2))(t)); got != "2026-03-08 2026-03-09" {
		t.Error("the newest two:", got)
	}
	if got := names(must(l.between(before, after, 100))(t)); got != "" {
		t.Error("backwards:", got)
	}
	if got := names(must(l.between(after, after, 100))(t)); got != "" {
		t.Error("of itself:", got)
	}
	jump := lineOf(t, "0,30 2,3 * * *", "America/New_York")
	after, before = must(jump.named("2026-03-07T03:30"))(t), must(jump.named("2026-03-08T03:30"))(t)
	if got := names(must(jump.between(after, before, 100))(t)); got != "2026-03-08T02:00 2026-03-08T02:30 2026-03-08T03:00" {
		t.Error("made up for at one instant:", got)
	}
	after = must(jump.named("2026-03-08T02:00"))(t)
	if got := names(must(jump.between(after, before, 100))(t)); got != "2026-03-08T02:30 2026-03-08T03:00" {
		t.Error("made up for at one instant, but the first of them:", got)
	}
}

func TestBetweenIsCheapOverYears(t *testing.T) {
	l := lineOf(t, "*/1 * * * *", "Europe/Berlin")
	after := must(l.at(instantOf(t, "1999-01-01T00:00:00Z")))(t)
	before := must(l.at(instantOf(t, "2026-01-01T00:00:00Z")))(t)
	start := time.Now()
	slots := must(l.between(after, before, 100))(t)
	if took := time.Since(start); len(slots) != 100 || took > 100*time.Millisecond {
		t.Errorf("%d slots in %s", len(slots), took)
	}
}

func names(slots []slot) string {
	var names []string
	for _, s := range slots {
		names = append(names, s.name)
	}
	return strings.Join(names, " ")
}

func TestNeverDueInAZone(t *testing.T) {
	// The second Sunday of March, each minute from 2 to 3: a good line, but since 2007 not in New York.
	l := lineOf(t, "* 2 8-14 3 */7", "America/New_York")
	if s, err := l.at(instantOf(t, "2026-06-01T00:00:00Z")); err == nil || !strings.Contains(err.Error(), "never due in America/New_York") {
		t.Errorf("%v, %v", s, err)
	}
	must(lineOf(t, "* 2 8-14 3 */7", "Asia/Seoul").at(instantOf(t, "2026-06-01T00:00:00Z")))(t)
}

func TestLengths(t *testing.T) {
	for text, want := range map[string]string{
		"every day": "24h0m0s", "every 15m": "15m0s", "every week": "168h0m0s", "every month": "720h0m0s",
		"0 2 * * *": "24h0m0s", "*/5 * * * *": "5m0s", "* * * * *": "1m0s", "0 * * * *": "1h0m0s",
		"*/25 * * * *":  "10m0s", // 0, 25, 50 and the next hour's 0
		"30 1,13 * * *": "12h0m0s", "0 2,3 * * 1": "1h0m0s", "0 0,23 * * *": "1h0m0s", "*/10 4 * * *": "10m0s",
		"0 0 * * 1": "168h0m0s", "0 0 * * 1,3": "48h0m0s", "0 0 29 2 *": "35064h0m0s", "0 0 31 * *": "744h0m0s",
		"*/60 2 * * *": "24h0m0s", "0 0 1 * 0": "24h0m0s",
	} {
		l := lineOf(t, text, "UTC")
		if got := l.length(); got.String() != want || l.long() != (got >= 24*time.Hour) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
