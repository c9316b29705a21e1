package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// What ran, where, when, how it ended: of all jobs, of one job, of one slot. Nothing is written to Redis.

const (
	exitNoJob     = 1
	statusWait    = 10 * time.Second // --redis-wait, unless given: a person is waiting
	lateAfter     = 15 * time.Minute // a due slot is pending until then
	attentionDays = 30
	// longestStrip covers the days that attention looks at: today, and 30 before.
	longestStrip  = attentionDays + 1
	longestMissed = 100
	batch         = 200 // jobs asked for in one request; each keeps Redis busy for less than a millisecond
)

// status prints one of the views.
func status(args []string, s *settings, w io.Writer) error {
	a, err := s.statusWords(args)
	if err != nil {
		return err
	}
	server, err := s.redisURL()
	if err != nil {
		return err
	}
	if s.from["redis-wait"] == "" {
		s.redisWait = statusWait
	}
	r := &reader{ledger: &ledger{server.connect(), s.namespace}, server: server, wait: s.redisWait}
	defer r.ledger.Close()
	jobs, err := r.read(a)
	if no := (*exit)(nil); err != nil && !(a.json && errors.As(err, &no) && no.status == exitNoJob) {
		return err
	}
	return cmp.Or(a.print(w, jobs), err)
}

// A statusAsk is what the user wants to see.
type statusAsk struct {
	namespace, job, date  string
	n                     int
	json, hosts, problems bool
}

func (s *settings) statusWords(args []string) (*statusAsk, error) {
	a := &statusAsk{namespace: s.namespace, date: s.date, n: s.n, json: s.json}
	if len(args) > 1 {
		return nil, usage(fmt.Sprintf("status: %q left over", args[1]), "")
	}
	if len(args) == 1 {
		a.job = args[0]
		return a, wrong(&option{}, place{"status", a.job}, checkName(a.job))
	}
	if a.date != "" {
		return nil, usage("status: --date needs a job", "onceonly status JOB --date "+a.date)
	}
	if a.hosts && !a.json {
		return nil, usage("status: --hosts needs a job", "onceonly status JOB --hosts")
	}
	return a, nil
}

// print writes the view.
func (a *statusAsk) print(w io.Writer, jobs []*jobState) error {
	text := ""
	switch s := screenOf(w); {
	case a.json:
		var err error
		if text, err = a.jsonOf(jobs); err != nil {
			return err
		}
	case a.job == "" && len(jobs) == 0:
		text = "no jobs yet in namespace " + a.namespace + "\n"
	case a.job == "":
		text = s.allJobs(jobs, a.problems)
	case a.hosts:
		text = s.hosts(jobs[0])
	case a.date != "":
		text = s.oneSlot(jobs[0])
	default:
		text = s.oneJob(jobs[0], a.n)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return &exit{status: exitBug, msg: "status: " + cause(err)}
	}
	return nil
}

// A reader asks Redis.
type reader struct {
	ledger *ledger
	server *server
	wait   time.Duration
}

// read reads the jobs that are wanted, by name.
func (r *reader) read(a *statusAsk) ([]*jobState, error) {
	if a.job == "" {
		return r.all(a)
	}
	jobs, err := r.look(a, a.date, a.job)
	if err != nil {
		return nil, err
	}
	if j := jobs[0]; len(j.meta) == 0 && len(j.slots) == 0 {
		return nil, r.unknown(a)
	} else if a.date == "" || j.choose(a.date) {
		return jobs, nil
	}
	// Not a slot's name, so it is a date, and only the job's line says which slot that is.
	s, err := jobs[0].parse(a.date)
	if err != nil {
		return nil, err
	}
	if jobs, err = r.look(a, s.name, a.job); err == nil {
		jobs[0].chooseNew(s)
	}
	return jobs, err
}

// all reads every job of the namespace.
func (r *reader) all(a *statusAsk) ([]*jobState, error) {
	names, err := r.names()
	var jobs []*jobState
	for some := range slices.Chunk(names, batch) {
		more, err := r.look(a, "", some...)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
	}
	return jobs, err
}

func (r *reader) names() ([]string, error) {
	cmd := redis.NewStringSliceCmd(context.Background(), "smembers", r.ledger.jobsKey())
	e := r.server.persist(r.wait, func(ctx context.Context) error {
		cmd = redis.NewStringSliceCmd(ctx, "smembers", r.ledger.jobsKey())
		return r.ledger.Process(ctx, onceCmd{cmd})
	})
	names := cmd.Val()
	slices.Sort(names)
	return names, orNil(e)
}

// unknown says that there is no such job, and which one was probably meant.
func (r *reader) unknown(a *statusAsk) error {
	names, err := r.names()
	if err != nil {
		return err
	}
	best, distance := "", min(3, len(a.job)/2)+1
	for _, name := range names {
		if d := edits(a.job, name); d < distance {
			best, distance = name, d
		}
	}
	return &exit{status: exitNoJob, msg: fmt.Sprintf("no job %q in namespace %s", a.job, a.namespace), hint: best}
}

// reach is how much of each job the view needs: slots in brief, slots with their entries (-1: all), '1' for the hosts.
func (a *statusAsk) reach() (briefs, entries int, hosts string) {
	briefs, entries = longestStrip, 1
	if a.job != "" {
		entries = max(a.n, longestStrip)
	}
	if a.job != "" && a.n == 0 {
		entries = -1
	}
	briefs = max(briefs, entries)
	if a.json || a.date != "" || entries < 0 {
		briefs = -1
	}
	if a.hosts {
		hosts = "1"
	}
	return briefs, entries, hosts
}

// look reads jobs in one request.
func (r *reader) look(a *statusAsk, slot string, names ...string) ([]*jobState, error) {
	briefs, entries, hosts := a.reach()
	jobs := make([]*jobState, len(names))
	e := r.server.persist(r.wait, func(ctx context.Context) error {
		pipe := r.ledger.Pipeline()
		cmds := make([]*redis.Cmd, len(names))
		for i, name := range names {
			cmds[i] = eval(ctx, lookLua, r.ledger.keys(name), briefs, entries, slot, hosts)
			pipe.Process(ctx, onceCmd{cmds[i]})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, cmd := range cmds {
			jobs[i] = newJobState(a.namespace, names[i], cmd.Val())
			jobs[i].fill(briefs)
		}
		return nil
	})
	return jobs, orNil(e)
}

// A jobState is a job at one instant, as look.lua saw it. Times are Redis's, in ms.
type jobState struct {
	namespace, job string
	now            int64
	lock           string // "" if nobody holds the lease
	ttl            int64
	fence          string
	meta           map[string]string
	slots          []*slotState // newest first: what the ledger has, and what is due and has no entry
	entries        map[string]*statusEntry
	oldest         string
	first          int64 // where the job's first slot begins, 0 if the ledger no longer has it
	hosts          []roll
	events         []event
	line           *line // nil: not known here
	zone           *time.Location
	pause          *pause
	chosen         *slotState // by --date
}

// A slotState is a slot, and what is known of its newest attempt.
type slotState struct {
	name           string
	begins         int64
	state          string
	attempt        int
	began, ended   int64
	held, resolved bool
	entry          *statusEntry // nil: none, or not asked for
}

// A statusEntry is an entry with what only status reads.
type statusEntry struct {
	entry
	MergedInto string      `json:"into"`
	Behind     string      `json:"behind"` // skipped: the slot that was running
	Resolved   *resolution `json:"resolved"`
}

type resolution struct {
	As     string `json:"as"` // done | reopened
	By     string `json:"by"`
	At     int64  `json:"at"`
	Reason string `json:"reason"`
}

type pause struct {
	Since  int64  `json:"since"`
	Until  int64  `json:"until"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// covers says whether a slot that begins then is paused.
func (p *pause) covers(begins int64) bool {
	return p != nil && p.Since <= begins && (p.Until == 0 || begins < p.Until)
}

// A roll is a host's last question.
type roll struct {
	Host    string `json:"-"`
	Asked   int64  `json:"asked"`
	Slot    string `json:"slot"`
	Answer  string `json:"answer"`
	Why     string `json:"why"`
	Line    string `json:"line"`
	Version string `json:"version"`
}

// An event is a line of the log.
type event struct {
	at     int64
	what   string
	fields map[string]string
}

func newJobState(namespace, name string, answer any) *jobState {
	a, _ := answer.([]any)
	if len(a) != 11 {
		panic("look.lua and status.go disagree")
	}
	j := &jobState{namespace: namespace, job: name, now: number(text(a[0])), lock: text(a[1]), ttl: a[2].(int64),
		fence: text(a[3]), meta: pairs(a[4]), oldest: text(a[7]), first: number(text(a[8])), entries: map[string]*statusEntry{}}
	for slot, raw := range pairs(a[6]) {
		if e, err := decode[statusEntry](raw); err == nil {
			j.entries[slot] = e
		}
	}
	for s := range strings.SplitSeq(text(a[5]), "\n") {
		if s != "" {
			j.slots = append(j.slots, j.slot(strings.Fields(s)))
		}
	}
	for host, raw := range pairs(a[9]) {
		if h, err := decode[roll](raw); err == nil {
			h.Host, _, _ = strings.Cut(host, " ")
			j.hosts = append(j.hosts, *h)
		}
	}
	slices.SortFunc(j.hosts, func(a, b roll) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Asked, b.Asked)) })
	for _, e := range a[10].([]any) {
		pair := e.([]any)
		at, _, _ := strings.Cut(text(pair[0]), "-")
		fields := pairs(pair[1])
		j.events = append(j.events, event{number(at), fields["event"], fields})
	}
	j.readLine()
	return j
}

func text(v any) string { s, _ := v.(string); return s }

func pairs(v any) map[string]string {
	flat, _ := v.([]any)
	m := make(map[string]string, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		m[text(flat[i])] = text(flat[i+1])
	}
	return m
}

// slot reads the seven words that look.lua says of one.
func (j *jobState) slot(w []string) *slotState {
	s := &slotState{name: w[0], begins: number(w[1]), state: w[2], began: number(w[4]), ended: number(w[5]),
		held: strings.Contains(w[6], "h"), resolved: strings.Contains(w[6], "r"), entry: j.entries[w[0]]}
	s.attempt, _ = strconv.Atoi(w[3])
	switch {
	case s.state == "running" && !s.held:
		s.state = "uncertain"
	case s.state == "failed" && s.held && strings.Contains(w[6], "k"):
		s.state = "retrying"
	}
	return s
}

// What became of a job's slots: what the line says is due, against what the ledger has. The rest of status is words.

// readLine makes the line of what is kept with the job. Where this host does not know the zone, or nothing but --date
// has run, nothing is known of what is due.
func (j *jobState) readLine() {
	j.zone = time.Local
	if raw := j.meta["paused"]; raw != "" {
		if p, err := decode[pause](raw); err == nil && (p.Until == 0 || p.Until > j.now) {
			j.pause = p
		}
	}
	zone, err := parseZone(j.meta["zone"])
	if j.meta["zone"] == "" || err != nil {
		return
	}
	j.zone = zone
	l := &line{zone: zone}
	if l.dayStart, err = parseDayStart(cmp.Or(j.meta["day_start"], "00:00")); err != nil {
		return
	}
	if j.meta["schedule"] != "" {
		l.schedule, err = parseSchedule(j.meta["schedule"])
	} else {
		l.every, err = parsePeriod(j.meta["every"])
	}
	if err == nil {
		j.line = l
	}
}

// scheduled says whether late and missed slots can be known.
func (j *jobState) scheduled() bool { return j.line != nil && j.line.schedule != nil }

// fill adds the slots that are due by the line and have no entry, looking back over at most so many; the JSON looks
// further. A gap counts only above an entry of the same line, and not before the job's first slot: a line that was
// changed yesterday says nothing of the day before.
func (j *jobState) fill(most int) {
	if !j.scheduled() || len(j.slots) == 0 {
		return
	}
	if most < 0 {
		most = longestMissed
	}
	t, err := j.line.latest(j.now / 1000)
	i := 0
	for i < len(j.slots) && j.slots[i].begins > t.at*1000 { // a host whose clock is ahead of Redis's
		i++
	}
	all, gap, newest := j.slots[:i:i], []*slotState(nil), i == 0
	for walked := 0; err == nil && i < len(j.slots) && walked < most && t.at*1000 >= j.first; walked++ {
		switch s := j.slots[i]; {
		case s.name == j.nameOf(t):
			all, gap = append(append(all, gap...), s), nil
			i++
		case s.begins >= t.at*1000:
			all = append(all, j.slots[i:]...)
			j.slots = all
			return
		default:
			gap = append(gap, j.unasked(t, newest && walked == 0))
		}
		t, err = j.line.preceding(t)
	}
	if i < len(j.slots) && j.native(j.slots[i]) {
		all = append(all, gap...)
	}
	j.slots = append(all, j.slots[i:]...)
}

// nameOf is the name of the line's slot that begins there.
func (j *jobState) nameOf(t tick) string {
	first, _ := j.line.days(t.wall)
	return j.line.name(t, first)
}

// native says whether an entry is a slot of the line as it is now.
func (j *jobState) native(s *slotState) bool {
	t, err := j.line.latest(s.begins / 1000)
	return err == nil && j.nameOf(t) == s.name
}

// unasked is a slot that is due and has no entry.
func (j *jobState) unasked(t tick, newest bool) *slotState {
	s := &slotState{name: j.nameOf(t), begins: t.at * 1000, state: "missed"}
	switch {
	case j.pause.covers(s.begins):
		s.state = "paused"
	case newest && j.now-s.begins >= lateAfter.Milliseconds():
		s.state = "late"
	case newest:
		s.state = "pending"
	}
	return s
}

// attention lists the slots that wait for a person, newest first. It is the one rule: for slots of a day or longer each
// that is bad within 30 days, and the newest; for shorter ones only the newest. One that is pending is not due yet for
// this purpose: else a job of every five minutes whose crond is dead would never be late.
func (j *jobState) attention() []*slotState {
	var bad []*slotState
	earliest, newest := j.now-attentionDays*24*time.Hour.Milliseconds(), true
	for _, s := range j.slots {
		if s.bad() && (newest || (j.long(s) && s.begins >= earliest)) {
			bad = append(bad, s)
		}
		newest = newest && s.state == "pending"
	}
	return bad
}

// bad says whether somebody has to do something about the slot.
func (s *slotState) bad() bool {
	switch s.state {
	case "failed", "uncertain", "missed", "late":
		return !s.resolved
	}
	return false
}

// long says whether the slot lasts a day or longer. The line may have been another one when it ran.
func (j *jobState) long(s *slotState) bool {
	return !strings.Contains(s.name, "T") || (j.line != nil && !j.line.namedByDate() && j.line.long())
}

// took is how long the newest attempt ran; negative if it did not end.
func (s *slotState) took() time.Duration {
	if s.ended == 0 {
		return -1
	}
	return sinceMillis(s.began, s.ended)
}

// left is how many attempts the slot has left; negative if that is not known.
func (j *jobState) left(s *slotState) int {
	allowed, err := strconv.Atoi(j.meta["attempts"])
	if err != nil {
		return -1
	}
	if s.entry != nil {
		allowed += s.entry.Extra
	}
	return max(0, allowed-s.attempt)
}

// due is when the slot was due, 0 if that is not known.
func (j *jobState) due(s *slotState) int64 {
	if s == nil || !j.scheduled() || !j.native(s) {
		return 0
	}
	return s.begins
}

// parse finds the slot of a date.
func (j *jobState) parse(date string) (slot, error) {
	if j.line == nil {
		return slot{}, wrong(&option{name: "date"}, place{"--date", date},
			&usageError{msg: "not in the ledger, which has no line of this job"})
	}
	s, err := j.line.parse(date, time.UnixMilli(j.now))
	return s, wrong(&option{}, place{"--date", date}, err)
}

// choose takes the slot of that name, if the ledger has it.
func (j *jobState) choose(name string) bool {
	for _, s := range j.slots {
		if s.name == name && s.entry != nil {
			j.chosen = s
		}
	}
	return j.chosen != nil
}

// chooseNew takes a slot that was not known by its name alone; it may have no entry.
func (j *jobState) chooseNew(s slot) {
	for _, known := range j.slots {
		if known.name == s.name {
			j.chosen = known
			return
		}
	}
	j.chosen = &slotState{name: s.name, begins: millis(s.begins)}
}

// longest is how long the job takes at most: of the newest slots those that ended, and the longest of them.
func (j *jobState) longest() (n int, d time.Duration) {
	for _, s := range j.slots[:min(len(j.slots), 30)] {
		if s.ended > 0 && s.attempt > 0 {
			n, d = n+1, max(d, s.took())
		}
	}
	return n, d
}
