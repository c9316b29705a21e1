package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What ran, where, when, how it ended: of all jobs, of one job, of one slot. Nothing is written to Redis.

const (
	statusWait    = 10 * time.Second // --redis-wait, unless given: a person is waiting
	lateAfter     = 15 * time.Minute // a due slot is pending until then, unless --late says otherwise
	attentionDays = 30
	// longestStrip covers all that attention looks at: today and 30 days before, and what weeks and months a line that
	// was another one then has left among them.
	longestStrip  = attentionDays + 10
	longestMissed = 100
	// Jobs asked for in one request. Of each some slots keep Redis busy for less than a millisecond, all for some of them.
	batch      = 200
	batchWhole = 50
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
	began := time.Now()
	jobs, err := r.read(a)
	if a.metrics {
		m := &machine{up: err == nil, took: time.Since(began), ahead: r.ahead, dir: stateDir(s.stateDir, os.LookupEnv)}
		return cmp.Or(a.printMetrics(w, jobs, m), err)
	}
	if no := (*exit)(nil); err != nil && !(a.json && errors.As(err, &no) && no.status == exitNo) {
		return err
	}
	for _, j := range jobs {
		j.seenFrom(s)
	}
	return cmp.Or(a.print(w, jobs), err, a.verdict(jobs))
}

// seenFrom adds what a command to type depends on: how the job was asked for, and this host's zone.
func (j *jobState) seenFrom(s *settings) {
	here, _, err := hostZone("", "", os.LookupEnv)
	j.typed, j.abroad = s.typed(j.job), err == nil && here.String() != j.meta["zone"]
}

// print writes the view.
func (a *statusAsk) print(w io.Writer, jobs []*jobState) error {
	text := ""
	switch s := screenOf(w); {
	case a.json:
		text = a.jsonOf(jobs)
	case a.brief:
		text = a.briefly(jobs)
	case a.job == "" && len(jobs) == 0:
		text = noJobs(a.namespace) + "\n"
	case a.job == "":
		text = s.allJobs(jobs, a.problems)
	case a.hosts:
		text = s.hosts(jobs[0])
	case a.date != "":
		text = s.oneSlot(jobs[0])
	default:
		text = s.oneJob(jobs[0], a.n)
	}
	return orNil(show(w, "status", text))
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
	late           time.Duration
	paused         *pause     // the newest, also one that is over
	pause          *pause     // the one that is in force
	chosen         *slotState // by --date
	abroad         bool       // this host's zone is another one
	typed          string     // the job, as a command to type names it
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
	Behind string `json:"behind"` // skipped: the slot that was running
}

// readEntry reads an entry for people: of one that was settled by hand the newest real attempt is shown.
func readEntry(raw string) (*statusEntry, error) {
	e, err := decode[statusEntry](raw)
	if err == nil && e.Resolved != nil {
		e.RunID, e.Try, e.Token = e.Resolved.RunID, e.Resolved.Try, e.Resolved.Token
	}
	return e, err
}

// A pause is the newest one. It stays in the ledger when it is over.
type pause struct {
	N      int    `json:"n"` // of pauses and resumes, the newest's number
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
	j := &jobState{namespace: namespace, job: name, typed: quoteWord(name), now: number(text(a[0])), lock: text(a[1]),
		ttl: a[2].(int64), fence: text(a[3]), meta: pairs(a[4]), oldest: text(a[7]), first: number(text(a[8])), entries: map[string]*statusEntry{},
		late: lateAfter}
	for slot, raw := range pairs(a[6]) {
		if e, err := readEntry(raw); err == nil {
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
