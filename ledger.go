package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The ledger remembers, for every slot of a job, what became of it. It outlives the lease: that a slot ran is what keeps
// it from running again. Every change is one script, so it happens whole or not at all, and may be sent twice.

//go:embed scripts/entry.lua
var entryLua string

//go:embed scripts/begin.lua
var beginLua string

//go:embed scripts/finish.lua
var finishLua string

//go:embed scripts/missed.lua
var missedLua string

//go:embed scripts/stop.lua
var stopLua string

//go:embed scripts/resolve.lua
var resolveLua string

//go:embed scripts/pause.lua
var pauseLua string

//go:embed scripts/wait.lua
var waitLua string

//go:embed scripts/look.lua
var lookLua string

// An attempt is named by the run ID and the try: the n-th start under one hold of the lease.
type attempt struct {
	RunID string `json:"run_id"`
	Try   int    `json:"try"`
}

// Asker is who asks, for people.
type asker struct {
	Host    string `json:"host"`
	Machine string `json:"machine"` // tells apart two machines of one name; "" where --host names it
	PID     int    `json:"pid"`
	User    string `json:"user"`
	ByHand  bool   `json:"by_hand"`
	Version string `json:"version"`
}

// Terms are what the line says about the job, kept with it so that any host can tell what is due.
type terms struct {
	Every    string `json:"every"`
	Schedule string `json:"schedule"`
	DayStart string `json:"day_start"`
	Attempts int    `json:"attempts"`
	Lease    int64  `json:"lease"` // ms
	Keep     int    `json:"keep"`  // slots
	Zone     string `json:"zone"`
	ZoneYear string `json:"zone_year"`
	// By year: the zone's in this one and its neighbours, for the job's may be of another year.
	Offsets  map[string]string `json:"offsets"`
	ZoneFrom string            `json:"zone_from"` // default | explicit | date
	From     int64             `json:"from"`      // ms: the time that the slot covers
	To       int64             `json:"to"`
	Shape    string            `json:"shape"` // what slots of one line have in common: slots of two shapes may overlap
	Args     string            `json:"args"`  // hash of the arguments where the name comes from the command, else ""
	Line     string            `json:"line"`  // hash of the command line
}

// A question is what begin.lua reads.
type question struct {
	attempt
	asker
	terms
	Slot     string `json:"slot"`
	Begins   int64  `json:"begins"` // ms
	Now      int64  `json:"now"`    // ms, the host's clock just before sending
	Rerun    string `json:"rerun"`
	Overlap  string `json:"overlap"`
	Previous int64  `json:"previous"` // ms
	CatchUp  string `json:"catch_up"`
	arrears
	Minute string `json:"minute"`
	Dated  bool   `json:"dated"`
	Dry    bool   `json:"dry"`
}

// Arrears are missed and skipped slots before this one: whether they have been seen to, and what begin is to do about them.
type arrears struct {
	Caught bool     `json:"caught"`
	Covers []string `json:"covers,omitempty"` // slots that this run covers
	Passed []string `json:"passed,omitempty"` // slots that are not to be caught up with, now or later: see toCatchUp
}

// An entry is what the ledger says about one slot: its newest attempt, and which came before.
type entry struct {
	State   string   `json:"state"`
	RunID   string   `json:"run_id"`
	Try     int      `json:"try"`
	Attempt int      `json:"attempt"`
	Token   int64    `json:"token,string"`
	Host    string   `json:"host"`
	Machine string   `json:"machine"`
	PID     int      `json:"pid"`
	User    string   `json:"user"`
	ByHand  bool     `json:"by_hand"`
	Began   int64    `json:"began"` // ms, Redis's clock
	Ended   int64    `json:"ended"` // ms, 0 while running
	Exit    *int     `json:"exit"`
	Signal  string   `json:"signal"`
	Reason  string   `json:"reason"`
	Kept    bool     `json:"kept"`
	Extra   int      `json:"extra"`
	Stale   int      `json:"stale"`
	Rerun   string   `json:"rerun"`
	First   string   `json:"first"`
	Into    string   `json:"into"` // of a merged slot: the one that covers it
	Earlier []string `json:"earlier"`

	Reopened bool        `json:"reopened"` // one more attempt is allowed, whatever the line says
	Resolved *resolution `json:"resolved"`
}

// A resolution is how a person has settled the slot. The entry is then of an attempt that nobody runs; the newest real one
// stands here.
type resolution struct {
	As     string `json:"as"` // done | reopened
	By     string `json:"by"`
	At     int64  `json:"at"`
	Reason string `json:"reason"`
	Was    string `json:"was"` // the state of the newest real attempt
	RunID  string `json:"run_id"`
	Try    int    `json:"try"`
	Token  int64  `json:"token,string"`
}

// A reply is the verdict of begin.lua, regain.lua or finish.lua, and what it is said with.
type reply struct {
	Verdict      string   `json:"verdict"`
	Token        int64    `json:"token,string"`
	Attempt      int      `json:"attempt"`
	Time         int64    `json:"time"` // ms, Redis's clock
	Entry        *entry   `json:"entry"`
	Holder       string   `json:"holder"` // the lock's value, "" if nobody has it
	TTL          int64    `json:"ttl"`    // ms
	Told         bool     `json:"told"`
	Listed       string   `json:"listed"`
	Zone         string   `json:"zone"`
	ZoneHost     string   `json:"zone_host"`
	ZoneSince    string   `json:"zone_since"`
	Oldest       string   `json:"oldest"` // of old: how far back the ledger reaches
	Paused       string   `json:"paused"`
	Current      string   `json:"current"`
	Heard        int64    `json:"heard"`
	Asked        string   `json:"asked"`            // when this host first asked for this slot, HH:MM
	Left         int      `json:"left"`             // attempts after this one
	First        string   `json:"first"`            // the first slot that a merged run covers
	Accounted    int64    `json:"accounted,string"` // ms: up to here the line's slots have entries
	Owed         []string `json:"owed"`
	Earlier      string   `json:"earlier"`
	EarlierEntry *entry   `json:"earlier_entry"`
	Other        *other   `json:"other"`
}

// Another is the slot that stands in the way: of behind, its entry; of shape, the slot met.
type other struct {
	entry
	Slot  string `json:"slot"`
	Shape string `json:"shape"`
}

// An end is what finish.lua reads: how an attempt ended.
type end struct {
	attempt
	asker
	terms
	Slot    string `json:"slot"`
	Begins  int64  `json:"begins"`
	State   string `json:"state"` // done | failed | unstarted
	Exit    string `json:"exit"`
	Signal  string `json:"signal"`
	Reason  string `json:"reason"`
	Kept    bool   `json:"kept"`
	Number  int    `json:"attempt"`
	Token   int64  `json:"token,string"`
	Began   int64  `json:"began"`
	Took    int64  `json:"took"` // ms
	Listed  bool   `json:"listed"`
	Channel string `json:"channel"`
}

// A ledger is one namespace in one Redis.
type ledger struct {
	redis.UniversalClient
	namespace string
}

// Braces mark the hash tag that keeps a job's keys together in a cluster; in a name they are encoded, and so is the
// sign that encodes.
var keyEncoder = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

func (l *ledger) prefix(job string) string {
	return keyEncoder.Replace(l.namespace) + ":{" + keyEncoder.Replace(job) + "}:"
}

// keys are a job's, in the order that every script expects.
func (l *ledger) keys(job string) []string {
	p := l.prefix(job)
	return []string{p + "lock", p + "fence", p + "ledger", p + "slots", p + "log", p + "meta", p + "hosts"}
}

func (l *ledger) channel(job string) string { return l.prefix(job) + "events" }

func (l *ledger) jobsKey() string { return keyEncoder.Replace(l.namespace) + ":jobs" }

// list puts the job into the list of jobs, which lies apart from the job's own keys. Doing it again changes nothing.
func (l *ledger) list(ctx context.Context, job string) error {
	cmd := redis.NewIntCmd(ctx, "sadd", l.jobsKey(), job)
	return l.Process(ctx, onceCmd{cmd})
}

// alone sends one of our scripts without redislock's.
func (l *ledger) alone(ctx context.Context, script, job string, question any) (string, error) {
	text, err := json.Marshal(question)
	if err != nil {
		return "", err
	}
	cmd := eval(ctx, bare(entryLua, script), l.keys(job), string(text))
	l.Process(ctx, onceCmd{cmd})
	answer, err := cmd.Text()
	return answer, noNil(err)
}

// foresee asks what begin would decide, and changes nothing.
func (l *ledger) foresee(ctx context.Context, job string, q question) (*reply, error) {
	q.Dry = true
	text, err := l.alone(ctx, beginLua, job, q)
	if err != nil {
		return nil, err
	}
	return decode[reply](text)
}

// finish writes an end without touching the lease.
func (l *ledger) finish(ctx context.Context, job string, e end) (*reply, error) {
	text, err := l.alone(ctx, finishLua, job, e)
	if err != nil {
		return nil, err
	}
	return decode[reply](text)
}

// A missedSlot is one that was due, and that nobody asked for.
type missedSlot struct {
	name             string
	begins, from, to int64 // ms
}

func (d missedSlot) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{d.name, d.begins, d.from, d.to})
}

// A missedReply is missed.lua's: what it wrote, and which of the slots are to be caught up with.
type missedReply struct{ Written, Open []string }

// writeMissed writes slots as missed, where there is no entry.
func (l *ledger) writeMissed(ctx context.Context, job string, slots []missedSlot, q question) (*missedReply, error) {
	text, err := l.alone(ctx, missedLua, job, struct {
		question
		Slots []missedSlot `json:"slots"`
	}{q, slots})
	if err != nil {
		return nil, err
	}
	return decode[missedReply](text)
}

func decode[T any](text string) (*T, error) {
	v := new(T)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return nil, fmt.Errorf("the ledger's answer is not understood: %w", err)
	}
	return v, nil
}

// A onceCmd is never sent again by go-redis: the answer to a lost reply is ours to find, with the clock in sight. The
// client's own MaxRetries is ignored by its cluster form.
type onceCmd struct{ redis.Cmder }

func (onceCmd) NoRetry() bool { return true }

var errNoMaster = errors.New("no master of that name is known")

// noNil makes an error of its own of redis.Nil. No script of ours answers nil: it is the Sentinels that know nothing.
func noNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return errNoMaster
	}
	return err
}

// bare is the script of these parts without comment lines and indentation. Redis hashes every script that it is sent, word
// for word.
func bare(parts ...string) string {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	var b strings.Builder
	b.Grow(size)
	for _, part := range parts {
		for line := range strings.Lines(part) {
			if line = strings.TrimLeft(line, " \t"); !strings.HasPrefix(line, "--") && line != "\n" {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

func eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	all := []any{"eval", script, len(keys)}
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}
