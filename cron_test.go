package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The oracle: a clock is watched minute by minute, and what begins is written down as it happens. It shares nothing
// with the code under test but the zone's tables: no search, no spans, no arithmetic on dates. All times are in minutes.

// A firing is something that began: at an instant, because of a wall time. Offset is the one under which it is named.
type firing struct{ at, wall, offset int64 }

func clockAt(zone *time.Location, minute int64) (wall, offset int64) {
	_, seconds := time.Unix(minute*60, 0).In(zone).Zone()
	return minute + int64(seconds)/60, int64(seconds) / 60
}

// A cronEntry is five fields, each spelled out number by number.
type cronEntry struct {
	minute, hour, day, month, weekday map[int]bool
	anyDay, anyWeekday, wild          bool
}

func spellOut(expr string) cronEntry {
	f := strings.Fields(expr)
	c := cronEntry{
		minute: spellOutField(f[0], 0, 59), hour: spellOutField(f[1], 0, 23), day: spellOutField(f[2], 1, 31),
		month: spellOutField(f[3], 1, 12), weekday: spellOutField(f[4], 0, 7),
		anyDay: f[2][0] == '*', anyWeekday: f[4][0] == '*', wild: f[0][0] == '*' || f[1][0] == '*',
	}
	c.weekday[0] = c.weekday[0] || c.weekday[7]
	return c
}

// spellOutField asks of every number whether one of the list's parts has it.
func spellOutField(list string, low, high int) map[int]bool {
	set := map[int]bool{}
	for n := low; n <= high; n++ {
		for _, part := range strings.Split(list, ",") {
			ends, step, _ := strings.Cut(part, "/")
			from, to := low, high
			if ends != "*" {
				first, last, ranged := strings.Cut(ends, "-")
				from, _ = strconv.Atoi(first)
				if to = from; ranged {
					to, _ = strconv.Atoi(last)
				}
			}
			by, _ := strconv.Atoi(step)
			set[n] = set[n] || n >= from && n <= to && (n-from)%max(by, 1) == 0
		}
	}
	return set
}

func (c cronEntry) matches(wall int64) bool {
	if !c.minute[int((wall%1440+1440)%60)] {
		return false
	}
	t := time.Unix(wall*60, 0).UTC()
	if !c.hour[t.Hour()] || !c.month[int(t.Month())] {
		return false
	}
	day, weekday := c.day[t.Day()], c.weekday[int(t.Weekday())]
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// crond is the wake-up loop of Debian's cron: "virtual" is the wall time up to which all was run. Woken up in a minute
// it finds the clock 1 ahead of that (always, but for changes), up to 5 (late: runs all), up to 180 (summer time: lines
// with "*" for this minute only, the others for each minute that was skipped), not ahead but within 180 (winter time:
// only lines with "*"), or farther off (the clock was set: starts anew).
func crond(expr string, zone *time.Location, from, to int64) []firing {
	c := spellOut(expr)
	var fired []firing
	virtual, _ := clockAt(zone, from-1)
	for at := from; at < to; at++ {
		now, offset := clockAt(zone, at)
		run := func(wall int64, wild, fixed bool) {
			if (c.wild && wild || !c.wild && fixed) && c.matches(wall) {
				fired = append(fired, firing{at, wall, offset})
			}
		}
		switch ahead := now - virtual; {
		case ahead >= 1 && ahead <= 5:
			for virtual < now {
				virtual++
				run(virtual, true, true)
			}
		case ahead > 5 && ahead <= 180:
			run(now, true, false)
			for virtual < now {
				virtual++
				run(virtual, false, true)
			}
		case ahead > -180 && ahead <= 0:
			run(now, true, false)
		default:
			virtual = now
			run(now, true, true)
		}
	}
	return fired
}

// watchPart is a period of some minutes: it begins whenever the clock shows a multiple. When the clock has jumped over
// one, that has begun, unless the clock now shows another.
func watchPart(minutes int64, zone *time.Location, from, to int64) []firing {
	var begun []firing
	shown, before := clockAt(zone, from-1)
	for at := from; at < to; at++ {
		now, offset := clockAt(zone, at)
		if now%minutes == 0 {
			begun = append(begun, firing{at, now, offset})
		} else {
			for skipped := now - 1; skipped > shown; skipped-- {
				if skipped%minutes == 0 {
					begun = append(begun, firing{at, skipped, before})
					break
				}
			}
		}
		shown, before = now, offset
	}
	return begun
}

// watchDays is days, weeks or months from a time of day on: each begins when the clock first shows, or has jumped over,
// a wall time; unless the clock never shows one of its days at all.
func watchDays(starts func(wall int64) (days int64, ok bool), dayStart int64, zone *time.Location, from, to int64) []firing {
	var begun []firing
	seen := map[int64]bool{}
	latest, _ := clockAt(zone, from-1)
	for at := from; at < to; at++ {
		now, offset := clockAt(zone, at)
		seen[floorDiv(now, 1440)] = true
		for latest < now {
			latest++
			if _, ok := starts(latest - dayStart); ok {
				begun = append(begun, firing{at, latest, offset})
			}
		}
	}
	return slices.DeleteFunc(begun, func(f firing) bool {
		date := floorDiv(f.wall-dayStart, 1440)
		days, _ := starts(f.wall - dayStart)
		for d := date; d < date+days; d++ {
			if seen[d] || d*1440 > latest {
				return false
			}
		}
		return true
	})
}

func floorDiv(a, b int64) int64 { return (a - ((a%b)+b)%b) / b }

// startsOf tells whether a wall time is the first minute of a day, week or month, and how many days that has at least.
func startsOf(period string) func(int64) (int64, bool) {
	return func(wall int64) (int64, bool) {
		if wall%1440 != 0 {
			return 0, false
		}
		t := time.Unix(wall*60, 0).UTC()
		switch period {
		case "month":
			return 28, t.Day() == 1
		case "week":
			return 7, t.Weekday() == time.Monday
		}
		return 1, true
	}
}

// The oracle itself, on days of which crontab(5) and cron(8) say what happens.
func TestOracle(t *testing.T) {
	for _, c := range []struct{ expr, day, want string }{
		{"30 2 * * *", "2026-03-08", "07:00"},
		{"0,30 2 * * *", "2026-03-08", "07:00 07:00"},
		{"30 1 * * *", "2026-11-01", "05:30"},
		{"30 * 1 11 *", "2026-11-01", "04:30 05:30 06:30 07:30 08:30 09:30 10:30 11:30 12:30 13:30 14:30 15:30 16:30 17:30 18:30 19:30 20:30 21:30 22:30 23:30"},
		{"*/30 1-3 * * *", "2026-03-08", "06:00 06:30 07:00 07:30"},
		{"0 12 1,8 * 0", "2026-03-08", "16:00"},
	} {
		from := instantOf(t, c.day+"T00:00:00Z").Unix() / 60
		var got []string
		for _, f := range crond(c.expr, must(parseZone("America/New_York"))(t), from-60, from+1440) {
			if f.at >= from+4*60 {
				got = append(got, time.Unix(f.at*60, 0).UTC().Format("15:04"))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s on %s: %s, want %s", c.expr, c.day, strings.Join(got, " "), c.want)
		}
	}
}
