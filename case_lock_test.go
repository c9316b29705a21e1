package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// long is whether to run the numbers that users gave, where fewer serve by default.
var long = os.Getenv("ONCEONLY_TEST_LONG") != ""

// effects is a command that writes to a file when it starts and when it ends, and does something in between.
func effects(log, between string) []string {
	return []string{"--", "sh", "-c", `echo "START $ONCEONLY_SLOT $ONCEONLY_FENCING_TOKEN $ONCEONLY_ATTEMPT $$" >>"$0"
` + between + `
echo "END $ONCEONLY_SLOT $ONCEONLY_FENCING_TOKEN" >>"$0"`, log}
}

// An effect is a START in the log.
type effect struct {
	slot    string
	token   int64
	attempt int
	pid     int
}

// readEffects reads the log, and fails the test if two runs overlap or tokens do not rise. A run that was killed has no
// END; then its process must be gone before the next START, which is for the test to see.
func readEffects(t *testing.T, log string, killed bool) []effect {
	t.Helper()
	var all []effect
	open := false
	for _, l := range lines(log) {
		if strings.HasPrefix(l, "END ") {
			open = false
			continue
		}
		var e effect
		if _, err := fmt.Sscanf(l, "START %s %d %d %d", &e.slot, &e.token, &e.attempt, &e.pid); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if open && !killed {
			t.Errorf("%s started before the run before it had ended: %q", e.slot, lines(log))
		}
		if n := len(all); n > 0 && e.token <= all[n-1].token {
			t.Errorf("token %d came after %d", e.token, all[n-1].token)
		}
		open, all = true, append(all, e)
	}
	return all
}

// lockOf is the lock's key, with its value and how long it lasts: -1 for ever, -2 not there.
func lockOf(t *testing.T, job string) (key, value string, ttl time.Duration) {
	t.Helper()
	ctx := context.Background()
	key = (&ledger{shared.rdb, namespaceOf(t)}).keys(job)[0]
	ttl, err := shared.rdb.PTTL(ctx, key).Result()
	if err != nil {
		t.Fatal(err)
	}
	value, _ = shared.rdb.Get(ctx, key).Result()
	return key, value, ttl
}

// A process is an onceonly that was started, in a process group of its own.
type process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
	began    time.Time
}

func (h *host) start(args ...string) *process {
	h.t.Helper()
	p := &process{cmd: h.command(args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	h.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// result waits for the end, with a deadline.
func (p *process) result(t *testing.T) result {
	t.Helper()
	eventually(t, "onceonly ends", p.ended)
	return result{p.cmd.ProcessState.ExitCode(), p.out.String(), p.err.String()}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// started is whether a run of the slot has started, by the log.
func started(log string) func() bool { return func() bool { return len(lines(log)) > 0 } }

// silent fails the test unless an onceonly that had nothing to do ended with 0 and without a byte.
func silent(t *testing.T, what string, r result) {
	t.Helper()
	if r.status != 0 || r.stdout != "" || r.stderr != "" {
		t.Errorf("%s: got %v\nwant status 0 and not a byte", what, r)
	}
}

// SH-01: the job is over before the others look. What stops them is the ledger: the lock is gone by then.
func TestCaseShortJob(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"0", "0.05", "1"} {
		t.Run(length+"s", func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			args := append([]string{"run", "--job", "short", "--date", "yesterday", "--lease", "3s"}, effects(log, "sleep "+length)...)
			var early []*process
			for n := range 10 {
				early = append(early, newHost(t, "web-"+strconv.Itoa(n)).start(args...))
				time.Sleep(rand.N(10 * time.Millisecond)) // clocks differ
			}
			for _, p := range early {
				silent(t, "an early host", p.result(t))
			}
			if _, _, ttl := lockOf(t, "short"); ttl != -2 {
				t.Errorf("the lock lives on for %v after its run", ttl)
			}
			for n := range 10 {
				silent(t, "a late host", newHost(t, "late-"+strconv.Itoa(n)).run(args...))
				if long {
					time.Sleep(3 * time.Second) // for any lease or grace there may be to lapse
				}
			}
			if got := readEffects(t, log, false); len(got) != 1 {
				t.Errorf("%d starts, want 1: %q", len(got), lines(log))
			}
		})
	}
}

// SH-02: everybody at the same instant. Fifty processes wait at a pipe and are let go together, for one slot after the
// other, back day by day: each time one starts and 49 end with 0 and not a byte.
func TestCaseFiftyAtOnce(t *testing.T) {
	t.Parallel()
	rounds, log := 10, filepath.Join(t.TempDir(), "log")
	if long {
		rounds = 100
	}
	day := time.Now().UTC()
	for round := range rounds {
		day = day.AddDate(0, 0, -1)
		for n, r := range atOneInstant(t, 50, append([]string{"run", "--job", "night", "--date", day.Format(time.DateOnly)}, effects(log, "sleep 0.1")...)) {
			silent(t, fmt.Sprintf("round %d, web-%d", round, n), r)
		}
		got := readEffects(t, log, false)
		if len(got) != round+1 || got[round].slot != day.Format(time.DateOnly) || got[round].attempt != 1 {
			t.Fatalf("round %d for %s: the starts are %v", round, day.Format(time.DateOnly), got)
		}
	}
}

// atOneInstant runs onceonly on n hosts that begin at one instant.
func atOneInstant(t *testing.T, n int, args []string) []result {
	t.Helper()
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	cmds, outs := make([]*exec.Cmd, n), make([]struct{ out, err bytes.Buffer }, n)
	for i := range n {
		h := newHost(t, "web-"+strconv.Itoa(i))
		cmds[i] = exec.Command("sh", append([]string{"-c", `read gate; exec "$0" "$@"`, binary}, args...)...)
		cmds[i].Env, cmds[i].Stdin = h.env, gate
		cmds[i].Stdout, cmds[i].Stderr = &outs[i].out, &outs[i].err
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	open.Close()
	var all []result
	for i, cmd := range cmds {
		all = append(all, result{exitStatus(t, cmd.Wait()), outs[i].out.String(), outs[i].err.String()})
	}
	return all
}

// SH-03: a job that is longer than its lease. The lease never comes near its end, and a host that asks again and again
// finds it busy, and then done.
func TestCaseLongerThanTheLease(t *testing.T) {
	t.Parallel()
	length := 4 * time.Second
	if long {
		length = 9 * time.Second
		busy := exec.Command("timeout", "12", "yes")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { busy.Process.Kill(); busy.Wait() })
	}
	log, lease := filepath.Join(t.TempDir(), "log"), 2*time.Second
	args := append([]string{"run", "--job", "long", "--lease", "2s", "--date", "yesterday"}, effects(log, fmt.Sprintf("sleep %v", length.Seconds()))...)
	p := newHost(t, "web-1").start(args...)
	eventually(t, "it starts", started(log))
	rival, samples, asked := newHost(t, "web-2"), 0, 0
	for lastAsked := time.Now(); !p.ended(); time.Sleep(20 * time.Millisecond) {
		_, value, ttl := lockOf(t, "long")
		over := len(lines(log)) > 1
		if samples++; ttl < lease/4 && !over {
			t.Errorf("the lease is down to %v (%q) after %v", ttl, value, time.Since(p.began))
		}
		if ttl > lease {
			t.Errorf("the lease is %v long, want at most %v", ttl, lease)
		}
		if time.Since(lastAsked) > 100*time.Millisecond {
			lastAsked, asked = time.Now(), asked+1
			silent(t, "the competitor", rival.run(args...))
		}
	}
	silent(t, "the holder", p.result(t))
	silent(t, "the competitor, afterwards", rival.run(args...))
	if got := readEffects(t, log, false); len(got) != 1 || samples < 20 || asked < 5 {
		t.Errorf("%d starts, want 1; %d samples, asked %d times", len(got), samples, asked)
	}
}

// SH-05: killed at any moment there is no lock without an expiry; and what comes of it is a clean state, a run that is
// done, or an uncertain one: never a slot that may run a second time.
func TestCaseKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	times, web, rival := 60, newHost(t, "web-1"), newHost(t, "web-2")
	if long {
		times = 300
	}
	folder := t.TempDir()
	line := func(i int, lease string) []string {
		return append([]string{"run", "--job", fmt.Sprint("j", i), "--date", "yesterday", "--lease", lease},
			effects(filepath.Join(folder, fmt.Sprint(i)), "sleep 0.01")...)
	}
	moments := make([]time.Duration, times)
	for i := range times {
		moments[i] = rand.N(30 * time.Millisecond)
		if i%2 == 0 {
			moments[i] = rand.N(8 * time.Millisecond) // where the steps are
		}
		p := web.start(line(i, "1s")...)
		time.Sleep(moments[i] - time.Since(p.began))
		p.kill()
		if _, value, ttl := lockOf(t, fmt.Sprint("j", i)); ttl == -1 {
			t.Errorf("killed after %v: the lock %q lives for ever", moments[i], value)
		}
	}
	count := map[string]int{}
	for i := range times {
		job, log := fmt.Sprint("j", i), filepath.Join(folder, fmt.Sprint(i))
		eventually(t, "the lock lapses", func() bool { _, _, ttl := lockOf(t, job); return ttl == -2 })
		count[settled(t, rival, job, log, moments[i], line(i, "1m"))]++
	}
	t.Log(count)
	if count["uncertain"] == 0 || count["clean"]+count["done"] == 0 {
		t.Errorf("%v: the moments do not show anything", count)
	}
}

// settled asks again for a slot whose run was killed, and says what it found: clean, done or uncertain.
func settled(t *testing.T, rival *host, job, log string, moment time.Duration, args []string) string {
	t.Helper()
	slot := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	l := &ledger{shared.rdb, namespaceOf(t)}
	known := shared.rdb.HExists(context.Background(), l.keys(job)[2], slot).Val()
	before := len(readEffects(t, log, true))
	state := "clean"
	if known {
		state = entryOf(t, job, slot).State
	}
	r := rival.run(args...)
	after := readEffects(t, log, true)
	switch {
	case !known && before == 0 && len(after) == 1:
		silent(t, job, r)
		return "clean"
	case state == "done" && before == 1 && len(after) == 1:
		silent(t, job, r)
		return "done"
	case state == "running" && before <= 1 && len(after) == before:
		if !regexp.MustCompile(uncertainLine(job, slot, "web-1")).MatchString(r.stderr) || r.status != 75 || r.stdout != "" {
			t.Errorf("%s, killed after %v: got %v", job, moment, r)
		}
		return "uncertain"
	}
	t.Errorf("%s, killed after %v: entry %q, %d starts, then %v and %d starts", job, moment, state, before, r, len(after))
	return state
}

func uncertainLine(job, slot, host string) string {
	return fmt.Sprintf(`^onceonly: %[1]s %[2]s: not run: uncertain: %[3]s:\d+ began at (\d\d-\d\d )?\d\d:\d\d:\d\d and never reported; it may have done all, part or nothing
onceonly: hint: find out, then onceonly resolve %[1]s --date %[2]s --done or --reopen, --reason TEXT
$`, job, slot, host)
}

// SH-05: the same, at each step by turns: the reply to a request is held back for ever, and onceonly is killed while it
// waits. Or Redis never saw the request.
func TestCaseKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for step, want := range []string{"clean", "uncertain", "done"} {
		t.Run(fmt.Sprintf("no reply to request %d", step+1), func(t *testing.T) {
			t.Parallel()
			p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			line := func(lease string) []string {
				return append([]string{"run", "--job", "j", "--date", "yesterday", "--lease", lease}, effects(log, "true")...)
			}
			newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "") // the first has a request more
			p.dropReply("", step+1, false)
			web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(line("1s")...)
			eventually(t, "the request is executed", func() bool { return p.dropsLeft() == 0 })
			if _, value, ttl := lockOf(t, "j"); ttl == -1 {
				t.Errorf("the lock %q lives for ever", value)
			}
			web.kill()
			eventually(t, "the lock lapses", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 })
			if got := settled(t, newHost(t, "web-2"), "j", log, 0, line("1m")); got != want {
				t.Errorf("left %s, want %s", got, want)
			}
		})
	}
}

// SH-07: who has lost the lock to another does not free it, however it ends; and how it ended is written all the same.
func TestCaseSomebodyElsesLock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, then string
		signal     syscall.Signal
		entry      string
	}{
		{"exit 0", "exit 0", 0, "done"}, {"exit 1", "exit 1", 0, "failed"}, {"TERM", "exec sleep 20", syscall.SIGTERM, "failed"},
		{"until it notices", "exec sleep 20", 0, "failed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			log, gate := filepath.Join(folder, "log"), filepath.Join(folder, "gate")
			p := newHost(t, "web-1").start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "3s"},
				effects(log, `until test -e "`+gate+`"; do sleep 0.01; done; `+c.then)...)...)
			eventually(t, "it starts", started(log))
			key, _, _ := lockOf(t, "j")
			foreign := strings.Repeat("f", 32) + "web-3:77"
			if err := shared.rdb.Set(context.Background(), key, foreign, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.signal != 0 {
				p.cmd.Process.Signal(c.signal)
			}
			r := p.result(t)
			if _, value, ttl := lockOf(t, "j"); value != foreign || ttl < 40*time.Second || ttl > time.Minute {
				t.Errorf("the other's lock is now %q for %v", value, ttl)
			}
			if e := entryOf(t, "j", "2026-01-05"); e.State != c.entry {
				t.Errorf("the entry is %q, want %q; onceonly left %v", e.State, c.entry, r)
			}
			if c.what == "until it notices" && (r.status != 75 || !strings.HasPrefix(r.stderr, "onceonly: j 2026-01-05: stopped: lease lost")) {
				t.Errorf("got %v, want 75 and a line", r)
			}
		})
	}
}

// SH-09, 10: an error while taking the lease is not the lease, and broken does not look like busy: whatever is wrong with
// Redis, nothing starts, the exit status is 69, and there is one line, with the server's words, within --redis-wait.
func TestCaseRedisUnwilling(t *testing.T) {
	t.Parallel()
	says := func(line string, commands ...string) func(*testing.T, *proxy) string {
		return func(_ *testing.T, p *proxy) string {
			p.answer(line, commands...)
			return regexp.QuoteMeta(strings.TrimPrefix(strings.TrimPrefix(line, "-"), "ERR "))
		}
	}
	for what, breakIt := range map[string]func(*testing.T, *proxy) string{
		"refuse":               func(_ *testing.T, p *proxy) string { p.refuse(); return "not reached in 1s: connection refused" },
		"hang up":              func(_ *testing.T, p *proxy) string { p.hangUp(); return "not reached in 1s: " },
		"reset":                func(_ *testing.T, p *proxy) string { p.reset(); return "not reached in 1s: connection reset" },
		"requests swallowed":   func(_ *testing.T, p *proxy) string { p.swallow(true, false); return "not reached in 1s: " },
		"replies swallowed":    func(_ *testing.T, p *proxy) string { p.swallow(false, true); return "not reached in 1s: " },
		"nothing is connected": func(_ *testing.T, p *proxy) string { p.switchTo("127.0.0.1:1"); return "not reached in 1s: " },
		"HTTP": func(t *testing.T, p *proxy) string {
			s := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(s.Close)
			p.switchTo(s.Listener.Addr().String())
			return ""
		},
		"TLS": func(t *testing.T, p *proxy) string {
			s := httptest.NewTLSServer(http.NotFoundHandler())
			t.Cleanup(s.Close)
			p.switchTo(s.Listener.Addr().String())
			return ""
		},
		"a replica": func(t *testing.T, p *proxy) string {
			r := newRedis(t, "--replicaof", "127.0.0.1", strconv.Itoa(newRedis(t).port))
			p.switchTo(r.address())
			return "READONLY You can't write against a read only replica"
		},
		"a replica of nobody": func(t *testing.T, p *proxy) string {
			p.switchTo(newRedis(t, "--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no").address())
			return "MASTERDOWN "
		},
		"no memory": func(t *testing.T, p *proxy) string {
			p.switchTo(newRedis(t, "--maxmemory", "1").address())
			return "OOM command not allowed"
		},
		"no replicas": func(t *testing.T, p *proxy) string {
			p.switchTo(newRedis(t, "--min-replicas-to-write", "1").address())
			return "NOREPLICAS Not enough good replicas"
		},
		"busy": func(t *testing.T, p *proxy) string {
			r := newRedis(t, "--busy-reply-threshold", "1")
			go r.rdb.Eval(context.Background(), "while true do end", nil)
			eventually(t, "it is busy", func() bool {
				err := r.rdb.Ping(context.Background()).Err()
				return err != nil && strings.HasPrefix(err.Error(), "BUSY")
			})
			p.switchTo(r.address())
			return "BUSY Redis is busy running a script"
		},
		"-LOADING":     says("-LOADING Redis is loading the dataset in memory"),
		"-ERR":         says("-ERR max number of clients reached"),
		"-ERR EVAL":    says("-ERR Error running script", "EVAL"),
		"-MISCONF":     says("-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk", "EVAL"),
		"-CLUSTERDOWN": says("-CLUSTERDOWN The cluster is down", "EVAL"),
		"-UNKILLABLE":  says("-UNKILLABLE Sorry the script already executed write commands", "EVAL"),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, shared.address())
			words := breakIt(t, p)
			wantAway(t, p.url(), words)
		})
	}
}

// wantAway wants 69 within --redis-wait and two seconds, one line with those words, and nothing run.
func wantAway(t *testing.T, url, words string) {
	t.Helper()
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+url)
	p := web.start("run", "--job", "j", "--date", "2026-01-05", "--redis-wait", "1s", "--exit-busy", "9", "--exit-done", "9", "--", "echo", "ran")
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.cmd.Process.Kill()
	}
	r := p.result(t)
	if took := time.Since(p.began); took > 3*time.Second {
		t.Errorf("took %v, want at most --redis-wait 1s and 2s", took)
	}
	line := regexp.MustCompile(`^onceonly: j 2026-01-05: not run: Redis at \S+:? [^\n]*` + words + `[^\n]*\n$`)
	if r.status != 69 || r.stdout != "" || !line.MatchString(r.stderr) {
		t.Errorf("got %v\nwant status 69 and a line of the form %q", r, line)
	}
}

// SH-31: nothing answers even the connecting, as behind a firewall that drops.
func TestCaseRedisBehindAFirewall(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(name.(*unix.SockaddrInet4).Port)
	for full := false; !full; { // a queue that is full and never emptied: what asks to come in is dropped
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if full = err != nil; !full {
			t.Cleanup(func() { c.Close() })
		}
	}
	wantAway(t, "redis://"+address+"/0", "not reached in 1s: ")
}

// SH-10: what monitoring sees: quiet for a held lock and for a date that is done, loud and different for a Redis that is
// down (69) and for a wrong password (77).
func TestCaseBusyIsNotBroken(t *testing.T) {
	t.Parallel()
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	p := newHost(t, "web-1").start(append([]string{"run", "--job", "j", "--date", "2026-01-05"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)...)
	eventually(t, "it starts", started(log))
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--redis-wait", "1s"}, effects(log, "true")...)
	web := newHost(t, "web-2")
	silent(t, "busy", web.run(args...))
	web.run(slices.Concat([]string{"run", "--exit-busy", "41", "--exit-done", "42"}, args[1:])...).want(t, 41, "")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	silent(t, "the holder", p.result(t))
	silent(t, "done", web.run(args...))
	web.run(slices.Concat([]string{"run", "--exit-busy", "41", "--exit-done", "42"}, args[1:])...).want(t, 42, "")
	down := newProxy(t, shared.address())
	down.refuse()
	newHost(t, "web-2", "ONCEONLY_REDIS="+down.url()).run(args...).want(t, 69,
		"onceonly: j 2026-01-05: not run: Redis at "+down.address()+" not reached in 1s: connection refused\n")
	secret := newRedis(t)
	for _, rule := range [][]any{{"ACL", "SETUSER", "cron", "on", ">right", "~*", "&*", "+@all"}, {"ACL", "SETUSER", "default", "resetpass", ">other"}} {
		if err := secret.rdb.Do(context.Background(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for user, words := range map[string]string{"cron:s3cret@": ", user cron: WRONGPASS invalid username-password pair or user is disabled.\n",
		"": ", user default: NOAUTH Authentication required.\n"} {
		w := newHost(t, "web-2", "ONCEONLY_REDIS=redis://"+user+secret.address()).start(args...)
		w.result(t).want(t, 77, "onceonly: j 2026-01-05: not run: Redis at "+secret.address()+words)
		if took := time.Since(w.began); took > 3*time.Second {
			t.Errorf("took %v to be refused", took)
		}
	}
	if got := readEffects(t, log, false); len(got) != 1 {
		t.Errorf("%d starts, want 1", len(got))
	}
}

// SH-30: Redis forgets its scripts again and again while a job runs: the lease is renewed, the end is written, the lock
// goes, and nobody hears of it.
func TestCaseScriptsForgotten(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), context.Background()
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "2s"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
	p := web.start(args...)
	eventually(t, "it starts", started(log))
	key := (&ledger{r.rdb, namespaceOf(t)}).keys("j")[0]
	holder := r.rdb.Get(ctx, key).Val()
	for time.Since(p.began) < 3*time.Second {
		if err := r.rdb.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if got := r.rdb.Get(ctx, key).Val(); got != holder || holder == "" {
			t.Fatalf("the lock is %q, was %q", got, holder)
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.rdb.ScriptFlush(ctx)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	silent(t, "the holder", p.result(t))
	if n := r.rdb.Exists(ctx, key).Val(); n != 0 {
		t.Errorf("the lock is still there")
	}
	silent(t, "the next host", newHost(t, "web-2", "ONCEONLY_REDIS="+r.url()).run(args...))
	if got := readEffects(t, log, false); len(got) != 1 {
		t.Errorf("%d starts, want 1", len(got))
	}
}

// Three requests for a run, two for one that finds it done or busy, the handshake included, whether Redis knows the
// scripts or not. A job's first run may take one more. (SH-35)
func TestCaseRequests(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	p := newProxy(t, r.address())
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
	ask := func(what string, most int, args ...string) result {
		t.Helper()
		p.forget()
		got := web.run(args...)
		if asked := p.requests(); len(asked) > most || p.connections() != 1 {
			t.Errorf("%s: %d requests on %d connections, want at most %d on one: %q", what, len(asked), p.connections(), most, asked)
		}
		return got
	}
	ask("a job's first run", 4, "run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
	for n, what := range []string{"warm", "after SCRIPT FLUSH", "warm again"} {
		if n == 1 {
			if err := r.rdb.ScriptFlush(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		day := "2026-01-1" + strconv.Itoa(n)
		ask("a run, "+what, 3, "run", "--job", "j", "--date", day, "--", "true").want(t, 0, "")
		ask("a run that fails, "+what, 3, "run", "--job", "j", "--date", "2026-01-2"+strconv.Itoa(n), "--", "false").want(t, 1, "")
		if n == 1 {
			r.rdb.ScriptFlush(context.Background())
		}
		ask("done, "+what, 2, "run", "--job", "j", "--date", day, "--", "true").want(t, 0, "")
		ask("failed, "+what, 2, "run", "--job", "j", "--date", "2026-01-2"+strconv.Itoa(n), "--", "false")
	}
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
	holder := newHost(t, "web-2", "ONCEONLY_REDIS="+r.url()).start(args...)
	eventually(t, "it starts", started(log))
	silent(t, "busy", ask("busy", 2, args...))
	os.WriteFile(gate, nil, 0o600)
	silent(t, "the holder", holder.result(t))
}

// A begin that Redis executes and whose reply is lost is asked again: the same attempt has the same token, and there is
// one start. (SH-09)
func TestCaseReplyLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		lose func(*proxy)
	}{
		{"cut", func(p *proxy) { p.dropReply("EVAL", 1, true) }},
		{"not heard", func(p *proxy) { p.dropReply("EVAL", 1, false) }},
		{"three times", func(p *proxy) {
			p.dropReply("EVAL", 1, true)
			p.dropReply("EVAL", 2, true)
			p.dropReply("EVAL", 3, true)
		}},
		{"the end's", func(p *proxy) { p.dropReply("EVAL", 2, true) }},
		{"the end's, not heard", func(p *proxy) { p.dropReply("EVAL", 2, false) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
			c.lose(p)
			web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
			silent(t, "the run", web.start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "10s"}, effects(log, "true")...)...).result(t))
			wantOneAttempt(t, log, "j", "2026-01-05")
			if p.dropsLeft() != 0 {
				t.Errorf("%d replies were never lost", p.dropsLeft())
			}
		})
	}
}

// All replies are swallowed for a while that is shorter than the lease: the begin is asked again, and the run starts, once.
func TestCaseRepliesSwallowedForAWhile(t *testing.T) {
	t.Parallel()
	p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
	// The handshake gets through, the begin is executed, and from then on nothing is heard.
	p.dropReply("EVAL", 1, false)
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "20s"}, effects(log, "true")...)...)
	eventually(t, "the begin is executed", func() bool { return p.dropsLeft() == 0 })
	p.swallow(false, true)
	p.forget()
	eventually(t, "it asks again", func() bool { return p.connections() > 0 || len(p.requests()) > 0 })
	if started(log)() {
		t.Error("started without having heard that it may")
	}
	p.pass()
	p.resetOnce()
	silent(t, "the run", web.result(t))
	wantOneAttempt(t, log, "j", "2026-01-05")
}

// A reply that comes after the lease that it speaks of starts nothing.
func TestCaseReplyAfterTheLease(t *testing.T) {
	t.Parallel()
	p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	p.delay(700 * time.Millisecond) // each way
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url(), "ONCEONLY_STATE_DIR="+t.TempDir())
	r := web.start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "1s", "--redis-wait", "2s"}, effects(log, "true")...)...).result(t)
	if r.status != 69 || started(log)() || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("got %v, %q\nwant status 69, a line, and no start", r, lines(log))
	}
}

// The lease runs out while onceonly waits for a reply, and another host takes over. Whatever the first hears then, it
// starts nothing: neither where the begin's reply is lost, nor where Redis falls silent after it, before the command.
//
//	web-1  begin ... no reply ......................... asks again
//	web-2                     lease over, begin, run
func TestCaseOvertakenBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"from the begin on", "after the begin"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
			gate := filepath.Join(t.TempDir(), "gate")
			if when == "from the begin on" {
				newHost(t, "web-9").run("run", "--job", "j", "--date", "2026-01-01", "--", "true").want(t, 0, "")
				p.dropReply("EVAL", 1, false)
			} else {
				p.dropReply("SADD", 1, false) // a job's first run asks this, too
			}
			line := func(lease string) []string {
				return append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "2", "--lease", lease},
					effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
			}
			first := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(line("1s")...)
			eventually(t, "the request is executed", func() bool { return p.dropsLeft() == 0 })
			p.swallow(true, false)
			eventually(t, "the lease is over", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 || len(lines(log)) > 0 })
			second := newHost(t, "web-2").start(line("1m")...)
			eventually(t, "somebody starts", started(log))
			p.pass()
			for since := time.Now(); !first.ended() && time.Since(since) < 6*time.Second; { // the first hears something in 3 s
				time.Sleep(10 * time.Millisecond)
			}
			os.WriteFile(gate, nil, 0o600)
			r1, r2 := first.result(t), second.result(t)
			silent(t, "the first, which finds it busy", r1)
			if got := readEffects(t, log, false); len(got) != 1 || r1.stdout != "" || r2.stdout != "" {
				t.Errorf("%d starts, want 1: %q\nthe first: %v\nthe second: %v", len(got), lines(log), r1, r2)
			}
			if e := entryOf(t, "j", "2026-01-05"); e.State != "done" || e.Host != "web-2" {
				t.Errorf("entry %+v, want done on web-2", e)
			}
		})
	}
}

// wantOneAttempt wants one START, with the token that the entry has, done at the first attempt, and one begin in the log.
func wantOneAttempt(t *testing.T, log, job, slot string) {
	t.Helper()
	got, e := readEffects(t, log, false), entryOf(t, job, slot)
	if len(got) != 1 || got[0].token != int64(e.Token) || e.State != "done" || e.Attempt != 1 {
		t.Errorf("starts %v, entry %+v; want one start, done at the first attempt, of one token", got, e)
	}
	begins := 0
	events, err := shared.rdb.XRange(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys(job)[4], "-", "+").Result()
	for _, event := range events {
		if event.Values["event"] == "begin" && event.Values["slot"] == slot {
			begins++
		}
	}
	if err != nil || begins != 1 {
		t.Errorf("%d begins in the log, %v; want 1", begins, err)
	}
}

// SH-04: the whole host dies. With an attempt left another takes over when the lease is over, not before it and at most a
// second after it, with a greater token; and says so.
func TestCaseTakeover(t *testing.T) {
	t.Parallel()
	log, lease := filepath.Join(t.TempDir(), "log"), 2*time.Second
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "2", "--lease", "2s"}, effects(log, `test $ONCEONLY_ATTEMPT = 2 || exec sleep 30`)...)
	dead := dieInTheMiddle(t, newHost(t, "web-1"), log, args)
	_, _, left := lockOf(t, "j")
	killed, rival := time.Now(), newHost(t, "web-2")
	if left > lease || left < 0 {
		t.Fatalf("the lease is %v", left)
	}
	var r result
	for r = rival.run(args...); len(lines(log)) == 1; r = rival.run(args...) {
		silent(t, "before the lease is over", r)
		if time.Since(killed) > lease+time.Second {
			t.Fatalf("nobody took over within %v", lease+time.Second)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if took := time.Since(killed); took < left-50*time.Millisecond || took > lease+time.Second {
		t.Errorf("taken over after %v, with %v of the lease left", took, left)
	}
	want := fmt.Sprintf(`^onceonly: j 2026-01-05: taking over, attempt 2 of 2: web-1:%d not heard of for [1-3]s\n$`, dead)
	if r.status != 0 || r.stdout != "" || !regexp.MustCompile(want).MatchString(r.stderr) {
		t.Errorf("got %v\nwant status 0, %s", r, want)
	}
	if got := readEffects(t, log, true); len(got) != 2 || got[1].attempt != 2 || got[1].slot != "2026-01-05" {
		t.Errorf("starts %v, want two, the second as attempt 2", got)
	}
	if e := entryOf(t, "j", "2026-01-05"); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" {
		t.Errorf("entry %+v", e)
	}
	silent(t, "afterwards", newHost(t, "web-3").run(args...))
}

// dieInTheMiddle starts a run, kills onceonly and its command when that has started, and returns onceonly's process ID.
func dieInTheMiddle(t *testing.T, web *host, log string, args []string) int {
	t.Helper()
	p := web.start(args...)
	eventually(t, "it starts", started(log))
	command := readEffects(t, log, true)[0].pid
	p.cmd.Process.Kill() // first: it must not see its command die
	syscall.Kill(-command, syscall.SIGKILL)
	<-p.done
	eventually(t, "the command is gone", func() bool { return syscall.Kill(command, 0) != nil })
	return p.cmd.Process.Pid
}

// SH-04: with one attempt nobody guesses: while the lease lives the slot is busy, then it is uncertain: 75 for everybody,
// and one line from the first in the fleet that asks.
func TestCaseUncertain(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "1s"}, effects(log, `exec sleep 30`)...)
	dieInTheMiddle(t, newHost(t, "web-1"), log, args)
	if _, _, ttl := lockOf(t, "j"); ttl > 300*time.Millisecond {
		silent(t, "before the lease is over", newHost(t, "web-2").run(args...))
	}
	eventually(t, "the lease is over", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 })
	said := 0
	for n, r := range atOneInstant(t, 10, args) {
		if r.status != 75 || r.stdout != "" || r.stderr != "" && !regexp.MustCompile(uncertainLine("j", "2026-01-05", "web-1")).MatchString(r.stderr) {
			t.Errorf("web-%d: %v", n, r)
		}
		if r.stderr != "" {
			said++
		}
	}
	newHost(t, "web-2").run(args...).want(t, 75, "")
	if got := readEffects(t, log, true); len(got) != 1 || said != 1 {
		t.Errorf("%d starts, told %d times; want 1 and 1", len(got), said)
	}
	if e := entryOf(t, "j", "2026-01-05"); e.State != "running" || e.Attempt != 1 {
		t.Errorf("entry %+v", e)
	}
	// Another slot of the job is not held up by it. (Ruling 12)
	newHost(t, "web-2").run("run", "--job", "j", "--date", "2026-01-06", "--", "echo", "ran")
	if e := entryOf(t, "j", "2026-01-06"); e.State != "done" {
		t.Errorf("the next slot: %+v", e)
	}
}

// SH-04: twenty hosts ask at the instant at which the dead one's lease is over. One takes over.
func TestCaseTakeoverByMany(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "2", "--lease", "2s"}, effects(log, `test $ONCEONLY_ATTEMPT = 2 || exec sleep 30; sleep 0.1`)...)
	dieInTheMiddle(t, newHost(t, "dead"), log, args)
	said := 0
	eventually(t, "the lease is nearly over", func() bool { _, _, ttl := lockOf(t, "j"); return ttl < 50*time.Millisecond })
	for len(lines(log)) == 1 {
		for n, r := range atOneInstant(t, 20, args) {
			if r.status != 0 || r.stdout != "" || r.stderr != "" && !strings.HasPrefix(r.stderr, "onceonly: j 2026-01-05: taking over, attempt 2 of 2: dead:") {
				t.Errorf("web-%d: %v", n, r)
			}
			said += strings.Count(r.stderr, "\n")
		}
	}
	if got := readEffects(t, log, true); len(got) != 2 || got[1].attempt != 2 || said != 1 || len(lines(log)) != 3 {
		t.Errorf("%q, told %d times; want a second start, which ends, and one line", lines(log), said)
	}
}

// SH-11: two slots of one job never overlap, however many are asked for at once; and none is lost: whose turn does not
// come (75) finds the slot as free as it was.
func TestCaseManySlotsAtOnce(t *testing.T) {
	t.Parallel()
	log, slots := filepath.Join(t.TempDir(), "log"), 12
	var all []*process
	line := func(n int) []string {
		return append([]string{"run", "--job", "j", "--date", fmt.Sprintf("2026-01-%02d", n+1)}, effects(log, "sleep 0.05")...)
	}
	for n := range slots {
		all = append(all, newHost(t, "web-"+strconv.Itoa(n)).start(line(n)...))
	}
	for n, p := range all {
		if r := p.result(t); r.status != 0 && r.status != 75 || r.stdout != "" {
			t.Errorf("2026-01-%02d: %v", n+1, r)
		}
	}
	for n := range slots {
		silent(t, "asked again", newHost(t, "late").run(line(n)...))
	}
	got := readEffects(t, log, false)
	slices.SortFunc(got, func(a, b effect) int { return strings.Compare(a.slot, b.slot) })
	for n := range slots {
		if len(got) != slots || got[n].slot != fmt.Sprintf("2026-01-%02d", n+1) {
			t.Fatalf("the starts are %v, want each of %d slots once", got, slots)
		}
	}
}

// A begin that is on its way when its sender dies, and arrives when the slot has been run by another, changes nothing and
// holds nothing up.
//
//	web-1  begin ............................ arrives
//	       killed
//	web-2          begin, run, finish (done)
func TestCaseBeginArrivesLate(t *testing.T) {
	t.Parallel()
	p, log := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "log")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--attempts", "5"}, effects(log, "true")...)
	p.delay(500 * time.Millisecond)
	web := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start(args...)
	eventually(t, "the begin is sent", func() bool { return slices.Contains(p.requests(), "EVAL") })
	web.kill()
	silent(t, "the other host", newHost(t, "web-2").run(args...))
	before := entryOf(t, "j", "2026-01-05")
	eventually(t, "the begin has arrived", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.relays) == 0
	})
	silent(t, "the next slot", newHost(t, "web-2").run("run", "--job", "j", "--date", "2026-01-06", "--", "true"))
	after := entryOf(t, "j", "2026-01-05")
	if _, value, ttl := lockOf(t, "j"); ttl != -2 || before.Token != after.Token || after.State != "done" || after.Attempt != 1 {
		t.Errorf("the lock is %q for %v; the entry was %+v and is %+v", value, ttl, before, after)
	}
	if got := readEffects(t, log, false); len(got) != 1 {
		t.Errorf("%d starts, want 1", len(got))
	}
}

// SH-67: the token is a decimal number, in every command, rising in the order of the starts, and the ledger's. Over ten
// hosts, with failures, killed hosts, lost replies and a Redis whose clock was once ahead.
func TestCaseTokens(t *testing.T) {
	t.Parallel()
	runs, log := 40, filepath.Join(t.TempDir(), "log")
	if long {
		runs = 200
	}
	p, fence := newProxy(t, shared.address()), int64(0)
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for n := range runs {
		slot := day.AddDate(0, 0, -n).Format(time.DateOnly)
		web := newHost(t, "web-"+strconv.Itoa(n%10), "ONCEONLY_REDIS="+p.url())
		line := func(lease, between string) []string {
			return append([]string{"run", "--job", "j", "--date", slot, "--lease", lease, "--attempts", "2"}, effects(log, between)...)
		}
		switch {
		case n == runs/2: // a fence from a clock that was ahead by 900 years
			if err := shared.rdb.Set(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys("j")[1], "30000000000000", 0).Err(); err != nil {
				t.Fatal(err)
			}
			fence = 30000000000000
		case n%10 == 3:
			p.dropReply("EVAL", 1, true)
		case n%20 == 5:
			before := len(lines(log))
			w := web.start(line("1s", "exec sleep 30")...)
			eventually(t, "it starts", func() bool { return len(lines(log)) > before })
			w.kill()
			eventually(t, "the lease is over", func() bool { _, _, ttl := lockOf(t, "j"); return ttl == -2 })
			web = newHost(t, "web-99", "ONCEONLY_REDIS="+p.url())
		}
		if r := web.start(line("1m", "true")...).result(t); r.status != 0 {
			t.Fatalf("run %d: %v", n, r)
		}
		got := readEffects(t, log, true)
		if last, e := got[len(got)-1], entryOf(t, "j", slot); last.token != int64(e.Token) || last.token <= fence || last.slot != slot || e.State != "done" {
			t.Errorf("run %d: the command saw %+v, the entry is %+v, the newest token was %d", n, last, e, fence)
		}
		fence = got[len(got)-1].token
	}
	token := regexp.MustCompile(`^(START|END) [0-9-]+ [1-9][0-9]{12,15}( |$)`)
	for _, l := range lines(log) {
		if !token.MatchString(l) {
			t.Errorf("no decimal number: %q", l)
		}
	}
	if got := readEffects(t, log, true); len(got) != runs+runs/20 {
		t.Errorf("%d starts, want %d", len(got), runs+runs/20)
	}
}

// SH-68: no mail from the losers, nor from a winner whose command says nothing. With -v one line each, which says what
// applies; with Redis down one line each.
func TestCaseMail(t *testing.T) {
	t.Parallel()
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
	verbose := slices.Concat([]string{"run", "-v"}, args[1:])
	winner := newHost(t, "winner").start(args...)
	eventually(t, "it starts", started(log))
	for n, r := range atOneInstant(t, 20, args) {
		silent(t, fmt.Sprintf("busy, web-%d", n), r)
	}
	busy := regexp.MustCompile(fmt.Sprintf(`^onceonly: j 2026-01-05: not run: running on winner:%d since (\d\d-\d\d )?\d\d:\d\d:\d\d, renewed \d+s ago, lease until (\d\d-\d\d )?\d\d:\d\d:\d\d\n$`, winner.cmd.Process.Pid))
	for n, r := range atOneInstant(t, 5, verbose) {
		if r.status != 0 || r.stdout != "" || !busy.MatchString(r.stderr) {
			t.Errorf("busy, -v, web-%d: %v", n, r)
		}
	}
	os.WriteFile(gate, nil, 0o600)
	silent(t, "the winner", winner.result(t))
	for n, r := range atOneInstant(t, 20, args) {
		silent(t, fmt.Sprintf("done, web-%d", n), r)
	}
	done := regexp.MustCompile(`^onceonly: j 2026-01-05: not run: done on winner at (\d\d-\d\d )?\d\d:\d\d:\d\d \(\d+s\)\n$`)
	for n, r := range atOneInstant(t, 5, verbose) {
		if r.status != 0 || r.stdout != "" || !done.MatchString(r.stderr) {
			t.Errorf("done, -v, web-%d: %v", n, r)
		}
	}
	down := newProxy(t, shared.address())
	down.refuse()
	var wait sync.WaitGroup
	for n := range 20 {
		wait.Go(func() {
			newHost(t, "web-"+strconv.Itoa(n)).run(slices.Concat([]string{"run", "--redis", down.url(), "--redis-wait", "1s"}, args[1:])...).want(t, 69,
				"onceonly: j 2026-01-05: not run: Redis at "+down.address()+" not reached in 1s: connection refused\n")
		})
	}
	wait.Wait()
}
