package main

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/sys/unix"
)

// The views of status, for people. ASCII apart from names, so that mail, serial consoles and grep can read them; a colour
// says nothing that a letter does not say.

const (
	widestName    = 24 // columns; a longer name has a line of its own
	shortestStrip = 7
	widestStrip   = 30
	pipeStrip     = 14 // where there is no terminal to measure
)

// A screen is where a view is written to.
type screen struct {
	columns  int
	terminal bool
	colour   bool
}

func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(int(f.Fd())) {
		return screen{columns: 80}
	}
	s := screen{columns: 80, terminal: true, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		s.columns = int(size.Col)
	}
	return s
}

// A glyph is how the history shows a state.
type glyph struct {
	state  string
	letter string
	colour string
	means  string // in the legend; "" is not explained
}

const red, cyan, dim = "31", "36", "2"

// glyphs are all states that a slot can be in, in the order of the legend. Helped is none: it is done, but not at the first
// attempt, or by hand.
var glyphs = []glyph{{"done", ".", "", ""}, {"helped", "+", "", "retried"}, {"running", ">", cyan, "running"},
	{"retrying", ">", cyan, "running"}, {"missed", "-", red, "missed"}, {"late", "!", red, "late"},
	{"failed", "F", red, "failed"}, {"uncertain", "?", red, "uncertain"}, {"skipped", "s", dim, "skipped"},
	{"merged", "m", dim, "merged"}, {"paused", "p", dim, "paused"}, {"pending", " ", "", ""}}

func glyphOf(state string) glyph {
	for _, g := range glyphs {
		if g.state == state {
			return g
		}
	}
	return glyph{letter: "~"}
}

func (s *slotState) glyph() glyph {
	if s.state == "done" && (s.attempt > 1 || s.resolved) {
		return glyphOf("helped")
	}
	return glyphOf(s.state)
}

// display measures a text as terminals show it: a Korean letter takes two columns, a colour none.
var display = displaywidth.Options{ControlSequences: true}

func (s screen) paint(text, colour string) string {
	if !s.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (s screen) state(state string) string { return s.paint(state, glyphOf(state).colour) }

// layout sets rows into columns, two blanks apart. Align has a letter for each: l or r. Nothing trails.
func layout(align string, rows [][]string) []string {
	widths := make([]int, len(align))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], display.String(c))
		}
	}
	lines := make([]string, len(rows))
	for k, row := range rows {
		var b strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-display.String(c))
			if align[i] == 'r' {
				b.WriteString(pad + c)
			} else {
				b.WriteString(c + pad)
			}
			b.WriteString("  ")
		}
		lines[k] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// wrap sets words, so many blanks apart, into lines of 80 columns; all but the first are indented.
func wrap(words []string, gap, indent int) string {
	var b strings.Builder
	at := 0
	for i, word := range words {
		switch n := display.String(word); {
		case i == 0:
			at = n
		case at+gap+n > 80:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent + n
		default:
			b.WriteString(strings.Repeat(" ", gap))
			at += gap + n
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}

// allJobs is the first view: a line for each job, with its newest slot.
func (s screen) allJobs(jobs []*jobState, problems bool) string {
	shown := jobs
	if problems {
		shown = slices.DeleteFunc(slices.Clone(jobs), func(j *jobState) bool { return len(j.attention()) == 0 })
	}
	var b strings.Builder
	history := 0
	if len(shown) > 0 {
		history = s.jobTable(&b, shown)
	}
	b.WriteString(wrap(footer(jobs), 1, 2))
	if s.terminal {
		b.WriteString(legend(shown, history))
	}
	return b.String()
}

// jobTable returns how many slots of each job there is room for.
func (s screen) jobTable(b *strings.Builder, jobs []*jobState) (room int) {
	rows := [][]string{{"JOB", "SLOT", "STATE", "HOST", "AGO", "TOOK"}}
	for _, j := range jobs {
		rows = append(rows, s.jobRow(j))
	}
	lines := layout("llllrr", rows)
	longest := len("HISTORY")
	room = pipeStrip
	if s.terminal {
		room = min(max(s.columns-len(lines[0])-2, shortestStrip), widestStrip)
	}
	for _, j := range jobs {
		longest = max(longest, min(len(j.slots), room))
	}
	b.WriteString(lines[0] + "  HISTORY\n")
	for i, j := range jobs {
		if rows[i+1][0] == "" {
			b.WriteString(j.job + "\n")
		}
		b.WriteString(lines[i+1] + "  " + strings.Repeat(" ", longest-min(len(j.slots), room)) + s.strip(j, room) + "\n")
	}
	return room
}

// jobRow is a job's line, but for its history. The name is left out if it needs a line of its own.
func (s screen) jobRow(j *jobState) []string {
	name := j.job
	if display.String(name) > widestName {
		name = ""
	}
	if len(j.slots) == 0 {
		return []string{name, "-", "-", "-", "-", "-"}
	}
	n := j.slots[0]
	return []string{name, j.label(n.name), s.state(n.state), n.host(), ago(j.now - n.since()), took(n.took())}
}

// strip is the history: a letter for each slot, the newest on the right.
func (s screen) strip(j *jobState, most int) string {
	var b strings.Builder
	for _, past := range slices.Backward(j.slots[:min(len(j.slots), most)]) {
		g := past.glyph()
		b.WriteString(s.paint(g.letter, g.colour))
	}
	return b.String()
}

func footer(jobs []*jobState) []string {
	var names []string
	for _, j := range jobs {
		if len(j.attention()) > 0 {
			names = append(names, quoteWord(j.job))
		}
	}
	head := strings.Fields(count(len(jobs), "job") + ", " + needing(len(names)))
	if len(names) > 0 {
		head[len(head)-1] += ":"
	}
	return append(head, names...)
}

// needing is "4 need attention", "1 needs attention" or "none needs attention".
func needing(n int) string {
	switch n {
	case 0:
		return "none needs attention"
	case 1:
		return "1 needs attention"
	}
	return strconv.Itoa(n) + " need attention"
}

// legend explains the letters that are on show, where so many slots of each job are.
func legend(jobs []*jobState, room int) string {
	seen := map[string]bool{}
	for _, j := range jobs {
		for _, s := range j.slots[:min(len(j.slots), room)] {
			seen[s.glyph().letter] = true
		}
	}
	const title = "history, newest right:"
	lines, at := title, len(title)
	for _, g := range glyphs {
		if !seen[g.letter] || g.means == "" {
			continue
		}
		delete(seen, g.letter)
		item := "  " + g.letter + " " + g.means
		if at+len(item) > 80 {
			lines, at = lines+"\n"+strings.Repeat(" ", len(title)), len(title)
		}
		lines, at = lines+item, at+len(item)
	}
	if lines == title {
		return ""
	}
	return lines + "\n"
}

// label is the slot's name without its UTC offset, where that tells nothing apart.
func (j *jobState) label(name string) string {
	if j.line == nil {
		return name
	}
	return withoutOffset(name, j.line.zone)
}

// since is what AGO counts from: its end; if there is none its begin, or when it was asked for; or when it was due.
func (s *slotState) since() int64 {
	switch s.state {
	case "done", "failed", "retrying":
		return cmp.Or(s.ended, s.began, s.begins)
	case "running", "uncertain", "skipped", "paused":
		return cmp.Or(s.began, s.begins)
	}
	return s.begins
}

// ran says whether an attempt has begun, and is known.
func (s *slotState) ran() bool { return s.entry != nil && s.entry.RunID != "" }

// host is the newest attempt's, without its domain.
func (s *slotState) host() string {
	if !s.ran() {
		return "-"
	}
	if _, err := netip.ParseAddr(s.entry.Host); err == nil {
		return s.entry.Host
	}
	name, _, _ := strings.Cut(s.entry.Host, ".")
	return name
}

// ago is one number: 38s, 7h, 28d.
func ago(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// took is a duration in five columns: 38s, 6m02s, 31m, 1h02m, 3d04h; - for none.
func took(d time.Duration) string {
	s, m, h := int(d.Seconds()), int(d.Minutes()), int(d.Hours())
	switch {
	case d < 0:
		return "-"
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case m < 10:
		return fmt.Sprintf("%dm%02ds", m, s%60)
	case m < 60:
		return fmt.Sprintf("%dm", m)
	case h < 72:
		return fmt.Sprintf("%dh%02dm", h, m%60)
	}
	return fmt.Sprintf("%dd%02dh", h/24, h%24)
}

// count is a number of things: 1 job, 2 jobs.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
