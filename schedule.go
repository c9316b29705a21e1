package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// horizon bounds every search for a day. The Gregorian calendar keeps nothing waiting longer than 40 years (29 February
// on a given weekday, over a year like 2100), and a line found there may still fall into a skipped hour.
const horizon = 60 * 366 * aDay

var errNeverDue = errors.New("never due")

// A schedule is a crontab line's five fields, read as Debian's cron reads them.
type schedule struct {
	text     string // as given, one blank between fields
	times    []wall // of a day, since midnight, ascending
	days     bits   // of a month
	months   bits
	weekdays bits // 0 is Sunday; never 7
	// eitherDay: day of month and day of week are both restricted, and one of them is enough. Cron looks only at a
	// field's first character, so "*/2" counts as "*": with it both must match.
	eitherDay bool
	// wild: the minute or the hour begins with "*". Cron runs such a line by what the clock shows, twice in the hour
	// that repeats and not in the one that is skipped; all other lines once a day, come what may.
	wild bool
}

// bits is a set of numbers below 64.
type bits uint64

func (b bits) has(n int) bool { return b>>n&1 == 1 }

// A field is one of the five, with the names that cron knows for its numbers, from low on.
type field struct {
	name      string
	low, high int
	names     []string
}

var crontabFields = [5]field{
	{name: "minute", high: 59},
	{name: "hour", high: 23},
	{name: "day of month", low: 1, high: 31},
	{name: "month", low: 1, high: 12,
		names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", high: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var nicknames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func parseSchedule(s string) (*schedule, error) {
	words := strings.Fields(s)
	text := strings.Join(words, " ")
	if strings.HasPrefix(text, "@") {
		fields, ok := nicknames[text]
		if !ok {
			return nil, refuseNickname(s)
		}
		words = strings.Fields(fields)
	}
	sched, err := readFields(words)
	if err == nil {
		_, err = sched.first(onDate(2000, time.January, 1))
	}
	if err != nil {
		return nil, refuse("--schedule", s, err.Error(), "")
	}
	sched.text = text
	return sched, nil
}

func refuseNickname(s string) error {
	if strings.TrimSpace(s) == "@reboot" {
		return refuse("--schedule", s, "a start of the machine has no date, so it is no slot",
			"--every day: once a day, whichever host starts first")
	}
	return refuse("--schedule", s, "no such nickname", "@hourly, @daily, @weekly, @monthly or @yearly")
}

func readFields(words []string) (*schedule, error) {
	if len(words) != len(crontabFields) {
		return nil, fmt.Errorf("%s, a crontab line has %d", fieldCount(len(words)), len(crontabFields))
	}
	var sets [len(crontabFields)]bits
	for i, f := range crontabFields {
		set, err := f.parse(words[i])
		if err != nil {
			return nil, err
		}
		sets[i] = set
	}
	star := func(i int) bool { return strings.HasPrefix(words[i], "*") }
	s := &schedule{
		days: sets[2], months: sets[3], weekdays: sets[4],
		eitherDay: !star(2) && !star(4),
		wild:      star(0) || star(1),
	}
	if s.weekdays.has(7) {
		s.weekdays |= 1
	}
	s.times = timesOfDay(sets[0], sets[1])
	return s, nil
}

func fieldCount(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

func timesOfDay(minutes, hours bits) []wall {
	var times []wall
	for m := range 24 * 60 {
		if hours.has(m/60) && minutes.has(m%60) {
			times = append(times, wall(m)*aMinute)
		}
	}
	return times
}

// parse reads a list of ranges. It is stricter than cron only where cron takes a typing error for something else:
// "5-2" (never), "*5" (every).
func (f field) parse(list string) (bits, error) {
	var set bits
	for part := range strings.SplitSeq(list, ",") {
		from, to, step, err := f.parseRange(part)
		if err != nil {
			return 0, err
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func (f field) parseRange(part string) (from, to, step int, err error) {
	ends, stepText, stepped := strings.Cut(part, "/")
	first, last, ranged := strings.Cut(ends, "-")
	from, to, step = f.low, f.high, 1
	if ends != "*" {
		from, err = f.number(first)
		to = from
	}
	if ranged && err == nil {
		to, err = f.number(last)
	}
	if stepped && err == nil {
		step, err = f.step(stepText)
	}
	switch {
	case err != nil:
	case from > to:
		err = fmt.Errorf("%s %s: ends before it begins", f.name, part)
	case stepped && ends != "*" && !ranged:
		err = fmt.Errorf("%s %s: cron takes a step only after * or a range", f.name, part)
	}
	return from, to, step, err
}

// number reads a number or a name; cron takes names in ranges, too, in upper or lower case.
func (f field) number(s string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(s)); i >= 0 {
		return f.low + i, nil
	}
	n, err := digits(s)
	if err != nil {
		return 0, fmt.Errorf("%s %q: not a number", f.name, s)
	}
	if n < f.low || n > f.high {
		return 0, fmt.Errorf("%s %d", f.name, n)
	}
	return n, nil
}

func (f field) step(s string) (int, error) {
	n, err := digits(s)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s /%s: not a step", f.name, s)
	}
	return n, nil
}

// digits is stricter than strconv.Atoi, which takes a sign.
func digits(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err
}

// on reports whether the line is due on the day that begins at midnight.
func (s *schedule) on(midnight wall) bool {
	t := midnight.utc()
	if !s.months.has(int(t.Month())) {
		return false
	}
	day, weekday := s.days.has(t.Day()), s.weekdays.has(int(t.Weekday()))
	if s.eitherDay {
		return day || weekday
	}
	return day && weekday
}

// last is the latest due time at or before w.
func (s *schedule) last(w wall) (wall, error) {
	for day := w.midnight(); day > w-horizon; day -= aDay {
		if !s.on(day) {
			continue
		}
		i, found := slices.BinarySearch(s.times, w-day)
		if found {
			return w, nil
		}
		if i > 0 {
			return day + s.times[i-1], nil
		}
	}
	return 0, errNeverDue
}

// first is the earliest due time at or after w.
func (s *schedule) first(w wall) (wall, error) {
	for day := w.midnight(); day < w+horizon; day += aDay {
		if !s.on(day) {
			continue
		}
		if i, _ := slices.BinarySearch(s.times, w-day); i < len(s.times) {
			return day + s.times[i], nil
		}
	}
	return 0, errNeverDue
}

// fixed reports whether the line has at most one slot a day: one minute, one hour, neither by "*".
func (s *schedule) fixed() bool { return !s.wild && len(s.times) == 1 }

// length is the shortest time from one slot to the next on days without a change of the clock.
func (s *schedule) length() time.Duration {
	first, last := s.times[0], s.times[len(s.times)-1]
	shortest := wall(s.daysApart())*aDay + first - last
	for i := 1; i < len(s.times); i++ {
		shortest = min(shortest, s.times[i]-s.times[i-1])
	}
	return time.Duration(shortest) * time.Second
}

// daysApart is the least number of days from one that has slots to the next. 28 years hold every day of the year on
// every weekday.
func (s *schedule) daysApart() int {
	start := onDate(2000, time.January, 1)
	apart, since := 28*366, -1
	for i := range 2 * 28 * 366 {
		if !s.on(start + wall(i)*aDay) {
			continue
		}
		if since >= 0 {
			apart = min(apart, i-since)
		}
		if since = i; apart == 1 {
			break
		}
	}
	return apart
}
