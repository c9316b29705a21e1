//go:build !race

package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Redis as doctor finds it: real servers, each with something wrong.

// doctorOf examines a Redis from a host of the tests.
func doctorOf(t *testing.T, url string, words ...string) result {
	t.Helper()
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+url)
	r := h.run(append([]string{"doctor", "--redis-wait", "1s"}, words...)...)
	if r.stderr != "" || strings.Contains(r.stdout, "geheim") {
		t.Errorf("%v", r)
	}
	if !slices.Contains(words, "--json") {
		checkWidth(t, r.stdout)
	}
	return r
}

// rowsOf are the rows of some subjects, hints and broken lines with them, each with one blank between words.
func rowsOf(out string, subjects ...string) (rows []string) {
	ours := false
	for l := range strings.Lines(out) {
		words := strings.Fields(l)
		switch {
		case l[0] == ' ' && ours:
			rows[len(rows)-1] += " " + strings.Join(words, " ")
		case l[0] != ' ':
			if ours = len(words) > 1 && slices.Contains(subjects, words[1]); ours {
				rows = append(rows, strings.Join(words, " "))
			}
		}
	}
	return rows
}

// A Redis that is well, and used by two hosts.
func TestDoctorRedis(t *testing.T) {
	t.Parallel()
	r := newRedis(t, "--appendonly", "yes", "--maxmemory", "100mb")
	for _, name := range []string{"web-1", "web-2"} {
		newHost(t, name, "ONCEONLY_REDIS="+r.url()).run("run", "--job", "a", "--", "true").want(t, 0, "")
	}
	before := r.rdb.Info(context.Background(), "commandstats").Val()
	got := doctorOf(t, r.url())
	rows := rowsOf(got.stdout, "redis", "ledger", "rights", "memory", "disk", "replicas", "clock")
	want := []string{
		`ok redis ` + r.address() + `, master, Redis [\d.]+, [\d.]+ ms`,
		`ok ledger TestDoctorRedis, 1 job, 2 hosts`,
		`ok rights user default may do all that is needed`,
		`ok memory maxmemory-policy noeviction`,
		`ok disk appendonly yes`,
		`ok replicas none`,
		`ok clock \d+ ms (ahead of|behind) Redis`,
	}
	if len(rows) != len(want) {
		t.Fatalf("%q", rows)
	}
	for i := range want {
		if !regexp.MustCompile("^" + want[i] + "$").MatchString(rows[i]) {
			t.Errorf("%q, want like %q", rows[i], want[i])
		}
	}
	// It never writes: no command that writes was called.
	after := r.rdb.Info(context.Background(), "commandstats").Val()
	for _, name := range []string{"set", "hset", "sadd", "zadd", "xadd", "incr", "del", "pexpire", "publish", "flushall"} {
		calls := regexp.MustCompile(`cmdstat_` + name + `:calls=\d+`)
		if calls.FindString(before) != calls.FindString(after) {
			t.Errorf("it has called %s", name)
		}
	}
}

// What is wrong with a Redis, one thing at a time: SH-23 SH-24 SH-25 SH-27 SH-28 SH-31 SH-34.
func TestDoctorBadRedis(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for what, c := range map[string]struct {
		args   []string
		url    func(*redisServer) string
		status int
		rows   []string
		not    string
	}{
		"allkeys-lru": {args: []string{"--maxmemory-policy", "allkeys-lru"}, status: 1, rows: []string{
			"FAIL memory maxmemory-policy allkeys-lru: Redis may drop ledger entries, and a dropped slot runs again hint: CONFIG SET maxmemory-policy noeviction, or a Redis apart"}},
		"volatile-lru": {args: []string{"--maxmemory-policy", "volatile-lru"}, status: 1, rows: []string{
			"FAIL memory maxmemory-policy volatile-lru: Redis may drop leases, and two runs may overlap hint: CONFIG SET maxmemory-policy noeviction, or a Redis apart"}},
		"no snapshots": {status: 0, rows: []string{
			"warn disk appendonly no: a restart of Redis forgets everything hint: CONFIG SET appendonly yes"}},
		"snapshots": {args: []string{"--save", "3600 1"}, status: 0, rows: []string{
			"warn disk appendonly no: a restart of Redis forgets since the last snapshot hint: CONFIG SET appendonly yes"}},
		"one host": {status: 0, rows: []string{
			"warn ledger TestDoctorBadRedis.one_host, 0 jobs, 0 hosts; ADDRESS is reached by this host alone: every other one would run the jobs, too " +
				"hint: an address that all hosts reach, the same on each"}},
		"a replica": {args: []string{"--replicaof", "127.0.0.1", strconv.Itoa(shared.port)}, status: 1, rows: []string{
			"FAIL redis ADDRESS is a replica of " + shared.address() + ", and takes no writes hint: the master's address, or redis+sentinel://HOST/MASTER"}},
		"a password": {args: []string{"--requirepass", "geheim"}, status: 1, rows: []string{
			"FAIL redis ADDRESS, user default: NOAUTH Authentication required."}, not: "memory"},
		"a wrong password": {args: []string{"--requirepass", "x"}, url: func(r *redisServer) string {
			return "redis://:geheim@" + r.address()
		}, status: 1, rows: []string{"FAIL redis ADDRESS, user default: WRONGPASS invalid username-password pair or user is disabled."}},
		"a raw password": {url: func(r *redisServer) string { return "redis://:geheim/@" + r.address() }, status: 1, rows: []string{
			"FAIL config ONCEONLY_REDIS: not a URL, or its password is not percent-encoded (%40 for @)"}},
		"no such database": {url: func(r *redisServer) string { return "redis://" + r.address() + "/99" }, status: 1, rows: []string{
			"FAIL redis ADDRESS: DB index is out of range"}},
		"database 3": {url: func(r *redisServer) string { return "redis://" + r.address() + "/3" }, status: 0, rows: []string{
			"ok redis ADDRESS, master, database 3, Redis "}},
		"a socket": {url: func(r *redisServer) string { return "unix://" + r.socket }, status: 0, rows: []string{
			"ok redis SOCKET, master, Redis "}},
		"away": {url: func(*redisServer) string { return "redis://127.0.0.1:1" }, status: 1, rows: []string{
			"FAIL redis 127.0.0.1:1 not reached in 1s: connection refused"}, not: "memory"},
		"no such certificate": {url: func(*redisServer) string { return "rediss://127.0.0.1:1?ca=/no/such/file" }, status: 1,
			rows: []string{"FAIL redis /no/such/file: no such file or directory"}, not: "not reached"},
		"TLS by mistake": {url: func(r *redisServer) string { return "rediss://" + r.address() }, status: 1, rows: []string{
			"FAIL redis ADDRESS not reached in 1s: "}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRedis(t, c.args...)
			if what == "a replica" {
				eventually(t, "it is in step", func() bool {
					return strings.Contains(r.rdb.Info(ctx, "replication").Val(), "master_link_status:up")
				})
			}
			url := r.url()
			if c.url != nil {
				url = c.url(r)
			}
			got := doctorOf(t, url)
			all := strings.Join(rowsOf(got.stdout, "config", "redis", "ledger", "rights", "memory", "disk", "replicas"), "\n")
			for _, row := range c.rows {
				row = strings.NewReplacer("ADDRESS", r.address(), "SOCKET", r.socket).Replace(row)
				if !strings.Contains(all+"\n", row) {
					t.Errorf("lacks %q in\n%s", row, all)
				}
			}
			if got.status != c.status || (c.not != "" && strings.Contains(all, c.not)) {
				t.Errorf("status %d, want %d\n%s", got.status, c.status, got.stdout)
			}
		})
	}
}

// A Redis that cannot save takes no writes.
func TestDoctorDisk(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t, "--save", "3600 1")
	if err := os.MkdirAll(filepath.Join(r.dir, "dump.rdb", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it could not save", func() bool {
		r.rdb.BgSave(ctx) // refused while another is at it
		return strings.Contains(r.rdb.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	got := doctorOf(t, r.url())
	hasWords(t, got.stdout, "FAIL disk Redis cannot save, and then takes no writes hint: see its log")
	if got.status != 1 {
		t.Errorf("%v", got)
	}
}

// What a Redis is called. (There is no Valkey here.)
func TestDoctorValkey(t *testing.T) {
	t.Parallel()
	server, err := parseServer("redis://10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{server: server}
	node := redisNode{"10.0.0.1:6379", map[string]string{"role": "master", "redis_version": "7.2.4", "valkey_version": "8.0.1"}}
	if got, want := strings.Join(d.aboutRedis([]redisNode{node}, 0), ", "), "10.0.0.1:6379, master, Valkey 8.0.1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A clock that is off, with the same bounds as run has.
func TestDoctorClock(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{31 * time.Millisecond: "ok 31 ms ahead of Redis", -2 * time.Second: "ok 2s behind Redis",
		124 * time.Second: "warn 2m04s ahead of Redis", -26 * time.Hour: "FAIL 26h0m behind Redis: no job runs here"} {
		d := &doctor{}
		d.checkClock(ahead)
		if got := d.findings[0].Level + " " + d.findings[0].Text; got != want {
			t.Errorf("%v: %q, want %q", ahead, got, want)
		}
	}
}
