package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"onceonly/scripts/ports"
	"onceonly/scripts/redisserver"
)

// The tests run the binary that people get against real servers. TestMain builds the one and starts a Redis that all
// tests share, each with a namespace of its own; who breaks a Redis starts another.

var (
	binary string       // the built onceonly
	shared *redisServer // never stopped, paused or flushed by a test
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM} {
		if signal.Ignored(s) { // nohup and the like: the tests' processes must not inherit that
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	dir, err := os.MkdirTemp("", "onceonly")
	if err != nil {
		return fatal(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "onceonly")
	if err := buildProgram(binary); err != nil {
		return fatal(err)
	}
	for _, v := range os.Environ() { // no setting of the caller's shell reaches a test
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "ONCEONLY_") &&
			!strings.HasPrefix(name, "ONCEONLY_TEST_") && name != "ONCEONLY_TRIPLES" && name != "ONCEONLY_SEED" {
			os.Unsetenv(name)
		}
	}
	os.Setenv("ONCEONLY_CONFIG", filepath.Join(dir, "onceonly.conf"))
	if err := os.WriteFile(os.Getenv("ONCEONLY_CONFIG"), nil, 0o600); err != nil {
		return fatal(err)
	}
	os.Setenv("ONCEONLY_STATE_DIR", filepath.Join(dir, "state"))
	if shared, err = startRedis(dir); err != nil {
		return fatal(err)
	}
	defer shared.stop()
	defer stopPostgres()
	return m.Run()
}

func fatal(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A redisServer is a redis-server of its own, on a loopback port and a unix socket.
type redisServer struct {
	port   int
	socket string
	dir    string
	cmd    *exec.Cmd
	rdb    *redis.Client
}

// startRedis starts a server in a new folder below dir, and returns when it answers.
func startRedis(dir string, args ...string) (*redisServer, error) {
	dir, err := os.MkdirTemp(dir, "redis")
	if err != nil {
		return nil, err
	}
	r := &redisServer{dir: dir, socket: redisserver.Socket(dir)}
	if r.port, err = ports.Free(); err != nil {
		return nil, err
	}
	return r, r.start(args...)
}

func (r *redisServer) start(args ...string) error {
	r.cmd = redisserver.Command(r.dir, r.port, args...)
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("these tests need redis-server (scripts/setup installs it): %w", err)
	}
	r.rdb = redisserver.Client(r.dir)
	err := redisserver.Await(context.Background(), r.rdb)
	if err != nil {
		r.stop()
	}
	return err
}

func (r *redisServer) url() string { return "redis://127.0.0.1:" + strconv.Itoa(r.port) + "/0" }

func (r *redisServer) address() string { return "127.0.0.1:" + strconv.Itoa(r.port) }

// stop ends the server by its process ID. What it held is gone, unless its arguments say otherwise.
func (r *redisServer) stop() {
	r.rdb.Close()
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

// newRedis is a server for one test.
func newRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	r, err := startRedis(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}

// A host is a machine as the tests have it: a name, and the environment of its crontab.
type host struct {
	t    *testing.T
	name string
	env  []string
}

// newHost makes a host that uses the shared Redis in the test's own namespace; more of env beats that.
func newHost(t *testing.T, name string, env ...string) *host {
	base := []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "TZ=UTC",
		"ONCEONLY_CONFIG=" + os.Getenv("ONCEONLY_CONFIG"), "ONCEONLY_REDIS=" + shared.url(),
		"ONCEONLY_NAMESPACE=" + namespaceOf(t), "ONCEONLY_HOST=" + name,
		"ONCEONLY_STATE_DIR=" + filepath.Join(t.TempDir(), "state")}
	return &host{t: t, name: name, env: append(base, env...)}
}

var namespaces = struct {
	sync.Mutex
	of     map[*testing.T]string
	rounds map[string]int
}{of: map[*testing.T]string{}, rounds: map[string]int{}}

// namespaceOf is the test's own, another in each round of -count.
func namespaceOf(t *testing.T) string {
	namespaces.Lock()
	defer namespaces.Unlock()
	name, known := namespaces.of[t]
	if !known {
		name = strings.NewReplacer("/", ".", " ", "_").Replace(t.Name())
		namespaces.rounds[name]++
		if n := namespaces.rounds[name]; n > 1 {
			name += fmt.Sprint(".", n)
		}
		namespaces.of[t] = name
	}
	return name
}

// A result is what a process left.
type result struct {
	status         int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("status %d\nstdout: %q\nstderr: %q", r.status, r.stdout, r.stderr)
}

// command is onceonly on that host, not yet started.
func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = slices.Clone(h.env)
	return cmd
}

// run runs onceonly on that host to its end.
func (h *host) run(args ...string) result {
	h.t.Helper()
	var out, err strings.Builder
	cmd := h.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	return result{exitStatus(h.t, cmd.Run()), out.String(), err.String()}
}

func exitStatus(t *testing.T, err error) int {
	t.Helper()
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e == nil {
		return 0
	}
	return e.ExitCode()
}

// want fails the test if a process did not leave this status and exactly this on stderr.
func (r result) want(t *testing.T, status int, stderr string) {
	t.Helper()
	if r.status != status || r.stderr != stderr {
		t.Errorf("got %v\nwant status %d, stderr %q", r, status, stderr)
	}
}

// buildProgram builds it as make does, with more flags.
func buildProgram(name string, flags ...string) error {
	build := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-tags", "urfave_cli_no_docs,urfave_cli_no_suggest",
		"-o", name}, flags, []string{"."})...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %v\n%s", err, out)
	}
	return nil
}

// absent ends a test that needs something which is not here: skipped, but where CI runs it that is a failure.
func absent(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI must have what this test needs, %s", what)
	}
	t.Skipf("this test needs %s", what)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, to, string(text))
}

// writeProgram writes what is to be executed. No other test may start a process meanwhile: it would hold the file open for
// writing until its own exec, and nobody could execute it.
func writeProgram(t *testing.T, name, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(name, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = os.Chmod(name, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a fact, with a deadline.
func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	within(t, 20*time.Second, what, fact)
}

// within is for a fact that takes longer to come.
func within(t *testing.T, patience time.Duration, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !fact(); {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// renewed waits for as many renewals of a lease, and holds each look at it against check. A renewal is seen by the time
// that is left becoming more; it is for the whole length of the lease, of which a look comes in time to see more than three
// quarters, and never for longer.
func renewed(t *testing.T, times int, length time.Duration, left func() time.Duration, check func(left time.Duration)) {
	t.Helper()
	before, most := left(), time.Duration(0)
	eventually(t, fmt.Sprintf("%d renewals, for %v", times, length), func() bool {
		now := left()
		if check(now); now > length {
			t.Fatalf("a lease of %v is left for %v", length, now)
		}
		if now > before+50*time.Millisecond {
			times, most = times-1, max(most, now)
		}
		before = now
		return times <= 0 && most > length*3/4
	})
}

// lines are the lines of a file; none if it is not there.
func lines(name string) []string {
	text, _ := os.ReadFile(name)
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// entryOf reads an entry of the shared ledger.
func entryOf(t *testing.T, job, slot string) *entry {
	t.Helper()
	return shared.entryOf(t, job, slot)
}

// entryOf reads an entry of the test's own namespace.
func (r *redisServer) entryOf(t *testing.T, job, slot string) *entry {
	t.Helper()
	l := &ledger{r.rdb, namespaceOf(t)}
	text, err := r.rdb.HGet(context.Background(), l.keys(job)[2], slot).Result()
	if err != nil {
		t.Fatalf("entry %s %s: %v", job, slot, err)
	}
	e, err := decode[entry](text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestScript runs testdata/script/*.txtar: what a user types, and what comes of it. Each has a namespace of its own in
// the shared Redis. Beside testscript's commands there is
//
//	status N command...     runs it, and wants that exit status
//	redis-server            starts a Redis for this script alone: $REDIS_PORT, $REDIS_SOCKET
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(binary)+":"+os.Getenv("PATH"))
			e.Setenv("TZ", "UTC")
			e.Setenv("ONCEONLY_CONFIG", os.Getenv("ONCEONLY_CONFIG"))
			e.Setenv("ONCEONLY_REDIS", shared.url())
			e.Setenv("ONCEONLY_NAMESPACE", "script."+filepath.Base(e.WorkDir))
			e.Setenv("ONCEONLY_HOST", "web-1")
			e.Setenv("ONCEONLY_STATE_DIR", filepath.Join(e.WorkDir, ".state"))
			e.Setenv("REDIS_PORT", strconv.Itoa(shared.port))
			e.Setenv("REDIS_SOCKET", shared.socket)
			now := time.Now().UTC()
			e.Setenv("TODAY", now.Format(time.DateOnly))
			e.Setenv("YESTERDAY", now.AddDate(0, 0, -1).Format(time.DateOnly))
			e.Setenv("TOMORROW", now.AddDate(0, 0, 1).Format(time.DateOnly))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": scriptStatus, "redis-server": scriptRedis},
	})
}

func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var e *exec.ExitError
	got := 0
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &e) {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func scriptRedis(ts *testscript.TestScript, _ bool, args []string) {
	r, err := startRedis(ts.Getenv("WORK"), args...)
	ts.Check(err)
	ts.Defer(r.stop)
	ts.Setenv("REDIS_PORT", strconv.Itoa(r.port))
	ts.Setenv("REDIS_SOCKET", r.socket)
	ts.Setenv("ONCEONLY_REDIS", r.url())
}
