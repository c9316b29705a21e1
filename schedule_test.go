package main

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// complaint is a usage error as it is printed, its hint after a slash.
func complaint(err error) string {
	var usage *usageError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &usage):
		return "not a usage error: " + err.Error()
	case usage.hint == "":
		return usage.msg
	}
	return usage.msg + " / " + usage.hint
}

func TestPeriods(t *testing.T) {
	for text, want := range map[string]string{
		"day": "day", "1d": "day", "24h": "day", "week": "week", "month": "month", "hour": "hour", "1h": "hour",
		"60m": "hour", "15m": "15m", "0.5h": "30m", "1m": "1m", "6h": "6h", "720m": "12h", "300s": "5m",
	} {
		if p, err := parsePeriod(text); err != nil || p.String() != want {
			t.Errorf("%s: %s, %v", text, p, err)
		}
	}
	const parts = " / day, week, month, hour, or a part of one such as 15m or 6h"
	for text, want := range map[string]string{
		"7m":    "--every 7m: 7m does not divide an hour / for cron's */7 write --schedule '*/7 * * * *'",
		"40m":   "--every 40m: 40m does not divide an hour / for cron's */40 write --schedule '*/40 * * * *'",
		"5h":    "--every 5h: 5h does not divide a day / for cron's */5 write --schedule '0 */5 * * *'",
		"90m":   "--every 90m: 90m does not divide an hour" + parts,
		"2d":    "--every 2d: 2d does not divide a day" + parts,
		"48h":   "--every 48h: 48h does not divide a day" + parts,
		"30s":   "--every 30s: 30s is not a whole number of minutes" + parts,
		"daily": `--every "daily": not a period` + parts,
		"":      `--every "": not a period` + parts,
		"15":    `--every "15": not a period` + parts,
		"-15m":  `--every "-15m": not a period` + parts,
		"+15m":  `--every "+15m": not a period` + parts,
		"0m":    `--every "0m": not a period` + parts,
		"0d":    `--every "0d": not a period` + parts,
		"1w":    `--every "1w": not a period` + parts,
		" 15m":  `--every " 15m": not a period` + parts,
		"Day":   `--every "Day": not a period` + parts,
	} {
		if _, err := parsePeriod(text); complaint(err) != want {
			t.Errorf("%q:\n got %s\nwant %s", text, complaint(err), want)
		}
	}
}

func TestSchedulesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"0 2 * *":           "4 fields, a crontab line has 5",
		"0 2 * * * cmd":     "6 fields, a crontab line has 5",
		"":                  "0 fields, a crontab line has 5",
		"daily":             "1 field, a crontab line has 5",
		"0 25 * * *":        "hour 25",
		"60 * * * *":        "minute 60",
		"0 0 0 * *":         "day of month 0",
		"0 0 32 * *":        "day of month 32",
		"0 0 * 13 *":        "month 13",
		"0 0 * * 8":         "day of week 8",
		"0 5-64/30 * * *":   "hour 64",
		"0 0 31 2 *":        "never due",
		"0 0 31 4,6,9,11 *": "never due",
		"0 0 30 feb *":      "never due",
		"5/15 * * * *":      "minute 5/15: cron takes a step only after * or a range",
		"*/0 * * * *":       "minute /0: not a step",
		"*/-5 * * * *":      "minute /-5: not a step",
		"* 5-2 * * *":       "hour 5-2: ends before it begins",
		"0 0 * * fri-sun":   "day of week fri-sun: ends before it begins",
		"*5 * * * *":        `minute "*5": not a number`,
		"*-5 * * * *":       `minute "*": not a number`,
		"1,,2 * * * *":      `minute "": not a number`,
		"+5 * * * *":        `minute "+5": not a number`,
		"jan * * * *":       `minute "jan": not a number`,
		"0 0 * monday *":    `month "monday": not a number`,
		"0 0 ? * *":         `day of month "?": not a number`,
		"0 0 L * *":         `day of month "L": not a number`,
		"@reboot":           "a start of the machine has no date, so it is no slot / --every day: once a day, whichever host starts first",
		"@fortnightly":      "no such nickname / @hourly, @daily, @weekly, @monthly or @yearly",
	} {
		want := fmt.Sprintf("--schedule %q: %s", text, want)
		if _, err := parseSchedule(text); complaint(err) != want {
			t.Errorf("\n got %s\nwant %s", complaint(err), want)
		}
	}
}

// Two spellings of a line must be due at the same times, and be named alike.
func TestSchedulesSpelledDifferently(t *testing.T) {
	for a, b := range map[string]string{
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 7", "@yearly": "0 0 1 JAN *",
		"@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@hourly": "0 * * * *",
		"0 0 * * MON-FRI": "0 0 * * 1,2,3,4,5", "0 0 * * 5-7": "0 0 * * 0,5,6", "0 0 * * Sun": "0 0 * * 0",
		"0 0 * jan-MAR,12 *": "0 0 * 1,2,3,12 *", "*/100 * * * *": "*/60 * * * *", " 0\t2  * * * ": "0 2 * * *",
		"5-20/5 2 * * *": "5,10,15,20 2 * * *", "0 08 * * *": "0 8 * * *", "0 0 * * */2": "0 0 * * */2,4",
	} {
		la, lb := lineOf(t, a, "Europe/Berlin"), lineOf(t, b, "Europe/Berlin")
		sa := must(la.at(instantOf(t, "2026-10-20T00:00:00Z")))(t)
		sb := must(lb.at(instantOf(t, "2026-10-20T00:00:00Z")))(t)
		for range 500 {
			if sa.name != sb.name || !sa.begins.Equal(sb.begins) {
				t.Fatalf("%s: %s, but %s: %s", a, sa.name, b, sb.name)
			}
			sa, sb = must(la.next(sa))(t), must(lb.next(sb))(t)
		}
	}
}

func TestLineAsShown(t *testing.T) {
	for text, want := range map[string]string{
		"every 1d": "every day", "every 60m": "every hour", "every 15m": "every 15m",
		" */5  * * * * ": "*/5 * * * *", "@daily": "@daily",
	} {
		if got := lineOf(t, text, "UTC").String(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestDayStarts(t *testing.T) {
	for text, want := range map[string]time.Duration{"00:00": 0, "04:00": 4 * time.Hour, "23:59": 24*time.Hour - time.Minute} {
		if got, err := parseDayStart(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4:00", "24:00", "04:60", "04", "04:00:00", "-4:00", " 04:00", "4h"} {
		want := fmt.Sprintf("--day-start %q: not a time of day / HH:MM, such as 04:00", text)
		if _, err := parseDayStart(text); complaint(err) != want {
			t.Errorf("%q: %s", text, complaint(err))
		}
	}
}
