package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// Hosts whose clocks are not the machine's, and a fleet of them. The test binary itself is what runs on such a host: with
// ONCEONLY_TEST_CLOCK it is onceonly, handed that clock, and so it can be killed like a host; the binary that people get
// has no such input. Called as test-effect it is a command that leaves a trace.

const testClock = "ONCEONLY_TEST_CLOCK" // "REAL SHOWN FACTOR": shows SHOWN at REAL (both ns), and goes so many times faster

func init() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "test-effect":
		os.Exit(fleetEffect(os.Args[2], os.Args[3]))
	case os.Getenv(testClock) != "":
		os.Exit(clocked(os.Args))
	}
}

// clocked is `onceonly run` with another clock.
func clocked(args []string) int {
	var real, shown, factor int64
	if _, err := fmt.Sscan(os.Getenv(testClock), &real, &shown, &factor); err != nil {
		return fatal(err)
	}
	os.Unsetenv(testClock)
	wall := func() time.Time { return time.Unix(0, shown+(time.Now().UnixNano()-real)*factor) }
	v := &voice{w: os.Stderr}
	run := func(c *cli.Context, s *settings) error {
		words := c.Args().Slice()
		call, err := newCall(words, dashed(args, len(words)), s, wall)
		if err != nil {
			return err
		}
		v.verbose = s.verbose
		if e := call.execute(v); e != nil {
			return e
		}
		return nil
	}
	err := (&cli.App{Commands: []*cli.Command{newCommand("run", "", runOptions, run)},
		ExitErrHandler: func(*cli.Context, error) {}}).Run(args)
	var e *exit
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &e):
		return fatal(err)
	}
	v.leave(e)
	return e.status
}

// commandAt is onceonly on that host at another time, not yet started. More than an hour from now the host is refused.
func (h *host) commandAt(at time.Time, args ...string) *exec.Cmd {
	return h.commandClock(fmt.Sprint(time.Now().UnixNano(), at.UnixNano(), 1), args...)
}

func (h *host) commandClock(clock string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(slices.Clone(h.env), testClock+"="+clock)
	return cmd
}

// runAt runs onceonly on that host at another time.
func (h *host) runAt(at time.Time, args ...string) result {
	h.t.Helper()
	var out, err strings.Builder
	cmd := h.commandAt(at, args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	return result{exitStatus(h.t, cmd.Run()), out.String(), err.String()}
}

// fleetEffect is a command: it writes START and END to the log, with what it was told, and OVERLAP if another one is at it: the
// kernel frees the lock of a dead one. It lasts from 0 to $ONCEONLY_TEST_LONGEST, and one in ten ends with 1.
func fleetEffect(log, lock string) int {
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fatal(err)
	}
	say := func(word string, status int) {
		fmt.Fprintf(f, "%s %s %s %s %d %d\n", word, os.Getenv("ONCEONLY_SLOT"), os.Getenv("ONCEONLY_FENCING_TOKEN"),
			os.Getenv("ONCEONLY_RUN_ID"), status, time.Now().UnixNano())
	}
	l, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fatal(err)
	}
	if syscall.Flock(int(l.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		say("OVERLAP", 0)
	}
	say("START", 0)
	longest, _ := time.ParseDuration(os.Getenv("ONCEONLY_TEST_LONGEST"))
	time.Sleep(rand.N(longest))
	status := 0
	if rand.N(10) == 0 {
		status = 1
	}
	say("END", status)
	return status
}

// A fleet has one line in the crontabs of its machines.
type fleet struct {
	t         *testing.T
	job       string
	factor    int64
	real      time.Time // when its clocks, but for each one's own error, showed
	shown     time.Time // this
	log       string
	lock      string
	command   string
	mu        sync.Mutex
	asks      []*fleetAsk
	processes sync.WaitGroup
}

// A fleetMachine is a host of the fleet while it is up.
type fleetMachine struct {
	*host
	fleet  *fleet
	offset time.Duration // its clock's error
	step   atomic.Int64  // its line comes every so many minutes
	line   atomic.Value
	up     context.Context
	down   context.CancelFunc
	crond  context.Context // ends before the machine does when it only fires no more
	stop   context.CancelFunc
}

// A fleetAsk is one process that a machine's cron started.
type fleetAsk struct {
	machine string
	minute  time.Time // that it was due
	line    string
	status  int
	killed  bool
	stderr  string
}

func (f *fleet) boot(name string, offset time.Duration, step int64, line string) *fleetMachine {
	m := &fleetMachine{host: newHost(f.t, name, "ONCEONLY_TEST_LONGEST="+(90*time.Second/time.Duration(f.factor)).String()),
		fleet: f, offset: offset}
	m.step.Store(step)
	m.line.Store(line)
	m.up, m.down = context.WithCancel(context.Background())
	m.crond, m.stop = context.WithCancel(m.up)
	f.processes.Add(1)
	go m.cron()
	return m
}

func (f *fleet) now() time.Time { return f.shown.Add(time.Since(f.real) * time.Duration(f.factor)) }

// cron starts the line whenever this machine's clock says so, until the machine is switched off.
func (m *fleetMachine) cron() {
	defer m.fleet.processes.Done()
	due := m.fleet.now().Add(m.offset).Truncate(time.Minute)
	for {
		for due = due.Add(time.Minute); due.Unix()/60%m.step.Load() != 0; {
			due = due.Add(time.Minute)
		}
		late := rand.N(time.Second) + 20*time.Millisecond
		if !wait(m.crond, due.Add(late).Sub(m.fleet.now().Add(m.offset))/time.Duration(m.fleet.factor)) {
			return
		}
		if due.Unix()/60%m.step.Load() != 0 {
			continue // the line was changed meanwhile
		}
		m.fleet.processes.Add(1)
		go m.ask(due)
	}
}

// ask runs the line once. When the machine is switched off, it is gone in the middle of whatever it does.
func (m *fleetMachine) ask(due time.Time) {
	f := m.fleet
	defer f.processes.Done()
	line := m.line.Load().(string)
	a := &fleetAsk{machine: m.name, minute: due.UTC(), line: line}
	clock := fmt.Sprint(f.real.UnixNano(), f.shown.Add(m.offset).UnixNano(), f.factor)
	args := []string{"run", "--job", f.job, "--schedule", line}
	if f.factor > 1 {
		args = append(args, "--lease", "3s")
	}
	cmd := m.commandClock(clock, append(args, "--", f.command, "test-effect", f.log, f.lock)...)
	var text strings.Builder
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		f.t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		a.status = exitStatus(f.t, err)
	case <-m.up.Done():
		a.killed = true
		cmd.Process.Kill()
		<-ended
	}
	a.stderr = text.String()
	f.mu.Lock()
	f.asks = append(f.asks, a)
	f.mu.Unlock()
}

// An effectLine is what the command wrote.
type effectLine struct {
	word, slot string
	token      int64
	runID      string
	status     int
	at         time.Time
}

func fleetEffects(t *testing.T, log string) []effectLine {
	t.Helper()
	var all []effectLine
	for _, text := range lines(log) {
		var e effectLine
		var at int64
		if _, err := fmt.Sscan(text, &e.word, &e.slot, &e.token, &e.runID, &e.status, &at); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		e.at = time.Unix(0, at)
		all = append(all, e)
	}
	return all
}

// A fleetEntry is an entry of the ledger, and the time that it covers; none if nothing began.
type fleetEntry struct {
	*entry
	from, to time.Time
}

func (f *fleet) ledger() map[string]fleetEntry {
	f.t.Helper()
	l := &ledger{shared.rdb, namespaceOf(f.t)}
	texts, err := shared.rdb.HGetAll(context.Background(), l.keys(f.job)[2]).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]fleetEntry{}
	for slot, text := range texts {
		e, err := decode[entry](text)
		if err != nil {
			f.t.Fatal(err)
		}
		var raw struct{ Span string }
		json.Unmarshal([]byte(text), &raw)
		begins, err := time.Parse("2006-01-02T15:04Z07:00", slot)
		if err != nil {
			f.t.Fatal(err)
		}
		v := fleetEntry{entry: e}
		if before, after, ok := strings.Cut(raw.Span, ","); ok {
			b, _ := strconv.Atoi(before)
			a, _ := strconv.Atoi(after)
			v.from, v.to = begins.Add(-time.Duration(b)*time.Second), begins.Add(time.Duration(a)*time.Second)
		}
		all[slot] = v
	}
	return all
}

// A fleet of twenty machines with clocks up to 30 s apart lives through what fleets live through: commands shorter and
// longer than the slot, machines that join and that die in the middle of a run, and the line changed machine by machine, to
// another spelling and then to every other minute. Whatever happens, every due minute is done, failed, skipped or uncertain,
// or lies in the time of a slot of the other line; none ran twice, no two commands overlapped, tokens grew, and the ledger
// says what the effects say. Fifteen times as fast as life; ONCEONLY_TEST_FLEET=10m lives that long in real time.
// (SH-01, SH-04, SH-11, SH-19)
func TestFleet(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	now := time.Now()
	f := &fleet{t: t, job: "fleet", factor: 15, real: now, shown: now, log: filepath.Join(dir, "log"),
		lock: filepath.Join(dir, "lock"), command: self}
	life := 45 * time.Second
	if text := os.Getenv("ONCEONLY_TEST_FLEET"); text != "" {
		if life, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		f.factor = 1
	}
	kills := f.live(life)
	if t.Failed() {
		return
	}
	f.judge(kills)
}

const fleetSize = 20

// live lets the fleet live, and returns when all its processes have ended. It returns how many machines were killed with
// the command running on them.
func (f *fleet) live(life time.Duration) (kills int) {
	var up []*fleetMachine
	offsets := rand.Perm(fleetSize - 1)
	offsets = append([]int{fleetSize - 1}, offsets...) // the first clock to show a minute is that of the first line to be changed
	boot := func(i int, step int64, line string) *fleetMachine {
		return f.boot(fmt.Sprintf("web-%d", i+1), time.Duration(offsets[i])*30*time.Second/(fleetSize-1)-15*time.Second, step, line)
	}
	for i := range fleetSize * 3 / 4 {
		up = append(up, boot(i, 1, "* * * * *"))
	}
	tick := life / 100
	for part := range 100 {
		time.Sleep(tick)
		switch {
		case part < 15 && part%3 == 2: // one joins
			up = append(up, boot(len(up), 1, "* * * * *"))
		case part >= 15 && part < 15+fleetSize:
			up[part-15].line.Store("*/1 * * * *")
		case part >= 38 && part < 38+2*fleetSize && part%2 == 1:
			m := up[(part-38)/2]
			m.line.Store("*/2 * * * *")
			m.step.Store(2)
		}
		if part%10 == 4 { // one dies, now and then in the middle of the command, and is booted again
			i, busy := rand.N(len(up)), false
			if part%20 != 4 {
				i, busy = f.victim(up)
			}
			if busy {
				kills++
			}
			old := up[i]
			old.down()
			number, _ := strconv.Atoi(strings.TrimPrefix(old.name, "web-"))
			up[i] = boot(number-1, old.step.Load(), old.line.Load().(string))
		}
	}
	for _, m := range up {
		m.stop()
	}
	f.processes.Wait()
	for _, m := range up {
		m.down()
	}
	return kills
}

// victim is the machine that runs the command now; any other if nothing runs for a while.
func (f *fleet) victim(up []*fleetMachine) (int, bool) {
	l := &ledger{shared.rdb, namespaceOf(f.t)}
	for deadline := time.Now().Add(30 * time.Second / time.Duration(f.factor)); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		all := fleetEffects(f.t, f.log)
		if len(all) == 0 || all[len(all)-1].word != "START" {
			continue
		}
		slot := all[len(all)-1].slot
		text, _ := shared.rdb.HGet(context.Background(), l.keys(f.job)[2], slot).Result()
		e, err := decode[entry](text)
		f.mu.Lock()
		dead := err != nil || slices.ContainsFunc(f.asks, func(a *fleetAsk) bool { return a.killed && a.machine == e.Host && minuteName(a.minute) == slot })
		f.mu.Unlock()
		if !dead {
			return slices.IndexFunc(up, func(m *fleetMachine) bool { return m.name == e.Host }), true
		}
	}
	return rand.N(len(up)), false
}

// judge holds what the machines were told against what the command did, and both against the ledger.
func (f *fleet) judge(kills int) {
	t := f.t
	began, ended := map[string]effectLine{}, map[string]effectLine{}
	token := int64(0)
	for _, e := range fleetEffects(t, f.log) {
		switch e.word {
		case "OVERLAP":
			t.Errorf("%s began while another command was running", e.slot)
		case "START":
			if other, twice := began[e.slot]; twice {
				t.Errorf("%s ran twice: %v, %v", e.slot, other, e)
			}
			if e.token <= token {
				t.Errorf("%s has the token %d after %d", e.slot, e.token, token)
			}
			began[e.slot], token = e, e.token
		case "END":
			ended[e.slot] = e
		}
	}
	all := f.ledger()
	count := map[string]int{}
	for slot, e := range all {
		count[e.State]++
		f.agrees(slot, e, began, ended)
	}
	for slot := range began {
		if _, ok := all[slot]; !ok {
			t.Errorf("%s ran, and has no entry", slot)
		}
	}
	f.statusAgrees(all)
	f.disjoint(all)
	covered, minutes := f.accounted(all)
	t.Logf("%d asks, %d minutes: %v, %d in a slot of the other line; %d commands; %d machines killed while running one",
		len(f.asks), minutes, count, covered, len(began), kills)
	if kills == 0 || count["done"] == 0 {
		t.Error("this fleet had too quiet a life to prove anything")
	}
}

// agrees: the entry says what the command did.
func (f *fleet) agrees(slot string, e fleetEntry, began, ended map[string]effectLine) {
	b, ran := began[slot]
	end, over := ended[slot]
	bad := func(why string) { f.t.Errorf("%s is %s in the ledger (%+v), but %s", slot, e.State, e.entry, why) }
	switch e.State {
	case "done", "failed":
		if !ran || !over || b.token != e.Token || b.runID != e.RunID || e.Attempt != 1 {
			bad(fmt.Sprintf("the effects are %+v and %+v", b, end))
		} else if (end.status == 0) != (e.State == "done") || *e.Exit != end.status {
			bad(fmt.Sprintf("the command ended with %d", end.status))
		}
	case "running":
		if ran && (b.token != e.Token || b.runID != e.RunID) {
			bad(fmt.Sprintf("the effect is %+v", b))
		}
		if !slices.ContainsFunc(f.asks, func(a *fleetAsk) bool { return a.killed && a.machine == e.Host }) {
			bad("its host was never killed")
		}
	case "skipped", "missed": // missed minutes are accounted for below: they lie in a slot of the other line
		if ran {
			bad("it ran")
		}
	default:
		bad("no such thing can have happened")
	}
}

// statusAgrees: what `onceonly status` says of each slot is what the ledger says, and so what the effects say.
func (f *fleet) statusAgrees(all map[string]fleetEntry) {
	r := newHost(f.t, "web-0").run("status", f.job, "--json", "-n", "0")
	var jobs []struct {
		Slots []struct {
			Slot, State string
			Token       *int64
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &jobs); err != nil || len(jobs) != 1 {
		f.t.Fatalf("%v: %v", err, r)
	}
	said := 0
	for _, s := range jobs[0].Slots {
		e, ok := all[s.Slot]
		if !ok {
			continue // computed: missed, late or pending
		}
		said++
		alive := e.State == "running" && (s.State == "running" || s.State == "uncertain")
		if (s.State != e.State && !alive) || (e.Token != 0 && (s.Token == nil || *s.Token != e.Token)) {
			f.t.Errorf("status says %+v of an entry %+v", s, e.entry)
		}
	}
	if said != len(all) {
		f.t.Errorf("status tells of %d slots of %d", said, len(all))
	}
}

// disjoint: no two slots cover the same time.
func (f *fleet) disjoint(all map[string]fleetEntry) {
	var spans []string
	for slot, e := range all {
		if !e.to.IsZero() {
			spans = append(spans, slot)
		}
	}
	slices.SortFunc(spans, func(a, b string) int { return all[a].from.Compare(all[b].from) })
	for i := 1; i < len(spans); i++ {
		if all[spans[i]].from.Before(all[spans[i-1]].to) {
			f.t.Errorf("%s and %s cover the same time", spans[i-1], spans[i])
		}
	}
}

// accounted: no machine was told anything but these, and none of the minutes is without an answer. It returns how many lie in
// a slot of the other line, and how many there were.
func (f *fleet) accounted(all map[string]fleetEntry) (covered, minutes int) {
	due := map[time.Time]bool{}
	for _, a := range f.asks {
		if a.killed {
			continue
		}
		due[a.minute] = true
		e := all[minuteName(a.minute)]
		switch {
		case a.status == 0, a.status == exitNotDone && (e.State == "running" || e.State == "failed"):
		case a.status == 1 && e.State == "failed" && e.Host == a.machine:
		case a.status == exitDisagree && strings.Contains(a.stderr, "and their slots overlap"):
		default:
			f.t.Errorf("%s (%s) at %s: status %d, and its slot is %+v\n%s", a.machine, a.line, minuteName(a.minute), a.status,
				e.entry, a.stderr)
		}
	}
	for m := range due {
		if e := all[minuteName(m)].entry; e != nil && e.State != "missed" {
			continue
		}
		covered++
		found := false
		for _, e := range all {
			found = found || !m.Before(e.from) && m.Before(e.to)
		}
		if !found {
			f.t.Errorf("%s was due, and nothing became of it", minuteName(m))
		}
	}
	return covered, len(due)
}

func minuteName(m time.Time) string { return m.Format("2006-01-02T15:04+00:00") }
