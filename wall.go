package main

import (
	"math"
	"path"
	"slices"
	"strings"
	"time"
)

// farthest is more than the clocks of two zones, or of one before and after a change, are ever apart: any instant at
// which a clock shows w lies within this many seconds of w read as UTC.
const farthest = 26 * 60 * 60

// A wall is what a clock on the wall shows, in seconds since it showed 1970-01-01 00:00. It belongs to no zone: the
// clock may show it once, twice, or, in the hour that is skipped, never.
type wall int64

const (
	aMinute wall = 60
	aDay         = 24 * 60 * aMinute
	aWeek        = 7 * aDay
)

func onDate(year int, month time.Month, day int) wall {
	return wall(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix())
}

func (w wall) utc() time.Time { return time.Unix(int64(w), 0).UTC() }

// floor is the latest multiple of step at or before w, counted from zero; also where w is negative.
func (w wall) floor(step, zero wall) wall {
	rest := (w - zero) % step
	if rest < 0 {
		rest += step
	}
	return w - rest
}

func (w wall) midnight() wall { return w.floor(aDay, 0) }

// A span is a stretch of time, from inclusive to exclusive in Unix seconds, in which a zone keeps one UTC offset.
// Neighbours may have the same offset.
type span struct{ from, to, offset int64 }

func (s span) shows(at int64) wall    { return wall(at + s.offset) }
func (s span) instant(w wall) int64   { return int64(w) - s.offset }
func (s span) contains(at int64) bool { return s.from <= at && at < s.to }

// before and after are the neighbours, cut so that they neither overlap nor leave a gap; spanAt alone may do either.
func (s span) before(zone *time.Location) span {
	earlier := spanAt(zone, s.from-1)
	earlier.to = s.from
	return earlier
}

func (s span) after(zone *time.Location) span {
	later := spanAt(zone, s.to)
	later.from = s.to
	return later
}

// spanAt trusts time.ZoneBounds only as far as it can check it. Where a zone's table has ended and its rule goes on
// (since 2007 in a slim zone file), ZoneBounds cuts at the turn of the year, too, and on 31 December of a leap year it
// names an end that has passed: whoever walks from end to end stands still there. Nor does it know that the rule began
// only with the table's last change: for Ciudad Juarez in December 2022 it names a start when other time was kept.
func spanAt(zone *time.Location, at int64) span {
	t := time.Unix(at, 0).In(zone)
	start, end := t.ZoneBounds()
	s := span{from: math.MinInt64 / 2, to: math.MaxInt64 / 2, offset: offsetAt(zone, at)}
	if !start.IsZero() {
		s.from = start.Unix()
	}
	if !end.IsZero() {
		s.to = end.Unix()
	}
	if s.to <= at {
		s.to += int64(aDay)
	}
	if offsetAt(zone, s.from) != s.offset {
		s.from = changeBetween(zone, s.from, at)
	}
	return s
}

func offsetAt(zone *time.Location, at int64) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}

// changeBetween is the first instant that has the offset of until; from has another.
func changeBetween(zone *time.Location, from, until int64) int64 {
	offset := offsetAt(zone, until)
	for until-from > 1 {
		middle := from + (until-from)/2
		if offsetAt(zone, middle) == offset {
			until = middle
		} else {
			from = middle
		}
	}
	return until
}

// reached is the latest wall time that the clock has shown by then. In the hour that repeats it is ahead of the clock.
func reached(zone *time.Location, at int64) wall {
	s := spanAt(zone, at)
	latest := s.shows(at)
	for s.from > at-farthest {
		s = s.before(zone)
		latest = max(latest, s.shows(s.to-1))
	}
	return latest
}

// due is the instant at which the clock first shows w or, where it skips w, the instant of the jump. It never
// decreases as w grows.
func due(zone *time.Location, w wall) int64 {
	s := spanAt(zone, int64(w)-farthest)
	for s.instant(w) >= s.to {
		s = s.after(zone)
	}
	return max(s.from, s.instant(w))
}

// around lists the spans in which the clock may show w.
func around(zone *time.Location, w wall) []span {
	spans := []span{spanAt(zone, int64(w)-farthest)}
	for {
		last := spans[len(spans)-1]
		if last.to > int64(w)+farthest {
			return spans
		}
		spans = append(spans, last.after(zone))
	}
}

// notZones are names that time.LoadLocation would open, or take for UTC, though they name no zone. Those below right/
// count leap seconds and are half a minute off. An absolute path begins with "".
var notZones = []string{"", "Local", "localtime", "posixrules", "Factory", "right", "posix"}

// parseZone takes an IANA name. An empty or unknown one is an error, never UTC.
func parseZone(name string) (*time.Location, error) {
	unknown := refuse("--tz", name, "no such zone", "names such as Asia/Seoul; on a small image install tzdata")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(notZones, first) || strings.ContainsAny(name, ".\\") || path.Clean(name) != name {
		return nil, unknown
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknown
	}
	return zone, nil
}
