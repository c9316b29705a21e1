package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// A lease is counted from before the request that renewed it, so it ends here before it ends in Redis. The command is
// dead when killMargin of it is left; it is told to stop before that. In time from the last renewal sent, for a lease T:
//
//	renewal at T/4, at most 30 s  <  TERM at 0.95 T − min(--kill-after, T/4)  <  KILL at 0.95 T  <  T
//
// What is left must cover the kill itself and the drift of two clocks over one lease.
const (
	killMargin    = 20 // KILL a twentieth of the lease before its end
	renewEvery    = 4  // renew each quarter
	renewAtMost   = 30 * time.Second
	minimumLease  = time.Second
	renewalAnswer = 3 * time.Second // how long one renewal waits for its answer
)

// errLost says that the lease is somebody else's, or gone: the command must stop at once.
var errLost = errors.New("lease lost")

//go:embed scripts/obtain.lua
var obtainLua string

//go:embed scripts/regain.lua
var regainLua string

//go:embed scripts/renew.lua
var renewLua string

//go:embed scripts/release.lua
var releaseLua string

// A lease is the right to run a job until it expires. Whoever has one must see that the command is dead by kill(), and
// must not begin anything once the lease is past.
type lease struct {
	ledger *ledger
	job    string
	runID  string
	ttl    time.Duration
	wall   func() time.Time // the host's clock, by which cron fired
	client *redislock.Client
	lock   *redislock.Lock
	step   step
	end    atomic.Int64 // boot: the lease lasts at least until then

	attempt   func() end            // the one that runs under it, for regain; nil: none does
	forgotten bool                  // Redis has lost the attempt once; what else it lost, nobody knows
	away      atomic.Bool           // it is not renewed, because Redis does not do it
	watched   atomic.Pointer[guard] // told of every renewal
}

func newLease(l *ledger, job, metadata string, ttl time.Duration) *lease {
	s := &lease{ledger: l, job: job, runID: newRunID(), ttl: ttl, wall: time.Now}
	s.step.lease = s
	s.step.metadata = metadata
	s.client = redislock.New(&s.step)
	return s
}

// newRunID is 32 random hex digits. redislock compares as many bytes as the token has, so all have the same length.
func newRunID() string {
	id := make([]byte, 16)
	rand.Read(id) // never fails: the runtime ends the program first
	return hex.EncodeToString(id)
}

// begin obtains the lease and asks begin.lua, in one step. A verdict other than run holds nothing.
func (s *lease) begin(ctx context.Context, q question) (*reply, error) {
	sent := bootNow()
	q.RunID, q.Now = s.runID, millis(s.wall())
	s.step.compose(obtainLua, beginLua, q)
	lock, err := s.client.Obtain(ctx, s.ledger.keys(s.job)[0], s.ttl,
		&redislock.Options{Token: s.runID, Metadata: s.step.metadata})
	if err != nil && !errors.Is(err, redislock.ErrNotObtained) {
		return nil, err
	}
	r, err := decode[reply](s.step.answer)
	if err == nil && r.Verdict == "run" {
		s.lock = lock
		s.extend(sent)
	}
	return r, err
}

// renew asks for a whole lease more. errLost means that there is none any more.
func (s *lease) renew(ctx context.Context) error {
	sent := bootNow()
	s.step.compose(renewLua, "", nil)
	err := s.lock.Refresh(ctx, s.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return s.regain(ctx)
	}
	if err == nil {
		s.extend(sent)
	}
	return err
}

// regain takes back a lease that lapsed or that Redis has lost, if provably nobody has begun since. An error that is
// errLost says who has.
func (s *lease) regain(ctx context.Context) error {
	if s.attempt == nil {
		return errLost
	}
	sent := bootNow()
	e := s.attempt()
	e.RunID = s.runID
	s.step.compose(obtainLua, regainLua, e)
	lock, err := s.client.Obtain(ctx, s.ledger.keys(s.job)[0], s.ttl,
		&redislock.Options{Token: s.runID, Metadata: s.step.metadata})
	if err != nil && !errors.Is(err, redislock.ErrNotObtained) {
		return err
	}
	r, err := decode[reply](s.step.answer)
	switch {
	case err != nil:
		return err
	case r.Verdict == "held" || r.Verdict == "regained":
		s.lock, s.forgotten = lock, s.forgotten || r.Verdict == "regained"
		s.extend(sent)
		return nil
	}
	return lostTo(r)
}

// A stopOrder is a stop by hand, as the lock's tombstone has it.
type stopOrder struct{ By, Reason string }

func (s *stopOrder) Error() string { return "stopped by " + s.By }

func (s *stopOrder) Is(err error) bool { return err == errLost }

// lostTo is errLost, and the order where a stop is the cause.
func lostTo(r *reply) error {
	if order := stopOrderOf(r.Holder); order != nil {
		return order
	}
	return errLost
}

// stopOrderOf reads the tombstone that a stop leaves in the lock, "stop:<run ID>:<order>"; nil for any other value.
func stopOrderOf(lock string) *stopOrder {
	rest, stopped := strings.CutPrefix(lock, "stop:")
	if _, text, ok := strings.Cut(rest, ":"); stopped && ok {
		if order, err := decode[stopOrder](text); err == nil {
			return order
		}
	}
	return nil
}

// finish writes the end and gives the lease back, in one step. It does the first also where the second has become
// impossible because the lease lapsed.
func (s *lease) finish(ctx context.Context, e end) (*reply, error) {
	e.RunID = s.runID
	if s.lock == nil || e.Kept {
		return s.ledger.finish(ctx, s.job, e)
	}
	s.step.compose(releaseLua, finishLua, e)
	if err := s.lock.Release(ctx); err != nil && !errors.Is(err, redislock.ErrLockNotHeld) {
		return nil, err
	}
	return decode[reply](s.step.answer)
}

// extend counts the lease from before the request was sent: how long the answer was on its way, nobody knows.
func (s *lease) extend(sent boot) {
	s.end.Store(int64(sent.add(s.ttl)))
	s.watched.Load().tell(s.kill())
}

func (s *lease) ends() boot { return boot(s.end.Load()) }

// kill is when the command must be dead at the latest.
func (s *lease) kill() boot { return s.ends().add(-s.ttl / killMargin) }

// term is when the command is told to stop if nothing is heard from Redis.
func (s *lease) term(grace time.Duration) boot { return s.kill().add(-min(grace, s.ttl/4)) }

func (s *lease) interval() time.Duration { return min(s.ttl/renewEvery, renewAtMost) }

// renewalPause is the pause after a failed renewal.
func (s *lease) renewalPause() time.Duration { return min(time.Second, s.ttl/20) }

// A step is what redislock sends its scripts through: it takes the library's own source, sets it into a frame with ours,
// and sends both as one EVAL. The library sees its own answer, and ours lies beside it.
type step struct {
	redis.Scripter // nil: what redislock does not call does not exist
	lease          *lease
	metadata       string
	frame, ours    string // the script's parts
	question       string
	answer         string
}

// compose sets what goes with the next request.
func (s *step) compose(frame, ours string, q any) {
	s.frame, s.ours, s.question, s.answer = frame, ours, "", ""
	if ours != "" {
		text, err := json.Marshal(q)
		if err != nil {
			panic(err) // the types are ours, and all of them can be marshalled
		}
		s.question = string(text)
	}
}

// EvalSha answers that the script is not cached, so that one request is enough, on a warm server and on a cold one.
func (s *step) EvalSha(ctx context.Context, sha string, _ []string, _ ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, "evalsha", sha)
	cmd.SetErr(redis.ErrNoScript)
	return cmd
}

// Eval sends redislock's script and ours.
func (s *step) Eval(ctx context.Context, source string, _ []string, args ...any) *redis.Cmd {
	begin, rest, _ := strings.Cut(s.frame, "--[[lease]]")
	parts := []string{begin, source, rest}
	if between, end, both := strings.Cut(rest, "--[[ours]]"); both {
		parts = []string{begin, source, between, entryLua, s.ours, end}
	}
	cmd := eval(ctx, bare(parts...), s.lease.ledger.keys(s.lease.job), append(args, s.question)...)
	s.lease.ledger.Process(ctx, onceCmd{cmd})
	return s.split(ctx, cmd)
}

// split keeps our answer and hands redislock its own.
func (s *step) split(ctx context.Context, cmd *redis.Cmd) *redis.Cmd {
	theirs := redis.NewCmd(ctx)
	both, err := cmd.Slice()
	switch {
	case err != nil:
		theirs.SetErr(noNil(err))
	case len(both) != 2:
		theirs.SetErr(errors.New("not the answer of a script of ours"))
	default:
		s.answer, _ = both[1].(string)
		if theirs.SetVal(both[0]); both[0] == nil {
			theirs.SetErr(redis.Nil)
		}
	}
	return theirs
}
