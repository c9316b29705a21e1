package main

import (
	"context"
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

// The protocol under fire: many clients, leases of some hundredths of a second, requests that come twice, late or
// never, answers that get lost, clients that stall or die. A referee sees every request that Redis really executed, and
// what Redis said to it, also where the client never learns of it; it knows what must not be.

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
	"kept": 2, "next tries": 0.7, "refused next tries": 0.7, "late begins after the end": 5, "late ends told before": 0.5,
	"copies spared a newer try": 0.15, "unanswered": 20, "trimmed": 5, "paused": 10, "errors": 10,
	"resolve settled": 1, "resolve held": 1, "stops": 1}

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
		map[string]*fuzzAttempt{}, map[string]int{}, map[string]bool{}, map[attempt]bool{}, map[string]*fuzzPause{}}
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
		clients.Go(f.hand(n).work)
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

// doze lets a random number of milliseconds pass, below most: which moments meet is what the fuzz is about.
func doze(r *rand.Rand, least, most int) {
	time.Sleep(time.Duration(least+r.IntN(most-least)) * time.Millisecond)
}

// trouble breaks a key of a job now and then: an error must never take or leave a lease.
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
		doze(r, 0, 80)
		broken := []string{k[4], k[5]}[r.IntN(2)]
		f.rdb.Eval(ctx, hide, []string{broken, broken + "."})
		doze(r, 1, 6)
		f.rdb.Eval(ctx, show, []string{broken, broken + "."})
	}
}
