package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

// Redis: how its address and its secrets are given, and what becomes of a command when Redis goes away.

// percent encodes everything but letters and digits, as a careful person would.
func percent(secret string) string {
	return regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllStringFunc(secret, func(c string) string {
		var s strings.Builder
		for _, b := range []byte(c) {
			fmt.Fprintf(&s, "%%%02X", b)
		}
		return s.String()
	})
}

// secretRedis is a server of the test's own that wants a password.
func secretRedis(t *testing.T, password string) (*redisServer, *redis.Client) {
	t.Helper()
	r := newRedis(t)
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket, Password: password, MaxRetries: -1, Protocol: 2})
	t.Cleanup(func() { rdb.Close() })
	if err := r.rdb.ConfigSet(context.Background(), "requirepass", password).Err(); err != nil {
		t.Fatal(err)
	}
	return r, rdb
}

// A password may be anything: percent-encoded in the URL it arrives as it is, from the environment, an option or a file.
// Raw in the URL it is a usage error that says so and shows nothing of it. (SH-22)
func TestCasePassword(t *testing.T) {
	t.Parallel()
	const password = "p@ss/w#rd%41?&:+=é "
	r, _ := secretRedis(t, password)
	good := "redis://:" + percent(password) + "@" + r.address() + "/0"
	file, trailing := filepath.Join(t.TempDir(), "url"), filepath.Join(t.TempDir(), "url")
	caseTouch(t, file, good)
	caseTouch(t, trailing, "  "+good+" \r\n\n")
	h := func(url string) *host { return newHost(t, "web-1", "ONCEONLY_REDIS="+url) }
	h(good).run(caseRun("env", "", "true")...).want(t, 0, "")
	h("redis://127.0.0.1:1/0").run(caseRun("flag", "--redis "+good, "true")...).want(t, 0, "")
	h("redis://127.0.0.1:1/0").run(caseRun("file", "--redis-file "+file, "true")...).want(t, 0, "")
	h("redis://127.0.0.1:1/0").run(caseRun("trailing", "--redis-file "+trailing, "true")...).want(t, 0, "")
	lower := strings.ToLower(good) // %3f is %3F
	h(lower).run(caseRun("lower", "", "true")...).want(t, 0, "")
	partly := "redis://:p%40ss%2Fw%23rd%2541%3F&%3A+=%C3%A9%20@" + r.address() + "/0" // + and & and = may stay
	h(partly).run(caseRun("partly", "", "true")...).want(t, 0, "")
	withUser := "redis://default:" + percent(password) + "@" + r.address()
	h(withUser).run(caseRun("user", "", "true")...).want(t, 0, "")
	raw := "redis://:" + password + "@" + r.address() + "/0"
	for _, bad := range []string{raw, "redis://:hunter#2@" + r.address(), "redis://:hunter/2@" + r.address() + "/0",
		"redis://:hunter?2@" + r.address(), "redis://:hunter%zz@" + r.address(), "redis://cron:hunter#2/3@" + r.address() + "/0"} {
		got := h(bad).run(caseRun("raw", "", "true")...)
		got.wantMatch(t, 64, `onceonly: ONCEONLY_REDIS: not a URL, or its password is not percent-encoded \(%40 for @\)\n(onceonly: hint: .*\n)?`)
		for _, part := range []string{"hunter", "ss/", "w#rd"} {
			if strings.Contains(got.stderr, part) {
				t.Errorf("%q shows %q", got.stderr, part)
			}
		}
	}
}

// A secret in the URL appears nowhere: in no message, on no stream, in no key, whatever goes wrong. (SH-23)
func TestCaseSecretIsNotShown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const secret, wrong = "hunterA@hunterB/hunterC?x", "hunterZ#hunterY"
	r, rdb := secretRedis(t, secret)
	if err := rdb.ConfigSet(ctx, "rdbcompression", "no").Err(); err != nil { // or DUMP hides what a value holds
		t.Fatal(err)
	}
	if err := rdb.Do(ctx, "acl", "setuser", "cron", "on", ">"+secret, "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	at := "@" + r.address()
	cases := map[string]string{
		"good":        "redis://cron:" + percent(secret) + at + "/0",
		"wrong":       "redis://cron:" + percent(wrong) + at + "/0",
		"wrong user":  "redis://hunterX:" + percent(secret) + at + "/0",
		"down":        "redis://cron:" + percent(secret) + "@127.0.0.1:1/0",
		"no host":     "redis://cron:" + percent(secret) + "@no-such-host.invalid:6379/0",
		"bad port":    "redis://cron:" + percent(secret) + "@127.0.0.1:99999/0",
		"port abc":    "redis://cron:" + percent(secret) + "@127.0.0.1:abc/0",
		"raw":         "redis://cron:" + secret + at + "/0",
		"bad escape":  "redis://cron:hunter%zz" + at + "/0",
		"control":     "redis://cron:hunter\x7f" + at + "/0",
		"scheme":      "http://cron:" + percent(secret) + at + "/0",
		"no scheme":   "cron:" + percent(secret) + at + "/0",
		"bare":        "hunterQ",
		"TLS":         "rediss://cron:" + percent(secret) + at + "/0",
		"TLS file":    "rediss://cron:" + percent(secret) + at + "/0?ca=/no/such/file",
		"database":    "redis://cron:" + percent(secret) + at + "/abc",
		"no database": "redis://cron:" + percent(secret) + at + "/99",
		"parameter":   "redis://cron:" + percent(secret) + at + "/0?hunterP=hunterP",
		"sentinel":    "redis+sentinel://cron:" + percent(secret) + at + "/mymaster/0",
		"unix":        "unix://cron:" + percent(secret) + "@" + r.socket + "?db=0",
		"no socket":   "unix://cron:" + percent(secret) + "@/no/such/socket",
	}
	for name, url := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "url")
			caseTouch(t, file, url+"\n")
			none := newHost(t, "web-1", "ONCEONLY_REDIS_WAIT=100ms")
			none.env = slices.DeleteFunc(none.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_REDIS=") })
			ways := map[string][]string{"option": {"--redis", url}, "file": {"--redis-file", file}, "environment": nil}
			atOnce(slices.Sorted(maps.Keys(ways)), func(way string) {
				h, options := *none, ways[way]
				if options == nil {
					h.env = append(slices.Clone(h.env), "ONCEONLY_REDIS="+url)
				}
				atOnce([][]string{{"run", "-v", "--job", way, "--", "true"}, {"run", "-v", "--job", way, "--", "true"},
					{"explain", "--job", way, "--", "true"}, {"status"}, {"status", "--json"}, {"status", way}}, func(words []string) {
					got := h.run(slices.Insert(slices.Clone(words), 1, options...)...)
					if strings.Contains(got.stdout+got.stderr, "hunter") && !(name == "wrong user" && onlyUser(got)) {
						t.Errorf("%s, %q: %v", way, words, got)
					}
				})
			})
		})
	}
	t.Cleanup(func() {
		for _, key := range rdb.Keys(ctx, "*").Val() {
			if strings.Contains(key+rdb.Dump(ctx, key).Val(), "hunter") {
				t.Errorf("the key %s holds the secret", key)
			}
		}
		if n := rdb.DBSize(ctx).Val(); n < 3 {
			t.Errorf("only %d keys: the good URL did not work", n)
		}
	})
}

// onlyUser says whether nothing but the user's name was shown; that is no secret.
func onlyUser(r result) bool {
	return !strings.Contains(strings.ReplaceAll(r.stdout+r.stderr, "hunterX", ""), "hunter")
}

// Redis refuses the credentials: exit 77 at once, with the server's own words; nothing runs. (SH-24)
func TestCaseCredentials(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, rdb := secretRedis(t, "secret")
	off := newRedis(t) // its default user is off, which changes the handshake
	for _, c := range []struct {
		rdb   *redis.Client
		words string
	}{{rdb, "acl setuser cron on >pw ~* &* +@all"}, {off.rdb, "acl setuser cron on >pw ~* &* +@all"}, {off.rdb, "acl setuser default off"}} {
		var words []any
		for _, w := range strings.Fields(c.words) {
			words = append(words, w)
		}
		if err := c.rdb.Do(ctx, words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ran := filepath.Join(t.TempDir(), "ran")
	for job, c := range map[string]struct{ url, why string }{
		"none":         {r.url(), "NOAUTH Authentication required\\."},
		"wrong":        {"redis://:x@" + r.address(), "WRONGPASS .*"},
		"wrong-user":   {"redis://nobody:pw@" + r.address(), "WRONGPASS .*"},
		"wrong-pw":     {"redis://cron:x@" + r.address(), "WRONGPASS .*"},
		"off":          {off.url(), "NOAUTH Authentication required\\."},
		"off-wrong":    {"redis://cron:x@" + off.address(), "WRONGPASS .*"},
		"off-password": {"redis://:pw@" + off.address(), "(AUTH|WRONGPASS) .*"},
	} {
		began := time.Now()
		got := newHost(t, "web-1", "ONCEONLY_REDIS="+c.url).run(caseRun(job, "", "touch", ran)...)
		u, _ := url.Parse(c.url)
		user := ""
		if name := u.User.Username(); name != "" {
			user = ", user " + name
		}
		got.wantMatch(t, 77, "onceonly: "+job+" "+caseDay+": not run: Redis at "+u.Host+"(?:"+user+"|, user default): "+c.why+"\n(onceonly: hint: .*\n)?")
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: took %v", job, took)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a command ran")
	}
	newHost(t, "web-1", "ONCEONLY_REDIS=redis://cron:pw@"+off.address()).run(caseRun("right", "", "true")...).want(t, 0, "")
}

// The database is the one that was asked for, by TCP and by socket; a word in its place is a usage error, and a number
// that the server does not have is told in its words. (SH-25)
func TestCaseDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t)
	where := func() (db []int) {
		for n := range 16 {
			rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket, DB: n, Protocol: 2})
			if rdb.DBSize(ctx).Val() > 0 {
				db = append(db, n)
			}
			rdb.Close()
		}
		return db
	}
	for i, c := range []struct {
		url string
		db  int
	}{{"unix://" + r.socket + "?db=3", 3}, {"unix://" + r.socket, 0}, {"redis://" + r.address() + "/3", 3},
		{"redis://" + r.address() + "/", 0}, {"redis://" + r.address(), 0}, {"redis://" + r.address() + "/15", 15}} {
		h := newHost(t, "web-1", "ONCEONLY_REDIS="+c.url)
		h.run(caseRun(fmt.Sprint("job", i), "", "true")...).want(t, 0, "")
		if got := where(); !slices.Equal(got, []int{c.db}) {
			t.Errorf("%s: keys in databases %v, want %d", c.url, got, c.db)
		}
		r.rdb.FlushAll(ctx)
	}
	for _, bad := range []string{"redis://" + r.address() + "/abc", "redis://" + r.address() + "/-1", "redis://" + r.address() + "/3/4",
		"unix://" + r.socket + "?db=abc", "redis://" + r.address() + "/1.5"} {
		got := newHost(t, "web-1", "ONCEONLY_REDIS="+bad).run(caseRun("bad", "", "true")...)
		if got.status != 64 {
			t.Errorf("%s: %v", bad, got)
		}
		got.wantMatch(t, 64, "onceonly: ONCEONLY_REDIS: .+\n(onceonly: hint: .+\n)?")
	}
	for _, far := range []string{"redis://" + r.address() + "/99", "unix://" + r.socket + "?db=99"} {
		got := newHost(t, "web-1", "ONCEONLY_REDIS="+far).run(caseRun("far", "--redis-wait 1s", "true")...)
		got.wantMatch(t, 69, "onceonly: far "+caseDay+": not run: Redis at .+: (ERR )?DB index is out of range\n")
	}
	if got := where(); got != nil {
		t.Errorf("who was refused left keys in databases %v", got)
	}
}

// A stopper is a command that says what becomes of it: a line when it is up, one with the time when it hears TERM, and
// its lifeline when it is dead. It ends at TERM or not.
func stopper(life *lifeline, log string, ends bool) []string {
	trap := "trap 'echo TERM >>\"$1\"; exit 0' TERM"
	if !ends {
		trap = "trap 'echo TERM >>\"$1\"' TERM"
	}
	return []string{"sh", "-c", `exec 9>"$0" 2>/dev/null
		` + trap + `
		(trap '' TERM; while :; do sleep 0.02; done) &
		echo up >>"$1"
		while :; do sleep 0.02; done`, life.name, log}
}

// lease is the lock of a job as Redis has it.
func leaseOf(t *testing.T, job string) (value string, left time.Duration) {
	t.Helper()
	ctx := context.Background()
	value = shared.rdb.Get(ctx, lockKey(t, job)).Val()
	return value, shared.rdb.PTTL(ctx, lockKey(t, job)).Val()
}

// The lease is renewed as long as the command runs, and a server that stands still for a while loses nothing: nobody else
// begins, the command is not stopped. (DESIGN §5)
func TestCaseLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	e := newEnder(t)
	p := caseStart(t, h.command(caseRun("long", "--lease 2s", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	key := lockKey(t, "long")
	value := r.rdb.Get(ctx, key).Val()
	left := func() time.Duration { return r.rdb.PTTL(ctx, key).Val() }
	renewals, before := 0, left()
	sample := func(until func() bool) {
		for !until() {
			now := left()
			if now <= 0 || r.rdb.Get(ctx, key).Val() != value {
				t.Fatalf("the lease is lost: %v left", now)
			}
			if now > before+100*time.Millisecond {
				renewals++
			}
			before = now
			time.Sleep(5 * time.Millisecond)
		}
	}
	began := time.Now()
	sample(func() bool { return renewals >= 3 })
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("3 renewals took %v: a quarter of the lease is 500 ms", took)
	}
	r.cmd.Process.Signal(unix.SIGSTOP)
	time.Sleep(800 * time.Millisecond) // the outage itself
	r.cmd.Process.Signal(unix.SIGCONT)
	renewals = 0
	sample(func() bool { return renewals >= 3 })
	newHost(t, "web-2", "ONCEONLY_REDIS="+r.url()).run(caseRun("long", "--lease 2s --exit-busy 5", "sh", "-c", "true")...).want(t, 5, "")
	e.end(t)
	clock := `(\d\d-\d\d )?\d\d:\d\d:\d\d` // of another day than the slot's with its date
	p.wait().wantMatch(t, 0, "(onceonly: long "+caseDay+": lease not renewed for .+: .+; going on until "+clock+"\n)?")
}

// atOnce does something to each of several things, all at once: they wait more than they work.
func atOnce[T any](things []T, do func(T)) {
	var wg sync.WaitGroup
	for _, thing := range things {
		wg.Go(func() { do(thing) })
	}
	wg.Wait()
}

// Redis is gone for good. The command is told TERM, and is dead, with all its processes, before the lease ends, also if
// it does not listen; exit 75, one line that warned and one that says why. (DESIGN §5)
func TestCaseRedisGoneForGood(t *testing.T) {
	t.Parallel()
	faults := map[string]func(p *proxy){
		"refused":   (*proxy).refuse,
		"swallowed": func(p *proxy) { p.swallow(true, true) },
		"unheard":   func(p *proxy) { p.swallow(false, true) },
		"readonly":  func(p *proxy) { p.answer("-READONLY You can't write against a read only replica.") },
		"reset":     (*proxy).reset,
	}
	atOnce(slices.Sorted(maps.Keys(faults)), func(name string) {
		atOnce([]bool{true, false}, func(ends bool) {
			job, life, log := fmt.Sprint(name, "-", ends), newLifeline(t), filepath.Join(t.TempDir(), "log")
			px := newProxy(t, shared.address())
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+px.url())
			p := caseStart(t, h.command(caseRun(job, "--lease 3s --attempts 2", stopper(life, log, ends)...)...))
			eventually(t, "the command runs", hasLine(log, "up"))
			value, _ := leaseOf(t, job)
			faults[name](px)
			for life.held() {
				if now, _ := leaseOf(t, job); now != value && life.heldFor(20*time.Millisecond) {
					over := time.Now()
					life.cut(t)
					t.Errorf("%s: the lease was over, and the command ran for %v more", job, time.Since(over)+20*time.Millisecond)
				}
				time.Sleep(time.Millisecond)
			}
			clock := `(\d\d-\d\d )?\d\d:\d\d:\d\d` // of another day than the slot's with its date
			p.wait().wantMatch(t, 75, "onceonly: "+job+" "+caseDay+": lease not renewed for .+; going on until "+clock+"\n"+
				"onceonly: "+job+" "+caseDay+": stopped: Redis away since "+clock+", the lease is over at "+clock+"\n")
			if !slices.Contains(lines(log), "TERM") {
				t.Errorf("%s: it was never told TERM", job)
			}
		})
	})
}

// Somebody else's value stands in the lock: the command is stopped at once, exit 75, and what is not ours is left as it
// is, value and time. (DESIGN §5)
func TestCaseLeaseTakenOver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	atOnce([]bool{true, false}, func(ends bool) {
		job, life, log := fmt.Sprint("ends-", ends), newLifeline(t), filepath.Join(t.TempDir(), "log")
		p := caseStart(t, newHost(t, "web-1").command(caseRun(job, "--lease 2s --attempts 2", stopper(life, log, ends)...)...))
		eventually(t, "the command runs", hasLine(log, "up"))
		const foreign = "0123456789abcdef0123456789abcdefweb-9:99"
		if err := shared.rdb.Set(ctx, lockKey(t, job), foreign, time.Minute).Err(); err != nil {
			t.Error(err)
		}
		taken := time.Now()
		eventually(t, "the command is told", hasLine(log, "TERM"))
		if told := time.Since(taken); told > 1500*time.Millisecond { // a renewal is due every 500 ms
			t.Errorf("told after %v", told)
		}
		life.cut(t)
		p.wait().wantMatch(t, 75, "onceonly: "+job+" "+caseDay+": stopped: lease lost.*\n")
		value, left := leaseOf(t, job)
		if value != foreign || left > time.Minute || left < time.Minute-time.Since(taken)-time.Second {
			t.Errorf("the foreign lock is %q with %v left", value, left)
		}
		if e := entryOf(t, job, caseDay); e.State != "failed" || e.Reason != "lease_lost" {
			t.Errorf("entry %s, reason %q", e.State, e.Reason)
		}
	})
}

// The lock is gone, and another host has begun before anybody noticed: the first is stopped and told to whom it lost; what
// it reports does not overwrite the second's. (DESIGN §5, §8)
func TestCaseLeaseLostToAnother(t *testing.T) {
	t.Parallel()
	life, log := newLifeline(t), filepath.Join(t.TempDir(), "log")
	words := stopper(life, log, true)
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 2s --attempts 2", words...)...))
	eventually(t, "the command runs", hasLine(log, "up"))
	shared.rdb.Del(context.Background(), lockKey(t, "j"))
	second := newEnder(t)
	q := caseStart(t, newHost(t, "web-2").command(caseRun("j", "--lease 20s --attempts 2", second.command("0")...)...))
	eventually(t, "the second runs", second.up)
	p.wait().want(t, 75, fmt.Sprintf("onceonly: j %s: stopped: lease lost to web-2:%d (%[1]s, attempt 2)\n", caseDay, q.Process.Pid))
	life.cut(t)
	if e := entryOf(t, "j", caseDay); e.State != "running" || e.Attempt != 2 || e.Host != "web-2" {
		t.Errorf("entry %+v", e)
	}
	if value, _ := leaseOf(t, "j"); !strings.HasSuffix(value, fmt.Sprint("web-2:", q.Process.Pid)) {
		t.Errorf("the lock is %q", value)
	}
	second.end(t)
	if r := q.wait(); r.status != 0 {
		t.Error(r)
	}
	if e := entryOf(t, "j", caseDay); e.State != "done" || e.Stale != 1 {
		t.Errorf("entry %+v, want done and one stale report", e)
	}
}

// The end cannot be written. Until the lease is over it is tried; then one line, and 74 if the command succeeded, else the
// command's own status. (DESIGN §5)
func TestCaseEndNotWritten(t *testing.T) {
	t.Parallel()
	atOnce([]string{"0 74 done", "3 3 exit 3"}, func(c string) {
		words := strings.SplitN(c, " ", 3)
		r, e := newRedis(t), newEnder(t)
		h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
		p := caseStart(t, h.command(caseRun("j", "--lease 1s", e.command(words[0])...)...))
		eventually(t, "the command runs", e.up)
		r.stop()
		e.end(t)
		status, _ := strconv.Atoi(words[1])
		p.wait().wantMatch(t, status, "(onceonly: j "+caseDay+": lease not renewed .*\n)?onceonly: j "+caseDay+": "+words[2]+
			", not recorded: .*connection refused.*\n")
	})
}

// An ender is a command that runs until it is told to end, and with what status.
type ender struct {
	upFile, endFile string
	life            *lifeline
}

func newEnder(t *testing.T) *ender {
	t.Helper()
	dir := t.TempDir()
	return &ender{filepath.Join(dir, "up"), filepath.Join(dir, "end"), newLifeline(t)}
}

func (e *ender) command(status string) []string {
	return []string{"sh", "-c", `exec 9>"$2"; echo up >>"$0"; until [ -e "$1" ]; do sleep 0.02; done; exit $3`,
		e.upFile, e.endFile, e.life.name, status}
}

func (e *ender) up() bool { return hasLine(e.upFile, "up")() }

// end tells it to end, and returns when it is dead.
func (e *ender) end(t *testing.T) {
	t.Helper()
	caseTouch(t, e.endFile, "")
	e.life.cut(t)
}

// Redis comes back while the lease still lasts: the end is written, and the status is the command's. (DESIGN §5)
func TestCaseEndWrittenLate(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"0", "3"} {
		px, e := newProxy(t, shared.address()), newEnder(t)
		h := newHost(t, "web-1", "ONCEONLY_REDIS="+px.url(), "ONCEONLY_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
		p := caseStart(t, h.command(caseRun("j"+status, "--lease 10s", e.command(status)...)...))
		eventually(t, "the command runs", e.up)
		px.hangUp()
		e.end(t)
		px.forget()
		eventually(t, "the end is tried in vain", func() bool { return px.connections() > 1 })
		px.pass()
		n, _ := strconv.Atoi(status)
		p.wait().wantMatch(t, n, "(onceonly: j"+status+" "+caseDay+": lease not renewed .*\n)?")
		wantEntry(t, "j"+status, map[string]string{"0": "done", "3": "failed"}[status], n, "", "")
		if isHeld(t, "j"+status) {
			t.Error("the lease is still held")
		}
	}
}

// A Redis that dies and comes back with its data is the same one: the command goes on, and its end is written. (DESIGN §5)
func TestCaseRedisRestarts(t *testing.T) {
	t.Parallel()
	r, e := newRedis(t, "--appendonly", "yes"), newEnder(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
	args := caseRun("j", "--lease 10s --exit-done 5", e.command("0")...)
	p := caseStart(t, h.command(args...))
	eventually(t, "the command runs", e.up)
	r.stop()
	e.end(t)
	if err := r.start("--appendonly", "yes"); err != nil {
		t.Fatal(err)
	}
	p.wait().wantMatch(t, 0, "(onceonly: j "+caseDay+": lease not renewed .*\n)?")
	h.run(args...).want(t, 5, "")
}
