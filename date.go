package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	minuteLayout = "2006-01-02T15:04"
	monthLayout  = "2006-01"
)

// parse takes what was given as --date: a day, today, yesterday, an RFC 3339 time, or a slot's name. It is strict,
// because a slot that nobody meant runs, and then counts as done. A slot still to come is refused for the same reason.
func (l line) parse(date string, now time.Time) (slot, error) {
	s, err := l.slotOf(date, now)
	if err != nil {
		return slot{}, err
	}
	if s.begins.After(now) {
		return slot{}, refuseDate(date, "begins only at "+s.begins.Format("2006-01-02 15:04"), "")
	}
	if s.begins.Unix() < 0 {
		return slot{}, refuseDate(date, "before 1970", "")
	}
	return s, nil
}

// named is the slot of a name in the ledger. It may still be to come, where a clock has been set back since.
func (l line) named(name string) (slot, error) {
	s, err := l.slotOf(name, time.Unix(0, 0))
	if err == nil && s.name != name {
		err = fmt.Errorf("%q is not a slot of a job that runs %s", name, l.runs())
	}
	return s, err
}

func (l line) slotOf(date string, now time.Time) (slot, error) {
	today := wall(now.Unix() + offsetAt(l.zone, now.Unix())).midnight()
	switch {
	case date == "today":
		return l.on(today, date, now)
	case date == "yesterday":
		return l.on(l.dayBefore(today), date, now)
	case shaped(date, "0000-00-00"):
		return l.parseDay(date, now)
	case shaped(date, "0000-W00"):
		return l.parseWeek(date, now)
	case shaped(date, "0000-00"):
		return l.parseMonth(date, now)
	case isRFC3339(date):
		instant, err := time.Parse(time.RFC3339, date)
		if err != nil {
			return slot{}, refuseDate(date, "there is no such time", "")
		}
		return l.at(instant)
	case len(date) >= len(minuteLayout) && shaped(date[:len(minuteLayout)], "0000-00-00T00:00"):
		return l.parseTime(date, now)
	}
	return slot{}, refuseDate(date, "not a date", "2026-11-29, today, yesterday, 2026-11-29T14:05:00+09:00, or a slot's name")
}

// shaped reports whether s has the pattern's form, in which 0 stands for any digit. The layouts of package time do not
// say as much: they take a one-digit hour.
func shaped(s, pattern string) bool {
	if len(s) != len(pattern) {
		return false
	}
	for i := range len(s) {
		digit := '0' <= s[i] && s[i] <= '9'
		if pattern[i] == '0' && !digit || pattern[i] != '0' && s[i] != pattern[i] {
			return false
		}
	}
	return true
}

// isRFC3339 checks the form, digits and signs, which time.Parse takes lightly: a one-digit hour, a comma, +09:75. Only
// the ranges of date and time are left to it.
func isRFC3339(s string) bool {
	const seconds = "0000-00-00T00:00:00"
	if len(s) <= len(seconds) || !shaped(s[:len(seconds)], seconds) {
		return false
	}
	zone := strings.TrimLeft(s[len(seconds):], ".0123456789")
	fraction := strings.TrimSuffix(s[len(seconds):], zone)
	if fraction != "" && (len(fraction) < 2 || strings.LastIndex(fraction, ".") != 0) {
		return false
	}
	return zone == "Z" || (shaped(zone, "+00:00") || shaped(zone, "-00:00")) && zone[1:3] < "24" && zone[4:] < "60"
}

// dayBefore is the day that the calendar of the zone had before this one. In Apia it is 29 December before the 31st of
// 2011; and it is never "24 hours ago".
func (l line) dayBefore(midnight wall) wall {
	at := due(l.zone, midnight) - 1
	return min(wall(at+offsetAt(l.zone, at)).midnight(), midnight-aDay)
}

func (l line) parseDay(date string, now time.Time) (slot, error) {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return slot{}, refuseDate(date, "there is no such day", "")
	}
	return l.on(wall(t.Unix()), date, now)
}

// on is the slot of a calendar day: the one day, week or month that has it, or the only one that begins on it.
func (l line) on(midnight wall, date string, now time.Time) (slot, error) {
	if due(l.zone, midnight) == due(l.zone, midnight+aDay) {
		return slot{}, refuseDate(date, "there is no such day in "+l.zone.String(), "")
	}
	if l.schedule == nil && l.every >= daily {
		w := l.every.last(midnight, 0) + wall(l.dayStart/time.Second)
		return l.slot(l.due(w))
	}
	ticks, err := l.beginOn(midnight)
	switch {
	case err != nil:
		return slot{}, err
	case len(ticks) == 1:
		return l.slot(ticks[0])
	case len(ticks) == 0:
		return slot{}, refuseDate(date, "a job that runs "+l.runs()+" has no slot that day", l.oneBefore(midnight))
	}
	// The hint's name goes without the offset, which may be left out.
	newest := latestBegun(ticks, now).wall.utc().Format(minuteLayout)
	return slot{}, refuseDate(date, "a job that runs "+l.runs()+" has many slots that day", "name one: "+newest)
}

// beginOn lists the ticks of a calendar day, oldest first.
func (l line) beginOn(midnight wall) ([]tick, error) {
	var ticks []tick
	t, err := l.latest(due(l.zone, midnight+aDay) - 1)
	for ; err == nil && t.wall >= midnight; t, err = l.preceding(t) {
		if t.wall < midnight+aDay {
			ticks = append(ticks, t)
		}
	}
	slices.Reverse(ticks)
	return ticks, err
}

func (l line) oneBefore(w wall) string {
	s, err := l.at(l.instant(due(l.zone, w) - 1))
	if err != nil {
		return ""
	}
	return "the one before: " + s.name
}

// runs completes "a job that runs …".
func (l line) runs() string {
	if l.schedule != nil {
		return "at '" + l.schedule.text + "'"
	}
	return l.String()
}

func (l line) parseWeek(date string, now time.Time) (slot, error) {
	year, _ := strconv.Atoi(date[:4])
	week, _ := strconv.Atoi(date[6:])
	// 4 January is in the first ISO week, whatever weekday it is.
	monday := weekly.last(onDate(year, time.January, 4), 0) + wall(week-1)*aWeek
	if weekName(monday) != date {
		return slot{}, refuseDate(date, "there is no such week", "")
	}
	if l.schedule != nil || l.every != weekly {
		return slot{}, l.notIts(date, monday, now)
	}
	return l.on(monday, date, now)
}

func (l line) parseMonth(date string, now time.Time) (slot, error) {
	t, err := time.Parse(monthLayout, date)
	if err != nil {
		return slot{}, refuseDate(date, "there is no such month", "")
	}
	if l.schedule != nil || l.every != monthly {
		return slot{}, l.notIts(date, wall(t.Unix()), now)
	}
	return l.on(wall(t.Unix()), date, now)
}

// parseTime takes the name of a slot that begins at a time of day, with or without offset. A time at which no slot
// begins is refused, unlike an RFC 3339 time, which has seconds: that one means the slot that it falls in.
func (l line) parseTime(date string, now time.Time) (slot, error) {
	text, offset := date[:len(minuteLayout)], date[len(minuteLayout):]
	t, err := time.Parse(minuteLayout, text)
	switch {
	case err != nil:
		return slot{}, refuseDate(date, "there is no such time", "")
	case offset != "" && offset != "Z" && !isOffset(offset):
		return slot{}, refuseDate(date, "not a UTC offset: "+offset, "2026-11-29T14:05 or 2026-11-29T14:05:00+09:00")
	case l.namedByDate():
		return slot{}, l.notIts(date, wall(t.Unix()), now)
	}
	if offset == "Z" {
		offset = offsetText(0)
	}
	ticks := l.ticksOf(wall(t.Unix()), offset)
	if len(ticks) == 0 {
		return slot{}, l.notIts(date, wall(t.Unix()), now)
	}
	return l.slot(latestBegun(ticks, now))
}

func isOffset(s string) bool {
	return (s[0] == '+' || s[0] == '-') && (shaped(s[1:], "00:00") || shaped(s[1:], "00:00:00"))
}

// latestBegun is the latest of these, oldest first, that has begun, or else the first: it settles which one is meant
// when a repeated wall time is given without offset.
func latestBegun(ticks []tick, now time.Time) tick {
	chosen := ticks[0]
	for _, t := range ticks {
		if t.at <= now.Unix() {
			chosen = t
		}
	}
	return chosen
}

// ticksOf lists the ticks that are labelled w, oldest first, and with that offset, unless it is empty.
func (l line) ticksOf(w wall, offset string) []tick {
	if begins, err := l.last(w); err != nil || begins != w {
		return nil
	}
	spans := around(l.zone, w)
	if !l.byClock() {
		return l.dueWith(spans, w, offset)
	}
	var ticks []tick
	for i, s := range spans {
		t, ok := tick{}, false
		if i > 0 {
			t, ok = l.held(spans[i-1], s)
		}
		if !ok || t.wall != w {
			t, ok = tick{w, s.instant(w), s.offset}, s.contains(s.instant(w))
		}
		if ok && (offset == "" || offset == offsetText(t.offset)) {
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// dueWith is ticksOf for a line by date, whose names have no offset. One that is given must be right all the same: one
// with which the clock shows w, or either side's of the jump that skips it.
func (l line) dueWith(spans []span, w wall, offset string) []tick {
	if !l.exists(w) {
		return nil
	}
	t := l.due(w)
	for _, s := range spans {
		shown := s.contains(s.instant(w)) || s.from == t.at || s.to == t.at
		if offset == "" || shown && offset == offsetText(s.offset) {
			return []tick{t}
		}
	}
	return nil
}

// notIts refuses the name of something that is no slot of this line, and names one that is: that time's, if it has come.
func (l line) notIts(date string, w wall, now time.Time) error {
	hint := ""
	if meant := l.instant(due(l.zone, w)); meant.Before(now) {
		now = meant
	}
	if s, err := l.at(now); err == nil {
		hint = "name one: " + s.name
	}
	return refuseDate(date, "a job that runs "+l.runs()+" has no such slot", hint)
}

func refuseDate(date, reason, hint string) error { return refuse("--date", date, reason, hint) }

// refuse is the error about an option's value.
func refuse(option, value, reason, hint string) error {
	return &usageError{msg: fmt.Sprintf("%s %q: %s", option, value, reason), hint: hint}
}

// withoutOffset is a slot's name without its UTC offset, if the clock shows that time only once.
func withoutOffset(name string, zone *time.Location) string {
	t, err := time.Parse(minuteLayout+"-07:00", name)
	if err != nil {
		return name
	}
	shown := name[:len(minuteLayout)]
	for d := -3 * time.Hour; d <= 3*time.Hour; d += 15 * time.Minute {
		if d != 0 && t.Add(d).In(zone).Format(minuteLayout) == shown {
			return name
		}
	}
	return shown
}
