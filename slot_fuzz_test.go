package main

import (
	"testing"
	"time"
)

// Whatever text is taken for a schedule, in whatever zone and at whatever time, its slots must follow these laws. So
// must those of periods, which stand in for texts that are refused.
func FuzzSchedule(f *testing.F) {
	for i, text := range []string{
		"30 2 * * *", "0,30 1,2 * * *", "*/5 * * * *", "0 0 29 2 *", "0 0 31 * *", "59 23 * * *", "5,* 2 8-14 3 */7", "@hourly",
		"0 6 13 * 5", "0-59 0-23 * * *", "1-59/2 */3 1,*/15 jan-dec MON-fri,7",
	} {
		f.Add(text, uint8(i), int64(1794460200+i*3600), uint16(0))
		f.Add(text, uint8(i+3), int64(1772953200+i*86400), uint16(150))
	}
	f.Fuzz(func(t *testing.T, text string, zone uint8, now int64, start uint16) {
		const from1900, to2200 = -2208988800, 7258118400
		if now < from1900 || now > to2200 {
			return
		}
		l := line{zone: must(parseZone(oddZones[int(zone)%len(oddZones)]))(t)}
		var err error
		if l.schedule, err = parseSchedule(text); err != nil {
			periods := []period{daily, weekly, monthly, hourly, hourly / 60, hourly / 4, 2 * hourly, 6 * hourly, 12 * hourly}
			l.every = periods[int(start)%len(periods)]
			l.dayStart = time.Duration(start%1440) * time.Minute
		}
		checkLaws(t, l, time.Unix(now, 0))
	})
}

func checkLaws(t *testing.T, l line, now time.Time) {
	s, err := l.at(now)
	if err != nil {
		if _, ok := err.(*usageError); !ok || l.schedule == nil {
			t.Fatalf("%s in %s at %s: %v", l, l.zone, utc(now), err)
		}
		return // never due in this zone
	}
	if s.begins.After(now) {
		t.Fatalf("%s in %s at %s: %s begins %s", l, l.zone, utc(now), s.name, utc(s.begins))
	}
	first := s
	for range 6 {
		next, err := l.next(s)
		if err != nil {
			return
		}
		checkPair(t, l, s, next)
		s = next
	}
	between, err := l.between(first, s, 100)
	if err != nil || len(between) != 5 {
		t.Fatalf("%s in %s: between %s and %s: %s, %v", l, l.zone, first.name, s.name, names(between), err)
	}
}

func checkPair(t *testing.T, l line, s, next slot) {
	if !s.tick.precedes(next.tick) || s.name == next.name {
		t.Fatalf("%s in %s: after %s comes %s", l, l.zone, s.name, next.name)
	}
	if s.from.After(s.to) || s.to.After(next.to) || next.from.Before(s.from) {
		t.Fatalf("%s in %s: %s covers %s to %s, %s covers %s to %s", l, l.zone,
			s.name, utc(s.from), utc(s.to), next.name, utc(next.from), utc(next.to))
	}
	if !l.namedByDate() && (!s.from.Equal(s.begins) || !s.to.Equal(next.begins)) {
		t.Fatalf("%s in %s: %s does not reach to %s", l, l.zone, s.name, next.name)
	}
	if named, err := l.named(s.name); err != nil || named != s {
		t.Fatalf("%s in %s: %s is read as %s, begins %s, not %s: %v", l, l.zone, s.name, named.name, utc(named.begins), utc(s.begins), err)
	}
	if s.begins.Equal(next.begins) {
		// Of those made up for at one instant only the last is the one whose time it is.
		if l.byClock() || l.schedule == nil {
			t.Fatalf("%s in %s: %s and %s begin together", l, l.zone, s.name, next.name)
		}
		return
	}
	for _, moment := range []time.Time{s.begins, next.begins.Add(-1)} {
		if now, err := l.at(moment); err != nil || now != s {
			t.Fatalf("%s in %s at %s: %s, not %s: %v", l, l.zone, moment.UTC().Format(time.RFC3339Nano), now.name, s.name, err)
		}
	}
}

// Whatever is taken for a date is a slot that has begun, and says its own name.
func FuzzDate(f *testing.F) {
	for i, date := range []string{
		"2026-11-29", "today", "yesterday", "2026-W48", "2026-11", "2026-11-29T14:05", "2026-11-29T14:05+09:00",
		"2026-11-29T14:05:00.5Z", "2026-02-30", "2020-W53", "2011-12-30", "2026-03-08T02:30", "1971-06-01T00:00-00:44:30",
	} {
		f.Add(date, uint8(i), uint8(i), int64(1795000000))
		f.Add(date, uint8(i+7), uint8(i+5), int64(1795000000))
	}
	lines := []string{"every day", "every week", "every month", "every 15m", "every 6h", "every day from 04:00", "0 2 * * *", "30 1,13 * * *",
		"*/5 * * * *", "0 0 29 2 *", "30 2 * * 0", "0 */6 1 * *"}
	f.Fuzz(func(t *testing.T, date string, which, zone uint8, unix int64) {
		if unix < 0 || unix > 7258118400 {
			return
		}
		l, now := lineOf(t, lines[int(which)%len(lines)], oddZones[int(zone)%len(oddZones)]), time.Unix(unix, 0)
		s, err := l.parse(date, now)
		if err != nil {
			if _, ok := err.(*usageError); !ok {
				t.Fatalf("%s --date %q: %v", l, date, err)
			}
			return
		}
		if s.begins.After(now) || s.begins.Unix() < 0 {
			t.Fatalf("%s --date %q at %s: %s begins %s", l, date, utc(now), s.name, utc(s.begins))
		}
		if again, err := l.parse(s.name, now); err != nil || again != s {
			t.Fatalf("%s in %s --date %q: %s, but that is read as %s: %v", l, l.zone, date, s.name, again.name, err)
		}
		if date != "yesterday" && date != "today" && !isRFC3339(date) && len(date) > 10 && s.name[:16] != date[:16] {
			t.Fatalf("%s --date %q: %s", l, date, s.name)
		}
	})
}
