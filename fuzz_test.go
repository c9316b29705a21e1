package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The protocol under fire: many clients, leases of some hundredths of a second, requests that come twice, late or never,
// answers that get lost, clients that stall or die. A referee sees every request that Redis really executed, and what
// Redis said to it, also where the client never learns of it; it knows what must not be.

const (
	fuzzClients   = 24
	fuzzJobs      = 4
	fuzzRound     = 4 * time.Second
	fuzzLongest   = 60 * time.Millisecond  // the longest lease
	fuzzLatest    = 240 * time.Millisecond // how late a copy may come
	fuzzFirstSlot = 1796000000000          // ms, the beginning of slot 0
	fuzzFaults    = 20                     // after so many there is nothing more to learn
)

// fuzzFloor is what must happen for each second that is asked for, or the fuzz was too kind to prove anything. A machine
// that is busy gets four times as long.
var fuzzFloor = map[string]float64{"grants": 15, "done": 2, "takeovers": 1, "stale": 0.15, "lost": 2, "unstarted": 10,
	"kept": 2, "retries": 0.7, "refused retries": 0.7, "late begins after the end": 5, "late ends told before": 0.5,
	"copies spared a newer try": 0.15, "unanswered": 20, "trimmed": 5, "paused": 10, "errors": 10}

const fuzzPatience = 4

// TestProtocolFuzz runs for ONCEONLY_TEST_FUZZ (20s). ONCEONLY_TEST_SEED repeats the choices of a run, not its timing.
func TestProtocolFuzz(t *testing.T) {
	length := 20 * time.Second
	if s := os.Getenv("ONCEONLY_TEST_FUZZ"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	f := newFuzz(newRedis(t), fuzzSeed(t))
	began := time.Now()
	for took := time.Duration(0); len(f.faults) == 0; took = time.Since(began) {
		if missed := f.missed(length); took > length*fuzzPatience || (took > length && missed == "") {
			if missed != "" {
				t.Errorf("too kind: %s", missed)
			}
			break
		}
		f.round(min(fuzzRound, length))
	}
	for _, fault := range f.faults {
		t.Error(fault)
	}
	t.Logf("seed %d, %v: %s, violations: %d", f.seed, time.Since(began).Round(time.Second), f, len(f.faults))
}

// missed says what has not happened often enough.
func (f *fuzz) missed(length time.Duration) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(fuzzFloor)) {
		if want := int(fuzzFloor[what] * length.Seconds()); f.figures[what] < want {
			all = append(all, fmt.Sprintf("%d %s, want %d", f.figures[what], what, want))
		}
	}
	return strings.Join(all, "; ")
}

func fuzzSeed(t *testing.T) uint64 {
	s := os.Getenv("ONCEONLY_TEST_SEED")
	if s == "" {
		return rand.Uint64N(1e9)
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// A fuzz is one server under fire, and its referee.
type fuzz struct {
	rdb     *redis.Client
	seed    uint64
	rounds  int
	mu      sync.Mutex // for all below
	figures map[string]int
	faults  []string
	fuzzBook
	bases  [fuzzJobs]atomic.Int64 // the oldest slot that is worth asking for
	stop   context.Context
	halt   context.CancelFunc
	copies sync.WaitGroup
}

// A fuzzBook is what the referee knows of one round.
type fuzzBook struct {
	attempts map[attempt]*fuzzAttempt
	over     map[string]boot         // run ID -> when its client was through with it, with everything answered
	tokens   map[string]attempt      // lock key and token -> who has it
	done     map[string]boot         // lock key and slot -> when an end "done" had been written
	greatest map[string]*fuzzAttempt // lock key -> the greatest token
}

// A fuzzAttempt is all that is known of one attempt. Times are on this machine's clock; 0 is never.
type fuzzAttempt struct {
	attempt
	lock, slot    string
	asked, given  boot // first sent; first answered with a token
	token         int64
	number        int
	from, until   boot // the command ran, as far as its client can prove
	verdict       string
	state         string
	ended         boot // the end had been answered
	wrote, stales int  // how often the end was taken as new, and as stale
	newest        bool // no newer one stood when it was taken as new
	overtook      bool // the attempt before had not reported
}

func newFuzz(r *redisServer, seed uint64) *fuzz {
	return &fuzz{seed: seed, figures: map[string]int{}, rdb: redis.NewClient(&redis.Options{Network: "unix",
		Addr: r.socket, MaxRetries: -1, Protocol: 2, PoolSize: 200, ReadTimeout: time.Minute, DisableIdentity: true})}
}

func (f *fuzz) String() string {
	var b strings.Builder
	for i, what := range slices.Sorted(maps.Keys(f.figures)) {
		fmt.Fprintf(&b, "%s%s: %d", strings.Repeat(", ", min(i, 1)), what, f.figures[what])
	}
	return b.String()
}

// round lets the clients loose for a while, waits until the dust has settled, and judges what is left. A round has its
// own keys.
func (f *fuzz) round(length time.Duration) {
	f.fuzzBook = fuzzBook{map[attempt]*fuzzAttempt{}, map[string]boot{}, map[string]attempt{}, map[string]boot{},
		map[string]*fuzzAttempt{}}
	f.rounds++
	for i := range f.bases {
		f.bases[i].Store(0)
	}
	f.stop, f.halt = context.WithTimeout(context.Background(), length)
	defer f.halt()
	var clients sync.WaitGroup
	for n := range fuzzClients {
		c := f.client(n)
		clients.Go(func() {
			for f.stop.Err() == nil {
				c.run()
			}
		})
	}
	for n := range fuzzJobs {
		clients.Go(func() { f.trouble(n) })
	}
	clients.Wait()
	f.copies.Wait()
	time.Sleep(fuzzLongest + 5*time.Millisecond) // no lease can be alive
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range fuzzJobs {
		f.judge(f.job(n))
	}
	if err := f.rdb.FlushAll(context.Background()).Err(); err != nil {
		f.fault("flush: %v", err)
	}
}

func (f *fuzz) namespace() string { return "fuzz" + strconv.Itoa(f.rounds) }

func (f *fuzz) job(n int) string { return "job" + strconv.Itoa(n) }

// fault notes what must not be, with f.mu held. A new fault ends the round.
func (f *fuzz) fault(format string, args ...any) {
	if len(f.faults) < fuzzFaults {
		f.faults = append(f.faults, fmt.Sprintf(format, args...))
	}
	f.halt()
}

func (f *fuzz) count(what string) {
	f.mu.Lock()
	f.figures[what]++
	f.mu.Unlock()
}

// trouble pauses a job now and then, and breaks a key of it: an error must never take or leave a lease.
func (f *fuzz) trouble(n int) {
	const (
		hide = `if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end
			return redis.call('SET', KEYS[1], 'x')`
		show = `redis.call('DEL', KEYS[1])
			return redis.call('EXISTS', KEYS[2]) == 1 and redis.call('RENAME', KEYS[2], KEYS[1])`
	)
	ctx, r := context.Background(), rand.New(rand.NewPCG(f.seed, uint64(f.rounds)<<32+1000+uint64(n)))
	k := (&ledger{f.rdb, f.namespace()}).keys(f.job(n))
	for f.stop.Err() == nil {
		time.Sleep(time.Duration(r.IntN(80)) * time.Millisecond)
		if r.IntN(3) == 0 {
			f.rdb.HSet(ctx, k[5], "paused", "{}")
			time.Sleep(time.Duration(1+r.IntN(12)) * time.Millisecond)
			f.rdb.HDel(ctx, k[5], "paused")
			continue
		}
		broken := []string{k[4], k[5]}[r.IntN(2)]
		f.rdb.Eval(ctx, hide, []string{broken, broken + "."})
		time.Sleep(time.Duration(1+r.IntN(5)) * time.Millisecond)
		f.rdb.Eval(ctx, show, []string{broken, broken + "."})
	}
}

// A fuzzWire is the way of one client to Redis: it doubles, delays and loses. It never tells the client what it knows.
type fuzzWire struct {
	redis.UniversalClient // nil: only Process is used
	fuzz                  *fuzz
	r                     *rand.Rand
	quiet                 bool  // nothing is lost: a client that has waited long enough
	unanswered            bool  // a copy of a question may be under way, and its client knows
	granted               []any // the last question that was given a token
}

var errUnanswered = errors.New("no answer")

func (w *fuzzWire) Process(_ context.Context, cmd redis.Cmder) error {
	w.stall(40)
	if w.chance(50) && !w.quiet {
		w.fuzz.later(cmd.Args(), w.delay())
		return w.lose(cmd)
	}
	granted, times, errs := w.fuzz.send(cmd, false), 1+max(0, w.r.IntN(6)-3), 0
	for n := 1; ; n++ { // whoever sends again does so for want of an answer, and takes the last one
		if cmd.Err() != nil && cmd.Err() != redis.Nil {
			errs++
		}
		if n == times {
			break
		}
		again := redis.NewCmd(context.Background(), cmd.Args()...)
		granted = w.fuzz.send(again, false) || granted
		cmd.SetErr(again.Err())
		cmd.(onceCmd).Cmder.(*redis.Cmd).SetVal(again.Val())
	}
	if errs > 0 && errs < times {
		return w.lose(cmd)
	}
	if granted {
		w.granted = cmd.Args()
	}
	lost := (w.chance(25) || (granted && w.chance(8))) && !w.quiet
	if (granted || lost) && w.r.IntN(3) == 0 { // who knows of no unanswered question has none, or was given a token
		w.fuzz.later(cmd.Args(), w.delay())
	}
	w.stall(40)
	if lost {
		return w.lose(cmd)
	}
	return cmd.Err()
}

func (w *fuzzWire) chance(of int) bool { return w.r.IntN(of) == 0 }

func (w *fuzzWire) lose(cmd redis.Cmder) error {
	w.unanswered = true
	w.fuzz.count("unanswered")
	cmd.SetErr(errUnanswered)
	return errUnanswered
}

// stall is a client, or a network, that takes its time: seldom, and then up to more than a lease.
func (w *fuzzWire) stall(of int) {
	if w.chance(of) {
		time.Sleep(time.Duration(w.r.Int64N(int64(fuzzLongest) * 5 / 4)))
	}
}

func (w *fuzzWire) delay() time.Duration {
	if w.chance(2) {
		return time.Duration(w.r.Int64N(int64(8 * time.Millisecond)))
	}
	return time.Duration(w.r.Int64N(int64(fuzzLatest)))
}

// later sends the same bytes when their time has come, over another connection.
func (f *fuzz) later(args []any, delay time.Duration) {
	f.copies.Go(func() {
		time.Sleep(delay)
		f.send(redis.NewCmd(context.Background(), args...), true)
	})
}

// send has Redis execute a request, and tells the referee. It returns true if that gave a token.
func (f *fuzz) send(cmd redis.Cmder, late bool) bool {
	args := cmd.Args()
	lock, text := args[3].(string), args[len(args)-1].(string)
	var e end // a question has no state
	json.Unmarshal([]byte(text), &e)
	sent := bootNow()
	f.mu.Lock()
	if a := f.attempt(lock, e); e.State == "" && a.asked == 0 {
		a.asked = sent
	}
	f.mu.Unlock()
	err := f.rdb.Process(context.Background(), cmd)
	got := bootNow()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !errors.Is(err, redis.Nil) {
		f.figures["errors"]++
		if !strings.Contains(err.Error(), "WRONGTYPE") {
			f.fault("%v", err)
		}
		return false
	}
	answer := fuzzAnswer(cmd)
	switch {
	case answer == "": // a renewal
	case e.State != "":
		f.sawEnd(f.attempt(lock, e), e, answer, sent, got, late)
	default:
		return f.sawBegin(f.attempt(lock, e), answer, sent, got, late)
	}
	return false
}

// fuzzAnswer is what our script said, with redislock's or alone.
func fuzzAnswer(cmd redis.Cmder) string {
	if once, ok := cmd.(onceCmd); ok {
		cmd = once.Cmder
	}
	switch v := cmd.(*redis.Cmd).Val().(type) {
	case string:
		return v
	case []any:
		s, _ := v[1].(string)
		return s
	}
	return ""
}

// attempt finds what is known of an attempt, or begins to know it.
func (f *fuzz) attempt(lock string, e end) *fuzzAttempt {
	a := f.attempts[e.attempt]
	if a == nil {
		a = &fuzzAttempt{attempt: e.attempt, lock: lock, slot: e.Slot}
		if e.RunID != "" {
			f.attempts[e.attempt] = a
		}
	}
	return a
}

func (a *fuzzAttempt) String() string {
	return fmt.Sprintf("%s %s, attempt %d (%.6s.%d, token %d)", a.lock, a.slot, a.number, a.RunID, a.Try, a.token)
}

// after says that something was sent when another thing was known to have happened.
func after(sent, known boot) bool { return known != 0 && sent > known }

// sawBegin judges one answer of begin.lua.
func (f *fuzz) sawBegin(a *fuzzAttempt, answer string, sent, got boot, late bool) bool {
	r, err := decode[reply](answer)
	if err != nil {
		f.fault("%s: %v", answer, err)
		return false
	}
	f.sawLock(a, r, sent)
	if late && after(sent, a.ended) {
		f.figures["late begins after the end"]++
	}
	if late && r.Verdict == "ended" && r.Entry.RunID == a.RunID && r.Entry.Try > a.Try && r.TTL > 0 &&
		r.Holder[:32] == a.RunID {
		f.figures["copies spared a newer try"]++
	}
	if r.Verdict == "paused" {
		f.figures["paused"]++
	}
	if r.Verdict != "run" {
		return false
	}
	switch slot := a.lock + " " + a.slot; {
	case after(sent, a.ended):
		f.fault("%v: begun again by a copy %v after its end (%s) was known", a, time.Duration(sent-a.ended), a.state)
	case after(sent, f.over[a.RunID]):
		f.fault("%v: begun with nobody behind it, %v after its client had left", a, time.Duration(sent-f.over[a.RunID]))
	case after(sent, f.done[slot]):
		f.fault("%v: begun %v after the slot was done", a, time.Duration(sent-f.done[slot]))
	case a.token != 0 && (a.token != r.Token || a.number != r.Attempt):
		f.fault("%v: asked again, got token %d, attempt %d", a, r.Token, r.Attempt)
	}
	if a.token == 0 {
		a.token, a.number, a.given = r.Token, r.Attempt, got
		f.granted(a, r)
	}
	a.given = min(a.given, got)
	if r.Entry != nil && r.Entry.State == "running" && (r.Entry.RunID != a.RunID || r.Entry.Try != a.Try) {
		a.overtook = true
	}
	if best := f.greatest[a.lock]; best == nil || r.Token > best.token {
		f.greatest[a.lock] = a
	} else if r.Token < best.token && after(sent, best.given) {
		f.fault("%v: the token was given again when %v had been given", a, best)
	}
	return true
}

// granted judges a token that is new.
func (f *fuzz) granted(a *fuzzAttempt, r *reply) {
	name := fmt.Sprint(a.lock, a.token)
	if other, taken := f.tokens[name]; taken {
		f.fault("%v: %v has the same token", a, f.attempts[other])
	}
	f.tokens[name] = a.attempt
	f.figures["grants"]++
}

// sawLock judges the lock as a question found it, and left it.
func (f *fuzz) sawLock(a *fuzzAttempt, r *reply, sent boot) {
	if r.TTL == -1 {
		f.fault("%v: the lock has no expiry", a)
	}
	if r.Holder == "" {
		return
	}
	holder := r.Holder[:32]
	if holder == a.RunID && r.Verdict != "run" && r.TTL != -2 {
		if best := f.greatest[a.lock]; r.Verdict == "lost" || (r.Entry != nil && r.Entry.RunID == a.RunID &&
			best != nil && best.token > r.Entry.Token && after(sent, best.given)) {
			f.fault("%v: its token was spent, and it kept a lease (%s)", a, r.Verdict)
		}
	}
	if !after(sent, f.over[holder]) {
		return
	}
	ago := time.Duration(sent - f.over[holder])
	switch {
	case holder != a.RunID:
		f.fault("%v asked, and found the lock of %.6s, which had left %v before", a, holder, ago)
	case r.TTL != -2:
		f.fault("%v: a copy that came %v after it had left kept a lease (%s)", a, ago, r.Verdict)
	}
}

// sawEnd judges one answer of finish.lua.
func (f *fuzz) sawEnd(a *fuzzAttempt, e end, answer string, sent, got boot, late bool) {
	r, err := decode[receipt](answer)
	if err != nil {
		f.fault("%s: %v", answer, err)
		return
	}
	if after(sent, a.ended) && r.Verdict != "already" && r.Verdict != "late" {
		f.fault("%v: end told twice: %s after %s", a, r.Verdict, a.verdict)
	}
	switch r.Verdict {
	case "already":
		if late {
			f.figures["late ends told before"]++
		}
	case "ok":
		a.wrote++
		a.state = e.State
		f.figures[e.State]++
		a.newest = r.Entry != nil && r.Entry.RunID == a.RunID && r.Entry.Try == a.Try
		if slot := a.lock + " " + a.slot; e.State == "done" && (f.done[slot] == 0 || got < f.done[slot]) {
			f.done[slot] = got
		}
	case "stale":
		a.stales++
		f.figures["stale"]++
		f.figures[a.lock+" count_stale"]++
	}
	if a.verdict == "" || a.verdict == "already" {
		a.verdict = r.Verdict
	}
	if a.ended == 0 || got < a.ended {
		a.ended = got
	}
}

// A fuzzClient is one process after another, each as onceonly has it.
type fuzzClient struct {
	fuzz *fuzz
	r    *rand.Rand
	name string
	wire *fuzzWire
	n    int
	l    *lease
	q    question
}

func (f *fuzz) client(n int) *fuzzClient {
	return &fuzzClient{fuzz: f, name: "host" + strconv.Itoa(n),
		r: rand.New(rand.NewPCG(f.seed, uint64(f.rounds)<<32+uint64(n)+1))}
}

// choose takes a job, and one of its slots: mostly one of the four that are worth asking for. Every slot has its own
// number of attempts; job 0 keeps next to nothing.
func (c *fuzzClient) choose() {
	c.n = c.r.IntN(fuzzJobs)
	slot := c.fuzz.bases[c.n].Load() + c.r.Int64N(4)
	if c.r.IntN(20) == 0 {
		slot = max(0, slot-c.r.Int64N(30))
	}
	keep := 40
	if c.n == 0 {
		keep = 3
	}
	c.q = question{asker: asker{Host: c.name, PID: 1, User: "root", Version: "test"},
		terms: terms{Every: "1m", DayStart: "00:00", Attempts: 1 + int(slot%3), Lease: 1, Keep: keep, Zone: "UTC",
			Offsets: "+00:00 +00:00", ZoneFrom: "default", Line: "line"},
		Slot: fmt.Sprintf("slot-%04d", slot), Begins: fuzzFirstSlot + slot*60000,
		Overlap: []string{"skip", "wait"}[c.r.IntN(2)]}
}

// run is one process, from its question to its end.
func (c *fuzzClient) run() {
	c.choose()
	c.wire = &fuzzWire{fuzz: c.fuzz, r: c.r}
	ttl := time.Duration(20+c.r.IntN(int(fuzzLongest/time.Millisecond)-19)) * time.Millisecond
	c.l = newLease(&ledger{c.wire, c.fuzz.namespace()}, c.fuzz.job(c.n), c.name+":1", ttl)
	for c.q.Try = 1; ; c.q.Try++ {
		r := c.ask()
		if r == nil || r.Verdict != "run" {
			c.refused(r)
			return
		}
		if c.q.Try > 1 {
			c.fuzz.count("retries")
		}
		if !c.attempt(r) {
			return
		}
	}
}

// ask asks until there is an answer with more than half the lease left; nil if it gives up.
func (c *fuzzClient) ask() *reply {
	given := false
	for {
		r, err := c.l.begin(context.Background(), c.q)
		switch {
		case err == nil && r.Verdict != "run":
			if given && !c.l.ends().past() {
				c.fault("asked again in its lease, it was told %s", r.Verdict)
			}
			return r
		case err == nil && c.l.kill().until() > c.l.ttl/2:
			return r
		case err == nil:
			given, c.wire.unanswered = true, true
		case !errors.Is(err, errUnanswered):
			return nil
		}
		if c.r.IntN(8) == 0 {
			return nil
		}
		time.Sleep(time.Duration(c.r.IntN(4)) * time.Millisecond)
		c.wire.stall(4)
	}
}

// refused leaves. Who has asked without an answer, or has kept the lease, says so: what is under way then does nothing.
func (c *fuzzClient) refused(r *reply) {
	if c.q.Try > 1 {
		c.fuzz.count("refused retries")
	}
	if c.wire.unanswered || (r == nil && c.q.Try > 1) || (r != nil && (r.Verdict == "lost" || r.Verdict == "ended")) {
		if c.r.IntN(10) != 0 { // else it dies
			c.unstarted(r)
		}
		return
	}
	c.over()
	if r == nil { // Redis refused
		return
	}
	switch r.Verdict {
	case "done", "failed", "uncertain", "old":
		oldest := &c.fuzz.bases[c.n]
		if n := (c.q.Begins - fuzzFirstSlot) / 60000; n == oldest.Load() {
			oldest.CompareAndSwap(n, n+1)
		}
		if r.Verdict == "old" {
			c.fuzz.count("trimmed")
		}
	}
	time.Sleep(time.Duration(c.r.IntN(4)) * time.Millisecond)
}

// over tells the referee that this process has left for good, and that nothing of it may be seen from now on.
func (c *fuzzClient) over() {
	c.fuzz.mu.Lock()
	c.fuzz.over[c.l.runID] = bootNow()
	c.fuzz.mu.Unlock()
}

func (c *fuzzClient) fault(format string, args ...any) {
	f := c.fuzz
	f.mu.Lock()
	f.fault("%v: %s", f.attempt("", end{attempt: attempt{c.l.runID, c.q.Try}}), fmt.Sprintf(format, args...))
	f.mu.Unlock()
}

// attempt is the command, from its start to its end. It returns true if the same process tries again.
func (c *fuzzClient) attempt(r *reply) bool {
	c.wire.stall(12)
	if c.r.IntN(12) == 0 || c.l.kill().past() { // nothing begins once the lease is past
		c.unstarted(r)
		return false
	}
	f := c.fuzz
	f.mu.Lock()
	a := f.attempts[attempt{c.l.runID, c.q.Try}]
	a.from = bootNow()
	f.mu.Unlock()
	c.l.claim = func() end { return c.end(r) }
	lost, dead := c.work()
	f.mu.Lock()
	a.until = min(bootNow(), dead)
	f.mu.Unlock()
	if c.r.IntN(12) == 0 {
		return false // killed: nobody says how it ended
	}
	e := c.end(r)
	switch n := c.r.IntN(10); {
	case n < 3 && !lost:
		e.State, e.Exit = "done", "0"
	default:
		e.State, e.Exit, e.Kept = "failed", "1", n > 5 && !lost
	}
	if !c.tell(e) {
		return false
	}
	f.mu.Lock()
	if (a.verdict == "stale" || a.verdict == "late") && a.ended < c.l.ends() && !lost {
		f.fault("%v: its end was %s %v before its lease was over", a, a.verdict, time.Duration(c.l.ends()-a.ended))
	}
	f.mu.Unlock()
	if e.Kept {
		return c.again(e)
	}
	c.over()
	return false
}

// work takes its time and keeps the lease, more or less. It returns true if the lease is lost, and when the command was
// dead at the latest.
func (c *fuzzClient) work() (bool, boot) {
	for range c.r.IntN(5) {
		if c.r.IntN(3) != 0 {
			time.Sleep(time.Duration(c.r.Int64N(int64(c.l.ttl / 3))))
		}
		c.wire.stall(15)
		if c.l.kill().past() {
			c.fuzz.count("lost")
			return true, c.l.kill()
		}
		if c.r.IntN(3) == 0 {
			continue
		}
		kill := c.l.kill()
		err := c.l.renew(context.Background())
		if left := c.l.ends().until(); errors.Is(err, errLost) && left > 0 {
			c.fault("its lease was gone %v before its time", left)
		}
		if errors.Is(err, errLost) || kill.past() { // an answer that comes too late finds the command dead
			c.fuzz.count("lost")
			return true, kill
		}
	}
	return false, c.l.kill()
}

// again waits for a retry with the lease kept. It returns false if there will be none.
func (c *fuzzClient) again(e end) bool {
	c.fuzz.count("kept")
	if c.r.IntN(12) == 0 {
		return false // killed
	}
	c.fuzz.later(c.wire.granted, c.wire.delay()) // to meet the next try
	lost, _ := c.work()
	if c.r.IntN(8) == 0 || (lost && c.r.IntN(2) == 0) || c.q.Try > 5 { // told to stop
		e.Kept = false
		if c.tell(e) {
			c.over()
		}
		return false
	}
	c.wire.unanswered = false // of the question to come nothing is under way
	return true
}

func (c *fuzzClient) end(r *reply) end {
	e := end{attempt: attempt{Try: c.q.Try}, asker: c.q.asker, terms: c.q.terms, Slot: c.q.Slot, Begins: c.q.Begins,
		Channel: "events"}
	if r != nil {
		e.Number, e.Token, e.Began = r.Attempt, r.Token, r.Time
	}
	return e
}

func (c *fuzzClient) unstarted(r *reply) {
	e := c.end(r)
	e.State, e.Reason = "unstarted", "not_started"
	if c.tell(e) {
		c.over()
	}
}

// tell sends an end until it is answered. Seldom the client dies before.
func (c *fuzzClient) tell(e end) bool {
	for n := 0; ; n++ {
		c.wire.quiet = n > 3
		_, err := c.l.finish(context.Background(), e)
		if err == nil {
			c.wire.quiet = false
			return true
		}
		if c.r.IntN(30) == 0 {
			return false
		}
		time.Sleep(time.Duration(c.r.IntN(3)) * time.Millisecond)
	}
}

// judge compares what a job's keys say with what was seen, when nothing moves any more.
func (f *fuzz) judge(job string) {
	ctx := context.Background()
	k := (&ledger{f.rdb, f.namespace()}).keys(job)
	if lock, err := f.rdb.Get(ctx, k[0]).Result(); err != redis.Nil {
		f.fault("%s: a lock is left: %q, %v", job, lock, err)
	}
	entries, meta := f.rdb.HGetAll(ctx, k[2]).Val(), f.rdb.HGetAll(ctx, k[5]).Val()
	var all []*fuzzAttempt
	slots := map[string][]*fuzzAttempt{}
	for _, a := range f.attempts {
		if a.lock == k[0] {
			all = append(all, a)
			slots[a.slot] = append(slots[a.slot], a)
			if a.overtook {
				f.figures["takeovers"]++
				f.figures[k[0]+" count_uncertain"]++
			}
			if a.wrote > 0 && a.newest && a.token != 0 {
				f.figures[k[0]+" count_"+a.state]++
			}
		}
	}
	for slot, attempts := range slots {
		f.judgeSlot(job, slot, attempts, entries[slot], number(meta["low"]))
	}
	for _, what := range []string{"done", "failed", "unstarted", "stale", "uncertain"} {
		what = "count_" + what
		if got, seen := number(meta[what]), f.figures[k[0]+" "+what]; got != int64(seen) {
			f.fault("%s: %s is %d, seen were %d", job, what, got, seen)
		}
		delete(f.figures, k[0]+" "+what)
	}
	f.judgeOrder(all)
	f.judgeLog(job, f.rdb.XRange(ctx, k[4], "-", "+").Val())
}

// judgeSlot judges one slot: its attempts, and the entry that is left.
func (f *fuzz) judgeSlot(job, slot string, attempts []*fuzzAttempt, text string, low int64) {
	n, _ := strconv.ParseInt(slot[len(slot)-4:], 10, 64)
	var newest *fuzzAttempt
	stales, started := 0, map[int]*fuzzAttempt{}
	for _, a := range attempts {
		stales += a.stales
		if a.token != 0 && (newest == nil || a.token > newest.token) {
			newest = a
		}
		if a.wrote+a.stales > 1 || (a.wrote+a.stales == 0 && a.verdict == "already") {
			f.fault("%v: its end was taken %d times, %d of them stale", a, a.wrote+a.stales, a.stales)
		}
		if a.from == 0 {
			continue
		}
		if other := started[a.number]; other != nil {
			f.fault("%v and %v both started", a, other)
		}
		started[a.number] = a
		if a.number > 1+int(n%3) {
			f.fault("%v: %d were allowed", a, 1+n%3)
		}
	}
	for _, a := range attempts {
		if a.wrote == 1 && a.state == "done" && newest != a {
			f.fault("%v is done, and %v came after it", a, newest)
		}
	}
	if text == "" {
		if newest != nil && fuzzFirstSlot+n*60000 > low {
			f.fault("%v: no entry", newest)
		}
		return
	}
	e, err := decode[entry](text)
	if err != nil {
		f.fault("%s %s: %v", job, slot, err)
		return
	}
	f.judgeEntry(job, slot, e, newest, stales)
}

// judgeEntry compares an entry with the newest attempt.
func (f *fuzz) judgeEntry(job, slot string, e *entry, newest *fuzzAttempt, stales int) {
	state, number := "", 0
	if newest != nil {
		state, number = "running", newest.number
		switch {
		case newest.wrote > 0 && newest.state == "unstarted":
			state, number = "failed", number-1
		case newest.wrote > 0:
			state = newest.state
		}
		if e.Token != newest.token || e.RunID != newest.RunID || e.Try != newest.Try {
			f.fault("%s %s: the entry is of token %d, not of %v", job, slot, e.Token, newest)
		}
	}
	switch left := f.over[e.RunID] != 0; {
	case newest == nil && (e.Attempt != 0 || e.State == "running" || e.State == "done"):
		f.fault("%s %s: nothing ran, the entry is %+v", job, slot, *e)
	case newest != nil && (e.State != state || e.Attempt != number):
		f.fault("%v: the entry is %+v, want %s, attempt %d", newest, *e, state, number)
	case left && e.State == "running":
		f.fault("%v: running, and nobody runs it", newest)
	case left && e.Kept:
		f.fault("%v: kept for a retry, and nobody is there", newest)
	case e.Stale != stales:
		f.fault("%s %s: %d stale ends are written, %d were seen", job, slot, e.Stale, stales)
	}
}

// judgeOrder holds tokens and commands of one job against real time.
func (f *fuzz) judgeOrder(all []*fuzzAttempt) {
	given := slices.DeleteFunc(slices.Clone(all), func(a *fuzzAttempt) bool { return a.token == 0 })
	asked := slices.Clone(given)
	slices.SortFunc(given, func(a, b *fuzzAttempt) int { return int(a.given - b.given) })
	slices.SortFunc(asked, func(a, b *fuzzAttempt) int { return int(a.asked - b.asked) })
	var greatest *fuzzAttempt
	for _, a := range asked {
		for len(given) > 0 && given[0].given < a.asked {
			if greatest == nil || given[0].token > greatest.token {
				greatest = given[0]
			}
			given = given[1:]
		}
		if greatest != nil && greatest.token >= a.token {
			f.fault("%v was asked for when %v had been given", a, greatest)
		}
	}
	ran := slices.DeleteFunc(asked, func(a *fuzzAttempt) bool { return a.from == 0 || a.until <= a.from })
	slices.SortFunc(ran, func(a, b *fuzzAttempt) int { return int(a.from - b.from) })
	for i := 1; i < len(ran); i++ {
		if before := ran[i-1]; before.until > ran[i].from {
			f.fault("%v and %v overlap by %v", before, ran[i], time.Duration(before.until-ran[i].from))
		}
		if ran[i].until < ran[i-1].until {
			ran[i].until = ran[i-1].until // the longest so far is what the next must not meet
		}
	}
}

// judgeLog wants the tokens of the log in its order, each one given to somebody.
func (f *fuzz) judgeLog(job string, log []redis.XMessage) {
	last := int64(0)
	for _, event := range log {
		if event.Values["event"] != "begin" {
			continue
		}
		token := number(event.Values["token"].(string))
		if token <= last {
			f.fault("%s: the log has token %d after %d", job, token, last)
		}
		last = token
	}
}
