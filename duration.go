package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Durations, as users write them and as messages show them.

var units = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour}

const longestDuration = 100 * 365 * 24 * time.Hour

var errDuration = &usageError{msg: "not a duration", hint: "90s, 10m, 1h30m, 2d"}

// parseDuration reads 90s, 1.5h, 1h30m, 2d. A bare number is refused: some tools take it for seconds, some for minutes.
func parseDuration(v string) (time.Duration, error) {
	var sum float64
	for rest := v; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		letters := len(rest[digits:]) - len(strings.TrimLeft(rest[digits:], "dhms"))
		x, err := strconv.ParseFloat(rest[:digits], 64)
		unit, known := units[rest[digits:digits+letters]]
		if err != nil || (letters > 0 && !known) {
			return 0, errDuration
		}
		if letters == 0 && digits == len(v) {
			return 0, &usageError{msg: "a number needs a unit", hint: withUnits(v)}
		}
		if !known {
			return 0, errDuration
		}
		sum += x * float64(unit)
		rest = rest[digits+letters:]
	}
	if v == "" || sum > float64(longestDuration) {
		return 0, errDuration
	}
	return time.Duration(sum), nil
}

// withUnits writes a number of seconds in the units that it may have been meant in: 3600s, 60m or 1h.
func withUnits(v string) string {
	n, err := strconv.Atoi(v)
	if err != nil || n == 0 {
		return "90s, 10m, 1h30m, 2d"
	}
	words := []string{v + "s"}
	if n%60 == 0 {
		words = append(words, fmt.Sprintf("%dm", n/60))
	}
	if n%3600 == 0 {
		words = append(words, fmt.Sprintf("%dh", n/3600))
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// brief is a duration for people: 38s, 4m12s, 5m0s, 1h02m, 26h0m, 12d.
func brief(d time.Duration) string {
	d = d.Round(time.Second)
	s, m, h := int(d/time.Second), int(d/time.Minute), int(d/time.Hour)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case m < 60:
		return fmt.Sprintf("%dm%ss", m, padded(s%60))
	case h < 72:
		return fmt.Sprintf("%dh%sm", h, padded(m%60))
	}
	return fmt.Sprintf("%dd", h/24)
}

// exactly is a duration as an option gives it: also 300ms, 1.5s.
func exactly(d time.Duration) string {
	if d%time.Second == 0 {
		return brief(d)
	}
	return d.String()
}

func padded(n int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%02d", n)
}
