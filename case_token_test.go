package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SH-67: the token is a decimal number, in every command, rising in the order of the starts, and the ledger's. Over ten
// hosts, whatever happens: each run meets another mishap.
func TestCaseTokens(t *testing.T) {
	t.Parallel()
	runs := 40
	if long {
		runs = 200
	}
	c := newTokenCase(t)
	starts := 0
	for n := range runs {
		m := mishaps[n%len(mishaps)]
		if n == runs-len(mishaps) {
			c.clockAhead()
		}
		if n >= runs-len(mishaps) && m.loses {
			m = mishaps[0]
		}
		c.next(n)
		m.run(c)
		starts += m.starts
		c.check(n, m)
	}
	token := regexp.MustCompile(`^(START|END) [0-9-]+ [1-9][0-9]{12,15}( |$)`)
	for _, l := range lines(c.log) {
		if !token.MatchString(l) {
			t.Errorf("no decimal number: %q", l)
		}
	}
	if got := readEffects(t, c.log, true); len(got) != starts {
		t.Errorf("%d starts, want %d", len(got), starts)
	}
}

// A mishap is what a run meets. It loses data if Redis forgets the newest token: then the clock alone keeps tokens rising,
// which is promised unless a clock was ahead before.
type mishap struct {
	what   string
	starts int
	loses  bool
	run    func(*tokenCase)
}

var mishaps = []mishap{
	{"nothing", 1, false, (*tokenCase).quiet},
	{"the command fails and is tried again", 2, false, (*tokenCase).fails},
	{"onceonly is killed, another host takes over", 2, false, (*tokenCase).killed},
	{"the answer is lost", 1, false, (*tokenCase).answerLost},
	{"onceonly is frozen until its lease is another's", 2, false, (*tokenCase).frozen},
	{"the lease of a frozen onceonly is deleted", 2, false, (*tokenCase).deleted},
	{"Redis is restarted with its data", 1, false, (*tokenCase).restarted},
	{"Redis is restarted empty", 1, true, (*tokenCase).emptied},
	{"Redis is restarted empty, and another host begins", 2, true, (*tokenCase).emptiedAndTaken},
	{"Redis is restored from an old snapshot", 1, true, (*tokenCase).restored},
}

// A tokenCase is a job with all its runs, in a Redis of its own.
type tokenCase struct {
	t        *testing.T
	redis    *redisServer
	proxy    *proxy
	log      string
	snapshot []byte // an old one
	newest   int64  // token
	host     *host
	slot     string
	gate     string // the command goes on when it is there
}

func newTokenCase(t *testing.T) *tokenCase {
	r := newRedis(t)
	return &tokenCase{t: t, redis: r, proxy: newProxy(t, r.address()), log: filepath.Join(t.TempDir(), "log")}
}

// next is the n-th run's host and slot.
func (c *tokenCase) next(n int) {
	c.host = c.web(strconv.Itoa(n % 10))
	c.slot = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -n).Format(time.DateOnly)
	c.gate = filepath.Join(c.t.TempDir(), "gate")
}

func (c *tokenCase) web(number string) *host {
	return newHost(c.t, "web-"+number, "ONCEONLY_REDIS="+c.proxy.url())
}

func (c *tokenCase) line(lease, between string) []string {
	return append([]string{"run", "--job", "j", "--date", c.slot, "--lease", lease, "--attempts", "2", "--retry-delay", "10ms"},
		effects(c.log, between)...)
}

// check wants the newest start's token greater than all before, and the ledger's.
func (c *tokenCase) check(n int, m mishap) {
	c.t.Helper()
	all := readEffects(c.t, c.log, true)
	last, e := all[len(all)-1], c.redis.entryOf(c.t, "j", c.slot)
	if last.slot != c.slot || last.token <= c.newest || int64(e.Token) != last.token || e.State != "done" {
		c.t.Errorf("run %d, %s: the command saw %+v, the entry is %+v, the newest token was %d", n, m.what, last, e, c.newest)
	}
	c.newest = last.token
}

// clockAhead is a newest token from a Redis whose clock was ahead by 900 years.
func (c *tokenCase) clockAhead() {
	c.t.Helper()
	c.newest = 30000000000000
	key := (&ledger{c.redis.rdb, namespaceOf(c.t)}).keys("j")[1]
	if err := c.redis.rdb.Set(context.Background(), key, c.newest, 0).Err(); err != nil {
		c.t.Fatal(err)
	}
}

// begun starts a run, and returns when its command has begun.
func (c *tokenCase) begun(lease, between string) *process {
	c.t.Helper()
	before := len(lines(c.log))
	p := c.host.start(c.line(lease, between)...)
	eventually(c.t, "it starts", func() bool { return len(lines(c.log)) > before })
	return p
}

// end wants a run to end so.
func (c *tokenCase) end(p *process, status int, says string) {
	c.t.Helper()
	if r := p.result(c.t); r.status != status || !strings.Contains(r.stderr, says) {
		c.t.Fatalf("%s: %v, want status %d and %q", c.slot, r, status, says)
	}
}

// quiet also keeps what Redis has by now, for restored. Nobody has the lease in it.
func (c *tokenCase) quiet() {
	c.plain()
	if err := c.redis.rdb.Save(context.Background()).Err(); err != nil {
		c.t.Fatal(err)
	}
	c.snapshot, _ = os.ReadFile(c.dump())
}

func (c *tokenCase) dump() string { return filepath.Join(c.redis.dir, "dump.rdb") }

func (c *tokenCase) plain() { c.end(c.host.start(c.line("1m", "true")...), 0, "") }

func (c *tokenCase) fails() {
	c.end(c.host.start(c.line("1m", `[ "$ONCEONLY_ATTEMPT" = 2 ] || exit 1`)...), 0, "")
}

func (c *tokenCase) killed() {
	c.begun("1s", "exec sleep 30").kill()
	c.leaseOver()
	c.other()
}

// other is another host, which runs the slot.
func (c *tokenCase) other() {
	c.t.Helper()
	c.end(c.web("99").start(c.line("1m", "true")...), 0, "")
}

func (c *tokenCase) lock() string { return lockKey(c.t, "j") }

func (c *tokenCase) leaseOver() {
	c.t.Helper()
	eventually(c.t, "the lease is over", func() bool {
		return c.redis.rdb.Exists(context.Background(), c.lock()).Val() == 0
	})
}

func (c *tokenCase) answerLost() {
	c.proxy.dropReply("EVAL", 1, true)
	c.plain()
}

func (c *tokenCase) frozen() {
	p := c.begun("1s", "exec sleep 30")
	p.cmd.Process.Signal(syscall.SIGSTOP)
	c.leaseOver()
	c.other()
	p.cmd.Process.Signal(syscall.SIGCONT)
	c.end(p, exitNotDone, ": stopped: ") // why, it may have no time to learn
}

func (c *tokenCase) deleted() {
	p := c.begun("2s", "exec sleep 30")
	p.cmd.Process.Signal(syscall.SIGSTOP)
	c.redis.rdb.Del(context.Background(), c.lock())
	c.other()
	p.cmd.Process.Signal(syscall.SIGCONT)
	c.end(p, exitNotDone, ": stopped: ") // why, it may have no time to learn
}

// outage runs the command while Redis is shut down and started again, with this for its data.
func (c *tokenCase) outage(data func(old []byte) []byte) *process {
	p := c.begun("1m", `until test -e "`+c.gate+`"; do sleep 0.01; done`)
	c.restart(data)
	return p
}

func (c *tokenCase) restart(data func(old []byte) []byte) {
	c.t.Helper()
	c.redis.rdb.ShutdownSave(context.Background()) // ends with the connection
	c.redis.stop()
	old, err := os.ReadFile(c.dump())
	if err != nil {
		c.t.Fatal(err)
	}
	os.Remove(c.dump())
	if now := data(old); now != nil {
		err = os.WriteFile(c.dump(), now, 0o600)
	}
	if err == nil {
		err = c.redis.start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func nothing([]byte) []byte { return nil }

// goOn lets the command end.
func (c *tokenCase) goOn() {
	c.t.Helper()
	if err := os.WriteFile(c.gate, nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *tokenCase) restarted() {
	p := c.outage(func(old []byte) []byte { return old })
	c.goOn()
	c.end(p, 0, "")
}

func (c *tokenCase) emptied() {
	p := c.outage(nothing)
	c.goOn()
	c.end(p, 0, "")
}

func (c *tokenCase) emptiedAndTaken() {
	p := c.outage(nothing)
	c.other()
	c.goOn()
	c.end(p, exitNotDone, "ended after attempt 1 had begun on web-99:")
}

func (c *tokenCase) restored() {
	c.restart(func([]byte) []byte { return c.snapshot })
	c.plain()
}
