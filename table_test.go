package main

import (
	"strings"
	"testing"
	"time"
)

// Names are as wide as terminals show them, and are never cut; one that is too long has a line of its own.
func TestStatusNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"invoice": 7, "청구서-발송": 11, "Ärger": 5, "A\u0308rger": 5, "請求書": 6,
		"\x1b[31mfailed\x1b[0m": 6} {
		if got := display.String(text); got != want {
			t.Errorf("%q is %d columns wide, want %d", text, got, want)
		}
	}
	long := strings.Repeat("청구서", 5)
	at := func(name string) *jobState {
		return &jobState{job: name, zone: time.UTC, now: 60_000, slots: []*slotState{{name: "1970-01-01", state: "done", began: 1000, ended: 3000}}}
	}
	same(t, screen{columns: 80}.allJobs([]*jobState{at("a b"), at(long), at("청구서청구서청구서")}, false), `
JOB                 SLOT        STATE  HOST  AGO  TOOK  HISTORY
a b                 1970-01-01  done   -     57s    2s        .
`+long+`
                    1970-01-01  done   -     57s    2s        .
청구서청구서청구서  1970-01-01  done   -     57s    2s        .
3 jobs, none needs attention
`)
}

// The history takes what a terminal has left, seven to thirty slots, and fourteen where there is none.
func TestStatusHistory(t *testing.T) {
	t.Parallel()
	j := &jobState{job: "etl", zone: time.UTC, now: 60_000}
	for range longestStrip {
		j.slots = append(j.slots, &slotState{name: "1970-01-01T00:00", state: "done", began: 1000, ended: 3000})
	}
	for _, c := range []struct {
		screen
		want int
	}{{screen{columns: 80}, 14}, {screen{columns: 200, terminal: true}, 30}, {screen{columns: 70, terminal: true}, 23},
		{screen{columns: 40, terminal: true}, 7}} {
		row := strings.Split(c.allJobs([]*jobState{j}, false), "\n")[1]
		if got := strings.Count(row, "."); got != c.want {
			t.Errorf("%+v: %d slots in %q", c.screen, got, row)
		}
	}
}

// The legend names only what is on show; nothing of a colour is not also a letter.
func TestStatusLegend(t *testing.T) {
	t.Parallel()
	j := &jobState{job: "etl", zone: time.UTC}
	for _, state := range []string{"pending", "done", "running", "missed", "late", "failed", "uncertain", "skipped", "paused"} {
		j.slots = append(j.slots, &slotState{name: "1970-01-01T00:00", state: state, attempt: 2})
	}
	coloured := screen{columns: 80, terminal: true, colour: true}
	same(t, legend([]*jobState{j}, 30), `
history, newest right:  + retried  > running  - missed  ! late  F failed
                        ? uncertain  s skipped  p paused
`)
	same(t, coloured.strip(j, 30), "\x1b[2mp\x1b[0m\x1b[2ms\x1b[0m\x1b[31m?\x1b[0m\x1b[31mF\x1b[0m\x1b[31m!\x1b[0m\x1b[31m-\x1b[0m"+
		"\x1b[36m>\x1b[0m+ ")
	for range shortestStrip { // on a narrow screen the older ones are not on show
		j.slots = append([]*slotState{{name: "1970-01-01T00:00", state: "done"}}, j.slots...)
	}
	if got := (screen{columns: 40, terminal: true}).allJobs([]*jobState{j}, false); strings.Contains(got, "newest right") {
		t.Errorf("a legend of what is not on show:\n%s", got)
	}
	j.slots = j.slots[shortestStrip:]
	same(t, screen{}.strip(j, 30), "ps?F!->+ ")
	same(t, screen{}.strip(j, 3), "->+ "[1:])
	same(t, legend([]*jobState{{slots: []*slotState{{state: "done"}}}}, 30), "")
}

func TestStatusDurations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d         time.Duration
		took, ago string
	}{{-1, "-", "0s"}, {0, "0s", "0s"}, {59900 * time.Millisecond, "59s", "59s"}, {252107 * time.Millisecond, "4m12s", "4m"},
		{5 * time.Minute, "5m00s", "5m"}, {31 * time.Minute, "31m", "31m"}, {62 * time.Minute, "1h02m", "1h"},
		{47 * time.Hour, "47h00m", "47h"}, {28*24*time.Hour + 6*time.Hour, "28d06h", "28d"}} {
		if got := took(c.d); got != c.took {
			t.Errorf("took %v: %q, want %q", c.d, got, c.took)
		}
		if got := ago(c.d.Milliseconds()); got != c.ago {
			t.Errorf("%v ago: %q, want %q", c.d, got, c.ago)
		}
	}
}

func TestStatusAgo(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]int64{"done": 3, "failed": 3, "retrying": 3, "running": 2, "uncertain": 2, "skipped": 2,
		"paused": 2, "missed": 1, "merged": 1, "late": 1, "pending": 1} {
		if got := (&slotState{state: state, begins: 1, began: 2, ended: 3}).since(); got != want {
			t.Errorf("%s: %d, want %d", state, got, want)
		}
	}
}

func TestStatusBusinessDate(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"2026-11-29": "2026-11-29", "2026-11": "2026-11-01", "2026-W48": "2026-11-23",
		"2025-W01": "2024-12-30", "2026-11-29T14:05+09:00": "2026-11-29"} {
		if got := dateOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Where the clock is set back a wall time comes twice, and only there the offset is shown.
func TestStatusLabels(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	j := &jobState{line: &line{every: hourly, zone: berlin}}
	for name, want := range map[string]string{"2026-11-29T14:00+01:00": "2026-11-29T14:00", "2026-10-25T02:00+02:00": "2026-10-25T02:00+02:00",
		"2026-11-29": "2026-11-29", "2026-11-29T14:05+01:00": "2026-11-29T14:05"} { // the last of another line
		if got := j.label(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
