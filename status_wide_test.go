//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The table as people see it: on a terminal of 80 columns, and through a pipe; of one job, of eight, and of three hundred.

// onScreen is the first view as a screen has it, from the ledgers of the test's namespace.
func onScreen(t *testing.T, s screen) string {
	t.Helper()
	return s.allJobs(viewJobs(t, statusAsk{}, seoulNow, time.Minute), false)
}

var plainTerminal = screen{columns: 80, terminal: true}

// seedEight are the jobs of the interface's drawing.
func seedEight(t *testing.T) {
	seedFleet(t)
	newSeed(t, "purge", "schedule", "0 2 * * *", "first", "2026-11-16", "paused",
		fmt.Sprintf(`{"since":%d,"by":"kim@web-1","reason":"bank"}`, msOf(t, "2026-11-26T10:00:00+09:00"))).days("2026-11-26", 11, "02:00:00")
}

func TestStatusOfOne(t *testing.T) {
	t.Parallel()
	newSeed(t, "청구서-발송").days("2026-11-29", 2, "02:00:00")
	want := `
JOB          SLOT        STATE  HOST   AGO   TOOK  HISTORY
청구서-발송  2026-11-29  done   web-2   7h  1m00s       ..
1 job, none needs attention
`
	same(t, onScreen(t, plainTerminal), want)
	same(t, onScreen(t, screen{columns: 80}), want)
}

// The interface's drawing. On the terminal the legend names what is on show.
func TestStatusOfEight(t *testing.T) {
	t.Parallel()
	seedEight(t)
	same(t, onScreen(t, screen{columns: 80}), `
JOB          SLOT              STATE      HOST   AGO   TOOK  HISTORY
backup       2026-11-29        uncertain  web-1   6h      -  .......p.-++.?
close-books  2026-11           failed     web-3  28d  1h02m               F
etl          2026-11-29        running    web-1   7h      -      ....-....>
invoice      2026-11-29        done       web-2   7h  4m12s  ..............
purge        2026-11-29        paused     -       7h      -  ...........ppp
report       2026-11-29        late       -       6h      -            ...!
sync-orders  2026-11-29T09:10  done       web-4  22s    38s           ..sF.
청구서-발송  2026-11-29        done       web-2   7h  1m00s              ..
8 jobs, 4 need attention: backup close-books etl report
`)
	same(t, onScreen(t, plainTerminal), `
JOB          SLOT              STATE      HOST   AGO   TOOK  HISTORY
backup       2026-11-29        uncertain  web-1   6h      -  ............p.-++.?
close-books  2026-11           failed     web-3  28d  1h02m                    F
etl          2026-11-29        running    web-1   7h      -           ....-....>
invoice      2026-11-29        done       web-2   7h  4m12s       ..............
purge        2026-11-29        paused     -       7h      -       ...........ppp
report       2026-11-29        late       -       6h      -                 ...!
sync-orders  2026-11-29T09:10  done       web-4  22s    38s                ..sF.
청구서-발송  2026-11-29        done       web-2   7h  1m00s                   ..
8 jobs, 4 need attention: backup close-books etl report
history, newest right:  + retried  > running  - missed  ! late  F failed
                        ? uncertain  s skipped  p paused
`)
}

// Of three hundred every name is whole, no line is wider than 80 columns, all columns stand below each other, and the
// terminal, its colours apart, shows what the pipe has. A name is up to 200 bytes, and Korean, and wider than its column.
func TestStatusOfThreeHundred(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 300 {
		name := fmt.Sprintf("job-%03d", i)
		switch i % 10 {
		case 3:
			name += "-" + strings.Repeat("정산", 2) // 7+1+8 columns
		case 5:
			name += "-" + strings.Repeat("청구서", 2+i%3) // 20, 26 or 32
		case 7:
			name += "-" + strings.Repeat("long", 4) // 24
		}
		names = append(names, name)
		more := ""
		if i%50 == 9 {
			more = `"state":"failed","exit":1`
		}
		newSeed(t, name).days("2026-11-28", i%4, "02:00:00").
			ran("2026-11-29", "2026-11-29T02:00:00+09:00", "2026-11-29T02:00:00+09:00", "web-1.example.com", time.Minute, more)
	}
	piped, shown := onScreen(t, screen{columns: 80}), onScreen(t, plainTerminal)
	painted := onScreen(t, screen{columns: 80, terminal: true, colour: true})
	if bare := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(painted, ""); bare != shown || bare == painted {
		t.Errorf("colours change more than the colour")
	}
	for where, text := range map[string]string{"pipe": piped, "terminal": shown} {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		state, history := columnOf(lines[0], "STATE"), columnOf(lines[0], "HISTORY")
		for i := 0; i < len(names); i++ {
			checkRow(t, where, &lines, names[i], state, history)
		}
		if !strings.HasPrefix(lines[1], "300 jobs, 6 need attention: ") {
			t.Errorf("%s: %q", where, lines[1:])
		}
		for _, l := range strings.Split(text, "\n") {
			if display.String(l) > 80 {
				t.Errorf("%s: %d columns: %s", where, display.String(l), l)
			}
		}
	}
}

// columnOf is the column where a word begins.
func columnOf(line, word string) int {
	before, _, _ := strings.Cut(line, word)
	return display.String(before)
}

// checkRow takes a job's line, or its two, off the lines below the head.
func checkRow(t *testing.T, where string, lines *[]string, name string, state, history int) {
	t.Helper()
	row := (*lines)[1]
	if display.String(name) > widestName {
		if row != name {
			t.Fatalf("%s: %q does not stand alone in %q", where, name, row)
		}
		*lines = (*lines)[1:]
		name, row = "", (*lines)[1]
	}
	word := "done"
	if strings.Contains(row, "failed") {
		word = "failed"
	}
	if !strings.HasPrefix(row, name+" ") || columnOf(row, word) != state || !strings.Contains(row, "  web-1  ") || display.String(row) < history+1 {
		t.Fatalf("%s: %q is %q", where, name, row)
	}
	*lines = (*lines)[1:]
}

// The same bytes through a pipe, whatever the terminal is called: of eight jobs and of three hundred, with the real
// program on a real terminal of 80 columns. (SH-63)
func TestStatusTerminalAndPipe(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			for i := range n {
				name := fmt.Sprintf("job-%03d", i)
				if i%5 == 2 {
					name += strings.Repeat("청구서", i%7)
				}
				newSeed(t, name).days("2026-11-28", 1+i%9, "02:00:00")
			}
			show := func(line string) string {
				tty := newTerminal(t, "sh", "-c", line+"; echo over-$?")
				tty.expect("over-0\r\n")
				tty.wait()
				shown, _, _ := strings.Cut(tty.screen(), "over-")
				return ageless(strings.ReplaceAll(shown, "\r\n", "\n"))
			}
			piped := ageless(newHost(t, "web-1").run("status").stdout)
			if got := show("TERM=xterm onceonly status | cat"); got != piped {
				t.Errorf("in a pipe at a terminal:\n%s\nwithout:\n%s", got, piped)
			}
			plain := show("TERM=dumb onceonly status")
			if n == 1 && plain != piped { // the history fits both
				t.Errorf("terminal:\n%s\npipe:\n%s", plain, piped)
			}
			if a, b := strings.Count(plain, "\n"), strings.Count(piped, "\n"); a != b {
				t.Errorf("%d lines on the terminal, %d in the pipe", a, b)
			}
			if got := show("TERM=xterm NO_COLOR= onceonly status"); got != plain { // of done jobs nothing is coloured
				t.Errorf("in colour:\n%s\nwithout:\n%s", got, plain)
			}
		})
	}
}

// ageless is a table without the column that changes as time passes, and what blanks that leaves.
func ageless(text string) string {
	return regexp.MustCompile(` +\d+[smhd]  `).ReplaceAllString(text, " AGO  ")
}

// What stands around the tables keeps to 80 columns: the head of a job, the head of a slot, what is said of one that is late.
func TestStatusHeadsKeepTo80(t *testing.T) {
	t.Parallel()
	const job = "청구서-발송"
	newSeed(t, job, "schedule", "*/30 * * * *", "zone", "America/New_York", "first", "2026-11-28T18:30-05:00").
		ran("2026-11-28T18:30-05:00", "2026-11-28T18:30:00-05:00", "2026-11-28T18:30:00-05:00", "web-1", time.Minute, `"state":"failed","exit":1`)
	same(t, view(t, statusAsk{job: job, n: 1, late: 5 * time.Minute}, seoulNow, 0), `
청구서-발송   */30 * * * *   America/New_York   attempts 1
  next due 2026-11-28 19:30
F!    2 slots, 1 needs attention

SLOT              STATE  ATT  HOST  STARTED  TOOK  EXIT  NOTE
2026-11-28T19:00  late     -  -     -           -     -

late 2026-11-28T19:00: due at 19:00:00, nobody has begun. Which hosts have the
  line:
  onceonly status 청구서-발송 --hosts
`)
	shown := view(t, statusAsk{job: job, date: "2026-11-28T18:30"}, seoulNow, 0)
	if head, _, _ := strings.Cut(shown, "\n\n"); head != job+" 2026-11-28T18:30   failed, no attempt left\n  due 18:30:00 America/New_York" {
		t.Errorf("head of a slot: %q", head)
	}
}
