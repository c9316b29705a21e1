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

// glyphs are in the order of the legend. Helped is done, but not at the first attempt, or by hand.
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

// wrap breaks words into lines; all but the first are indented.
func wrap(words []string, columns, indent int) string {
	var b strings.Builder
	at := 0
	for i, word := range words {
		switch n := display.String(word); {
		case i == 0:
			at = n
		case at+1+n > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent + n
		default:
			b.WriteString(" ")
			at += 1 + n
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
	if len(shown) > 0 {
		s.jobTable(&b, shown)
	}
	b.WriteString(wrap(footer(jobs), 80, 2))
	if s.terminal {
		b.WriteString(legend(shown))
	}
	return b.String()
}

func (s screen) jobTable(b *strings.Builder, jobs []*jobState) {
	rows := [][]string{{"JOB", "SLOT", "STATE", "HOST", "AGO", "TOOK"}}
	for _, j := range jobs {
		rows = append(rows, s.jobRow(j))
	}
	lines := layout("llllrr", rows)
	room, longest := pipeStrip, len("HISTORY")
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

// legend explains the letters that are on show.
func legend(jobs []*jobState) string {
	seen := map[string]bool{}
	for _, j := range jobs {
		for _, s := range j.slots[:min(len(j.slots), widestStrip)] {
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
	if len(name) <= len(minuteLayout) || j.line == nil || !j.line.byClock() {
		return name
	}
	t, err := time.Parse(minuteLayout, name[:len(minuteLayout)])
	if err != nil || len(j.line.ticksOf(wall(t.Unix()), "")) != 1 {
		return name
	}
	return name[:len(minuteLayout)]
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

// oneJob is the second view: a job's slots, newest first.
func (s screen) oneJob(j *jobState, n int) string {
	if n == 0 || n > len(j.slots) {
		n = len(j.slots)
	}
	bad := j.attention()
	var b strings.Builder
	b.WriteString(strings.Join(j.head(), "   ") + "\n" + s.strip(j, widestStrip) + "    " +
		count(min(len(j.slots), widestStrip), "slot") + ", " + needing(len(bad)) + "\n")
	if j.pause != nil {
		b.WriteString(wrap(strings.Fields(j.pauseText()), 80, 2))
	}
	b.WriteString("\n" + s.slotTable(j, n))
	if len(bad) > 0 {
		b.WriteString("\n")
	}
	for _, past := range bad {
		b.WriteString(j.advice(past))
	}
	return b.String()
}

// head is the job's line as the ledger keeps it.
func (j *jobState) head() []string {
	h := []string{j.job}
	if schedule := j.meta["schedule"]; schedule != "" {
		h = append(h, schedule)
	} else if every := j.meta["every"]; every != "" {
		h = append(h, "every "+every)
	}
	if zone := j.meta["zone"]; zone != "" {
		h = append(h, zone)
	}
	if attempts := j.meta["attempts"]; attempts != "" {
		h = append(h, "attempts "+attempts)
	}
	if due := j.nextDue(); due > 0 {
		h = append(h, "next due "+j.time(due).Format("2006-01-02 15:04"))
	}
	return h
}

// nextDue is when the next slot begins, 0 if that is not known.
func (j *jobState) nextDue() int64 {
	if !j.scheduled() {
		return 0
	}
	t, err := j.line.latest(j.now / 1000)
	if err == nil {
		t, err = j.line.following(t)
	}
	if err != nil {
		return 0
	}
	return t.at * 1000
}

func (j *jobState) time(ms int64) time.Time { return time.UnixMilli(ms).In(j.zone) }

// clock is a time of day; with its date if that is not the slot's.
func (j *jobState) clock(ms int64, date string) string {
	if t := j.time(ms); t.Format(time.DateOnly) != date {
		return t.Format("01-02 15:04:05")
	}
	return j.time(ms).Format(time.TimeOnly)
}

func (j *jobState) pauseText() string {
	p := "paused since " + j.time(j.pause.Since).Format("2006-01-02 15:04")
	if j.pause.Until > 0 {
		p += " until " + j.time(j.pause.Until).Format("2006-01-02 15:04")
	}
	if j.pause.By != "" {
		p += " by " + j.pause.By
	}
	if j.pause.Reason != "" {
		p += ": " + j.pause.Reason
	}
	return p
}

func (s screen) slotTable(j *jobState, n int) string {
	rows := [][]string{{"SLOT", "STATE", "ATT", "HOST", "STARTED", "TOOK", "EXIT", "NOTE"}}
	for _, past := range j.slots[:n] {
		row := []string{j.label(past.name), s.state(past.state), "-", "-", "-", "-", "-", j.note(past)}
		if past.ran() {
			row[2], row[3], row[4] = past.att(), past.host(), j.clock(past.began, dateOf(past.name))
			row[5], row[6] = took(past.took()), exitOf(&past.entry.entry)
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for _, l := range layout("llrllrrl", rows) {
		if s.terminal {
			l = display.TruncateString(l, s.columns, "")
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}

// att is the number of the attempt; one that was never started has none.
func (s *slotState) att() string {
	if s.attempt == 0 {
		return "-"
	}
	return strconv.Itoa(s.attempt)
}

// exitOf is how an attempt ended, in one word.
func exitOf(e *entry) string {
	switch {
	case e.State == "running":
		return "-"
	case e.Reason == "timeout":
		return "TIME"
	case e.Signal != "":
		return e.Signal
	case e.Exit != nil:
		return strconv.Itoa(*e.Exit)
	}
	return "-"
}

// note is what else is worth knowing about a slot.
func (j *jobState) note(s *slotState) string {
	var n []string
	add := func(when bool, what string) {
		if when {
			n = append(n, what)
		}
	}
	e := s.entry
	if e == nil {
		return ""
	}
	if e.Resolved != nil {
		add(e.Resolved.As == "reopened", "reopened by "+e.Resolved.By)
		add(e.Resolved.As != "reopened", "resolved by "+e.Resolved.By)
	}
	add(e.MergedInto != "", "with "+j.label(e.MergedInto))
	add(e.Behind != "", j.behind(e.Behind, s.name)+" was running")
	add(s.state == "failed" && e.Reason != "" && e.Reason != "timeout", strings.ReplaceAll(e.Reason, "_", " "))
	add(e.Rerun != "", "rerun")
	add(e.Rerun == "" && s.attempt > 1 && e.Resolved == nil, "retried")
	if due := j.due(s); due > 0 && s.attempt == 1 && s.began-due > time.Minute.Milliseconds() {
		n = append(n, ago(s.began-due)+" late")
	}
	add(e.ByHand, "by hand")
	add(e.Stale > 0, fmt.Sprintf("stale +%d", e.Stale))
	return strings.Join(n, ", ")
}

// behind names a slot by its time alone if it is of the same day.
func (j *jobState) behind(name, than string) string {
	name = j.label(name)
	if day, minute, ok := strings.Cut(name, "T"); ok && strings.HasPrefix(than, day) {
		return minute
	}
	return name
}

// advice is what to do about a slot that needs attention, with the command to type.
func (j *jobState) advice(s *slotState) string {
	label := j.label(s.name)
	said := s.state + " " + label + ": "
	if s.state == "missed" {
		return said + j.runAgain(label) + "\n"
	}
	if s.state == "late" {
		return said + "due at " + j.clock(s.begins, dateOf(s.name)) + ", nobody has begun. Which hosts have the line:\n  " +
			"onceonly status " + quoteWord(j.job) + " --hosts\n"
	}
	if s.entry == nil {
		return said + "onceonly status " + quoteWord(j.job) + " --date " + label + "\n"
	}
	if s.state == "uncertain" {
		said += j.silence(s)
	} else {
		said += fmt.Sprintf("%s on %s at %s, %s.", endOf(&s.entry.entry), holderOf(&s.entry.entry),
			j.clock(cmp.Or(s.ended, s.began), dateOf(s.name)), j.leftText(s))
	}
	return wrap(strings.Fields(said), 80, 2) + "  " + j.settle(s) + "\n"
}

// silence says what is known of an attempt that never reported.
func (j *jobState) silence(s *slotState) string {
	date := dateOf(s.name)
	said := holderOf(&s.entry.entry) + " began at " + j.clock(s.began, date)
	if heard := j.heard(s); heard > 0 {
		said += ", last heard of at " + j.clock(heard, date)
	}
	said += "; it may have done all, part or nothing; " + j.leftText(s)
	if j.left(s) > 0 {
		said += ", nobody has asked since"
	}
	return said + "."
}

// heard is when the slot's holder last renewed the lease, 0 if that is not known: it is kept of the newest run only.
func (j *jobState) heard(s *slotState) int64 {
	if j.meta["current"] != s.name {
		return 0
	}
	return number(j.meta["heard"])
}

func (j *jobState) leftText(s *slotState) string {
	switch n := j.left(s); {
	case n < 0:
		return "attempts left unknown"
	case n == 0:
		return "no attempt left"
	default:
		return count(n, "attempt") + " left"
	}
}

func (j *jobState) settle(s *slotState) string {
	return "onceonly resolve " + quoteWord(j.job) + " --date " + j.label(s.name) + " --done (or --reopen) --reason TEXT"
}

func (j *jobState) runAgain(label string) string {
	return "onceonly run --job " + quoteWord(j.job) + " --date " + label + " -- COMMAND"
}

// dateOf is the business date of a slot, which its name tells: a week's is its Monday.
func dateOf(name string) string {
	switch {
	case shaped(name, "0000-W00"):
		year, _ := strconv.Atoi(name[:4])
		week, _ := strconv.Atoi(name[6:])
		monday := weekly.last(onDate(year, time.January, 4), 0) + wall(week-1)*aWeek
		return monday.utc().Format(time.DateOnly)
	case shaped(name, "0000-00"):
		return name + "-01"
	}
	return name[:min(len(name), len(time.DateOnly))]
}

// oneSlot is the third view: a slot, its attempts, and what the log says of it.
func (s screen) oneSlot(j *jobState) string {
	c := j.chosen
	var b strings.Builder
	b.WriteString(j.slotHead(c) + "\n")
	attempts := j.attempts(c)
	if len(attempts) > 0 {
		b.WriteString("\n" + s.attemptTable(j, c, attempts))
	}
	if c.state == "running" {
		b.WriteString("         " + j.renewal(c) + "\n")
	}
	if told := j.story(c); len(told) > 0 {
		b.WriteString("\n" + strings.Join(layout("llll", told), "\n") + "\n")
	}
	switch {
	case c.state == "failed" || c.state == "uncertain":
		b.WriteString(j.settle(c) + "\n")
	case c.state == "missed":
		b.WriteString(j.runAgain(j.label(c.name)) + "\n")
	}
	return b.String()
}

func (j *jobState) slotHead(c *slotState) string {
	label, state := j.label(c.name), c.state
	switch low := number(j.meta["low"]); {
	case state == "failed":
		state += ", " + j.leftText(c)
	case state == "" && j.meta["low"] != "" && c.begins <= low:
		state = "not known: the ledger reaches back to " + j.label(j.oldest)
	case state == "":
		state = "nobody has asked for it"
	}
	head := j.job + " " + label + "   " + state
	if due := j.due(c); due > 0 {
		head += "   due " + j.clock(due, dateOf(c.name)) + " " + j.zone.String()
	}
	if key := "   key " + quoteWord(j.job+"/"+c.name); display.String(head+key) <= 80 {
		head += key
	}
	return head
}

// renewal says how the lease of a run stands.
func (j *jobState) renewal(c *slotState) string {
	said := "lease until " + j.clock(j.now+j.ttl, dateOf(c.name))
	if heard := j.heard(c); heard > 0 {
		said = "renewed " + ago(j.now-heard) + " ago, " + said
	}
	if n, d := j.longest(); n > 0 {
		said += fmt.Sprintf("; the last %d took %s at most", n, took(d))
	}
	return said
}

func (s screen) attemptTable(j *jobState, c *slotState, attempts []*attemptState) string {
	rows := [][]string{{"ATT", "STATE", "HOST", "STARTED", "ENDED", "TOOK", "EXIT", "TOKEN"}}
	for _, a := range attempts {
		ended, length := "-", took(-1)
		if a.Ended > 0 {
			ended, length = j.clock(a.Ended, j.time(a.Began).Format(time.DateOnly)), took(sinceMillis(a.Began, a.Ended))
		} else if a.State == "running" {
			length = took(sinceMillis(a.Began, j.now))
		}
		rows = append(rows, []string{strconv.Itoa(a.Attempt), s.state(a.State), holderOf(&a.entry),
			j.time(a.Began).Format("01-02 15:04:05"), ended, length, exitOf(&a.entry), strconv.FormatInt(a.Token, 10)})
	}
	return strings.Join(layout("rllllrrl", rows), "\n") + "\n"
}

// An attemptState is one attempt of a slot, as the log and, of the newest, the entry tell it.
type attemptState struct {
	entry
	version string
}

// attempts lists a slot's attempts, oldest first. The log is bounded, so what it no longer has is missing here, too.
func (j *jobState) attempts(c *slotState) []*attemptState {
	var all []*attemptState
	find := func(e event) *attemptState {
		a := attemptOf(e)
		for _, known := range all {
			if known.Token == a.Token {
				return known
			}
		}
		all = append(all, a)
		return a
	}
	for _, e := range j.events {
		switch e.what {
		case "begin":
			find(e)
		case "end", "stale", "late":
			find(e).end(e)
		}
	}
	for _, a := range all {
		if a.State == "running" {
			a.State = "uncertain"
		}
	}
	return c.newest(all)
}

// newest puts what the entry says of the newest attempt into the list: it is the ledger's word.
func (c *slotState) newest(all []*attemptState) []*attemptState {
	if !c.ran() {
		return all
	}
	a := &attemptState{entry: c.entry.entry}
	a.State = c.state
	for i, known := range all {
		if known.Token == a.Token {
			a.version, a.Attempt = known.version, known.Attempt
			all[i] = a
			return all
		}
	}
	return append(all, a)
}

func attemptOf(e event) *attemptState {
	a := &attemptState{version: e.fields["version"]}
	a.State, a.RunID, a.User, a.Began = "running", e.fields["run_id"], e.fields["user"], e.at
	a.Attempt, a.Token = int(number(e.fields["attempt"])), number(e.fields["token"])
	if i := strings.LastIndexByte(e.fields["host"], ':'); i >= 0 {
		a.Host, a.PID = e.fields["host"][:i], int(number(e.fields["host"][i+1:]))
	}
	return a
}

// end adds how the attempt ended.
func (a *attemptState) end(e event) {
	if a.Began == e.at { // its begin is no longer in the log
		a.Began -= number(e.fields["took"])
	}
	a.Ended = a.Began + number(e.fields["took"])
	a.Signal, a.Reason, a.Kept = e.fields["signal"], e.fields["reason"], e.fields["kept"] == "1"
	if n, err := strconv.Atoi(e.fields["exit"]); err == nil {
		a.Exit = &n
	}
	switch a.State = e.fields["state"]; {
	case e.what == "stale":
		a.State = "stale"
	case a.State == "unstarted":
		a.State = "failed"
	}
}

// story is what the log says of a slot: when, who, what, and more.
func (j *jobState) story(c *slotState) [][]string {
	var rows [][]string
	tell := func(at int64, who, what, more string) {
		rows = append(rows, []string{j.clock(at, dateOf(c.name)), fmt.Sprintf("%-11s", who), fmt.Sprintf("%-16s", what), more})
	}
	for _, e := range j.events {
		attempt := "attempt " + e.fields["attempt"] + " "
		switch e.what {
		case "begin":
			tell(e.at, e.fields["host"], attempt+"began", e.fields["run_id"])
		case "end", "stale", "late":
			a := attemptOf(e)
			a.end(e)
			what, more := endStory(e, a)
			tell(e.at, e.fields["host"], attempt+what, more)
		default:
			tell(e.at, cmp.Or(e.fields["by"], e.fields["host"]), e.what, reasonOf(e))
		}
	}
	if heard := j.heard(c); c.state == "uncertain" && heard > 0 {
		over := heard + number(j.meta["lease"])
		tell(heard, holderOf(&c.entry.entry), "last renewed", "lease over at "+j.clock(over, dateOf(c.name)))
	}
	return rows
}

// endStory is the word and the rest for an end: failed, "exit 1, lease kept".
func endStory(e event, a *attemptState) (what, more string) {
	if a.State == "done" && e.what == "end" {
		return "done", ""
	}
	more = endOf(&a.entry)
	if a.Kept {
		more += ", lease kept"
	}
	if e.what == "end" {
		return e.fields["state"], more
	}
	return e.what, e.fields["state"] + ", " + more
}

// reasonOf is what a person gave as reason, in quotes.
func reasonOf(e event) string {
	if e.fields["reason"] == "" {
		return e.fields["as"]
	}
	return strings.TrimPrefix(e.fields["as"]+" ", " ") + strconv.Quote(e.fields["reason"])
}

// hosts lists who asked for the job, when, and with which line.
func (s screen) hosts(j *jobState) string {
	if len(j.hosts) == 0 {
		return "no host has asked for " + j.job + "\n"
	}
	rows := [][]string{{"HOST", "ASKED", "SLOT", "ANSWER", "LINE", "VERSION"}}
	for _, h := range j.hosts {
		answer := h.Answer
		if h.Why != "" {
			answer += ":" + h.Why
		}
		rows = append(rows, []string{h.Host, j.time(h.Asked).Format(time.DateTime), j.label(h.Slot), answer, h.line(), h.Version})
	}
	return strings.Join(append(layout("llllll", rows), j.strangers()...), "\n") + "\n"
}

// line names the host's crontab line: equal ones have equal digits.
func (h roll) line() string { return h.Line[:min(len(h.Line), 4)] }

// strangers says which hosts are unlike the others: silent for longer than a day and two slots, or with another line.
func (j *jobState) strangers() []string {
	lines, newest, usual := map[string]int{}, int64(0), ""
	for _, h := range j.hosts {
		lines[h.line()]++
		newest = max(newest, h.Asked)
	}
	for l, n := range lines {
		if n > lines[usual] || (n == lines[usual] && l < usual) {
			usual = l
		}
	}
	silent := 24 * time.Hour
	if j.line != nil {
		silent = max(silent, 2*j.line.length())
	}
	var told []string
	for _, h := range j.hosts {
		var odd []string
		if newest-h.Asked > silent.Milliseconds() {
			odd = append(odd, fmt.Sprintf("last asked %s ago", count(int((j.now-h.Asked)/(24*time.Hour).Milliseconds()), "day")))
		}
		if h.line() != usual && lines[usual] > 1 {
			odd = append(odd, "its line differs from the others'")
		}
		if len(odd) > 0 {
			told = append(told, h.Host+": "+strings.Join(odd, "; "))
		}
	}
	return told
}
