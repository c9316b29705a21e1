package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A period is how often a slot begins, by its nominal length: a month counts as 30 days.
type period time.Duration

const (
	hourly  = period(time.Hour)
	daily   = 24 * hourly
	weekly  = 7 * daily
	monthly = 30 * daily
)

var periodNames = map[string]period{"hour": hourly, "day": daily, "week": weekly, "month": monthly}

func (p period) String() string {
	for name, named := range periodNames {
		if p == named {
			return name
		}
	}
	if p%hourly == 0 {
		return fmt.Sprintf("%dh", p/hourly)
	}
	return fmt.Sprintf("%dm", p/period(time.Minute))
}

// parsePeriod takes a name, or a length that divides an hour or a day without rest: any other would drift through
// the day, and from 23:50 to 00:00 there would be a short one.
func parsePeriod(s string) (period, error) {
	if p, ok := periodNames[s]; ok {
		return p, nil
	}
	p, err := periodLength(s)
	switch minutes := time.Duration(p) / time.Minute; {
	case err != nil || p <= 0:
		return 0, refuse("--every", s, "not a period", partHint)
	case p%period(time.Minute) != 0:
		return 0, refusePart(s, "is not a whole number of minutes", partHint)
	case p < hourly && hourly%p != 0:
		return 0, refusePart(s, "does not divide an hour", cronHint(minutes, "*/%d * * * *"))
	case p > hourly && p%hourly != 0:
		return 0, refusePart(s, "does not divide an hour", partHint)
	case p > daily:
		return 0, refusePart(s, "does not divide a day", partHint)
	case daily%p != 0:
		return 0, refusePart(s, "does not divide a day", cronHint(minutes/60, "0 */%d * * *"))
	}
	return p, nil
}

const partHint = "day, week, month, hour, or a part of one such as 15m or 6h"

func refusePart(part, reason, hint string) error {
	return &usageError{msg: fmt.Sprintf("--every %s: %s %s", part, part, reason), hint: hint}
}

func cronHint(n time.Duration, fields string) string {
	return fmt.Sprintf("for cron's */%d write --schedule '%s'", n, fmt.Sprintf(fields, n))
}

// periodLength reads 15m, 6h, 1h30m, and 1d, which time.ParseDuration does not know.
func periodLength(s string) (period, error) {
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		return 0, strconv.ErrSyntax
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 8)
		return period(n) * daily, err
	}
	d, err := time.ParseDuration(s)
	return period(d), err
}

// last is the latest beginning at or before w. Parts of a day count from midnight, so that 15m begins on the hour;
// dayStart moves only days and what is longer.
func (p period) last(w wall, dayStart time.Duration) wall {
	start := wall(dayStart / time.Second)
	switch {
	case p < daily:
		return w.floor(wall(time.Duration(p)/time.Second), 0)
	case p == monthly:
		year, month, _ := (w - start).utc().Date()
		return onDate(year, month, 1) + start
	case p == weekly:
		return w.floor(aWeek, onDate(1970, time.January, 5)+start) // a Monday
	}
	return w.floor(aDay, start)
}

// first is the earliest beginning at or after w.
func (p period) first(w wall, dayStart time.Duration) wall {
	begins := p.last(w, dayStart)
	switch {
	case begins == w:
		return w
	case p == monthly:
		// The last day of a month is at most 31 days from its first, and 32 days never reach the month after next.
		return p.last(begins+32*aDay, dayStart)
	}
	return begins + wall(time.Duration(p)/time.Second)
}

// parseDayStart reads HH:MM, the time since midnight at which a business day begins.
func parseDayStart(s string) (time.Duration, error) {
	t, err := time.Parse("15:04", s)
	if err != nil || !shaped(s, "00:00") {
		return 0, refuse("--day-start", s, "not a time of day", "HH:MM, such as 04:00")
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}
