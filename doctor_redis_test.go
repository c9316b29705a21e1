//go:build !race

package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
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

// Of two masters one may drop entries, and the other is nearly full: each is named.
func TestDoctorOneOfTwo(t *testing.T) {
	t.Parallel()
	all := newCluster(t)
	url := "redis+cluster://" + all[0].address() + "," + all[1].address()
	all[0].rdb.ConfigSet(context.Background(), "maxmemory-policy", "allkeys-lru")
	rows := rowsOf(doctorOf(t, url).stdout, "memory")
	want := "FAIL memory maxmemory-policy allkeys-lru (" + all[0].address() + "): Redis may drop ledger entries, and a dropped slot runs again " +
		"hint: CONFIG SET maxmemory-policy noeviction, or a Redis apart"
	if !slices.Equal(rows, []string{want}) {
		t.Errorf("%q, want %q", rows, want)
	}
	all[0].rdb.ConfigSet(context.Background(), "maxmemory-policy", "noeviction")
	all[1].rdb.ConfigSet(context.Background(), "maxmemory", "1mb")
	rows = rowsOf(doctorOf(t, url).stdout, "memory")
	full := regexp.MustCompile(`^warn memory \d+ % of maxmemory is used \(` + all[1].address() + `\): when it is full no job starts hint: CONFIG SET maxmemory$`)
	if len(rows) != 1 || !full.MatchString(rows[0]) {
		t.Errorf("%q", rows)
	}
}

// SH-32: a user with the least rights: all is well but for what he may not look at, which is told in one line. Each command
// that is taken away is named; and nothing he is refused for shows in the server's log but what was looked at.
func TestDoctorRights(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t)
	var rule []any
	for _, word := range manualRights(t) {
		rule = append(rule, word)
	}
	if err := r.rdb.Do(ctx, rule...).Err(); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+strings.Replace(r.url(), "//", "//cron:PASSWORD@", 1), "ONCEONLY_NAMESPACE=onceonly")
	got := h.run("doctor")
	has(t, got.stdout, "ok    rights   user cron may do all that is needed",
		"not read: Redis's version, role, memory policy, persistence, replicas (user cron may not INFO, ROLE, CONFIG)")
	got.want(t, 0, "")
	for _, word := range manualRights(t) {
		name, ok := strings.CutPrefix(word, "+")
		if !ok {
			continue
		}
		r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "-"+name)
		level, status := "FAIL", 1
		if slices.Contains(spared, strings.ToUpper(name)) {
			level, status = "warn", 0
		}
		got := h.run("doctor")
		want := level + " rights user cron may not " + strings.ToUpper(name) + " hint: " + rightsHint
		if rows := rowsOf(got.stdout, "rights"); got.status != status || len(rows) != 1 || rows[0] != want {
			t.Errorf("-%s: %q, status %d", name, rows, got.status)
		}
		r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "+"+name)
	}
	r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "resetkeys", "~other:*")
	if rows := rowsOf(h.run("doctor").stdout, "rights"); len(rows) != 1 ||
		rows[0] != "FAIL rights user cron may not use the keys onceonly:* hint: "+rightsHint {
		t.Errorf("%q", rows)
	}
	// INFO alone is enough for all that is read otherwise.
	r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "resetkeys", "~onceonly:*", "+info")
	has(t, h.run("doctor").stdout, "ok    memory   maxmemory-policy noeviction")
	hasNot(t, h.run("doctor").stdout, "not read: Redis")
}

// SH-32: in a cluster a user wants rights besides, which the manual names; without them doctor says which.
func TestDoctorClusterRights(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	clusterUp(t, r)
	allow := func(words ...string) {
		t.Helper()
		var rule []any
		for _, word := range words {
			rule = append(rule, word)
		}
		if err := r.rdb.Do(ctx, rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	allow(manualRights(t)...)
	h := newHost(t, "web-1", "ONCEONLY_REDIS=redis+cluster://cron:PASSWORD@"+r.address(), "ONCEONLY_NAMESPACE=onceonly")
	want := "user cron may not CLUSTER|SLOTS"
	h.run(caseRun("j", "", "true")...).want(t, 77, "onceonly: j "+caseDay+": not run: "+want+"\nonceonly: hint: "+rightsHint+"\n")
	got := h.run("doctor")
	if rows := rowsOf(got.stdout, "redis", "ledger", "rights"); got.status != 1 || !slices.Equal(rows, []string{"FAIL redis " + want + " hint: " + rightsHint}) {
		t.Errorf("%v", got)
	}
	allow("ACL", "SETUSER", "cron", clusterRights[0])
	h.run(caseRun("j", "", "true")...).want(t, 0, "")
	has(t, h.run("doctor").stdout, "ok    rights   user cron may do all that is needed")
}

// The rights that doctor asks for are those of the manual.
func TestDoctorNeeds(t *testing.T) {
	t.Parallel()
	var asked []string
	for _, command := range needed {
		name, _, _ := strings.Cut(command, ":")
		asked = append(asked, "+"+name)
	}
	rights := slices.DeleteFunc(manualRights(t), func(w string) bool { return w[0] != '+' })
	slices.Sort(asked)
	if slices.Sort(rights); !slices.Equal(asked, rights) {
		t.Errorf("asked for %q\nthe manual has %q", asked, rights)
	}
}

// SH-27: Sentinels, and a Sentinel's port given for Redis; a cluster. Replicas in step.
func TestDoctorTopology(t *testing.T) {
	t.Parallel()
	w := newSentinels(t)
	got := doctorOf(t, w.url())
	hasWords(t, got.stdout, "ok redis "+w.master.address()+", master by Sentinel main, Redis ", "ok replicas 1 in step")
	w.replica.stop()
	eventually(t, "the replica is gone", func() bool {
		return strings.Contains(w.master.rdb.Info(context.Background(), "replication").Val(), "connected_slaves:0")
	})
	hasWords(t, doctorOf(t, w.url()).stdout, "warn replicas none: there is nothing that Sentinel could make the master ok clock")
	got = doctorOf(t, "redis://"+w.addresses[0])
	hasWords(t, got.stdout, "FAIL redis "+w.addresses[0]+" is a Sentinel hint: redis+sentinel://"+w.addresses[0]+"/MASTER")
	r := newRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--maxmemory-policy", "allkeys-lru")
	r.rdb.ClusterAddSlotsRange(context.Background(), 0, 16383)
	eventually(t, "the cluster is up", func() bool {
		return strings.Contains(r.rdb.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	got = doctorOf(t, "redis+cluster://"+r.address())
	hasWords(t, got.stdout, "ok redis "+r.address()+", cluster of 1 master, Redis ", "FAIL memory maxmemory-policy allkeys-lru: ",
		"ok rights user default may do all that is needed")
}

// SH-27: a node of a cluster, as if it were the whole; and one without all slots.
func TestDoctorNode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	args := []string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"}
	a, b := newRedis(t, args...), newRedis(t, args...)
	a.rdb.ClusterAddSlotsRange(ctx, 0, 8000)
	got := doctorOf(t, a.url())
	if rows := rowsOf(got.stdout, "ledger"); got.status != 1 || len(rows) != 1 || !strings.HasPrefix(rows[0], "FAIL ledger Redis at "+a.address()+": CLUSTERDOWN") {
		t.Errorf("%v", got)
	}
	b.rdb.ClusterAddSlotsRange(ctx, 8001, 16383)
	a.rdb.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(b.port))
	eventually(t, "the cluster is up", func() bool {
		return strings.Contains(a.rdb.ClusterInfo(ctx).Val(), "cluster_state:ok")
	})
	eventually(t, "each knows what the other has", func() bool {
		known, _ := a.rdb.Do(ctx, "CLUSTER", "SLOTS").Slice()
		back, _ := b.rdb.Do(ctx, "CLUSTER", "SLOTS").Slice()
		return len(known) == 2 && len(back) == 2
	})
	got = doctorOf(t, a.url())
	hasWords(t, got.stdout, "FAIL redis "+a.address()+" is a node of a cluster, and has only some of the jobs hint: redis+cluster://"+a.address())
	hasWords(t, doctorOf(t, "redis+cluster://"+a.address()).stdout, ", cluster of 2 masters, Redis ")
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

// A replica that has asked for everything, and waits for it.
func TestDoctorReplicaBehind(t *testing.T) {
	t.Parallel()
	r := newRedis(t, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "3600")
	replica, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	replica.Write([]byte("REPLCONF listening-port 7777 capa eof\r\n"))
	if _, err := io.ReadFull(replica, make([]byte, len("+OK\r\n"))); err != nil { // nothing more is taken before
		t.Fatal(err)
	}
	replica.Write([]byte("PSYNC ? -1\r\n"))
	eventually(t, "it is known", func() bool {
		return strings.Contains(r.rdb.Info(context.Background(), "replication").Val(), "state=wait_bgsave")
	})
	want := "warn replicas 0 in step, 1 not: 127.0.0.1:7777 (wait_bgsave) hint: a failover now would forget what they lack"
	if rows := rowsOf(doctorOf(t, r.url()).stdout, "replicas"); !slices.Equal(rows, []string{want}) {
		t.Errorf("%q, want %q", rows, want)
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

// A crontab whose lines use another Redis than doctor, or none but that which doctor was told.
func TestDoctorOtherRedis(t *testing.T) {
	t.Parallel()
	r, dir := newRedis(t), t.TempDir()
	config, file := filepath.Join(dir, "conf"), filepath.Join(dir, "crontab")
	caseTouch(t, config, "")
	caseTouch(t, file, "0 2 * * * onceonly run -- true\n")
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_CONFIG="+config)
	hasWords(t, h.run("doctor", file).stdout,
		"warn config crontab lines have no Redis: ONCEONLY_REDIS does not reach them hint: ONCEONLY_REDIS in "+config)
	caseTouch(t, file, "ONCEONLY_REDIS="+shared.url()+"\n0 2 * * * onceonly run -- true\n")
	got := h.run("doctor", file).stdout
	hasWords(t, got, "warn line 2 true 0 2 * * * day its ledger is not the one above, but in Redis at "+shared.address())
	hasNot(t, got, "crontab lines have no Redis")
}

// A replica that is not in step, as INFO writes it.
func TestDoctorReplica(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"ip=10.0.0.2,port=6379,state=online,offset=1,lag=1":     "",
		"ip=10.0.0.2,port=6379,state=online,offset=1,lag=40":    "10.0.0.2:6379 (40s behind)",
		"ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=": "10.0.0.2:6379 (wait_bgsave)",
	} {
		if got := outOfStep(says); got != want {
			t.Errorf("%s: %q, want %q", says, got, want)
		}
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

// A line that the ledger would refuse is found before the night: another zone, another shape, other arguments.
func TestDoctorLedger(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "conf")
	os.WriteFile(config, []byte("ONCEONLY_REDIS="+r.url()+"\n"), 0o644)
	other := newHost(t, "web-9", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=onceonly")
	other.run("run", "--job", "seoul", "--tz", "Asia/Seoul", "--", "true").want(t, 0, "")
	other.run("run", "--job", "hourly", "--every", "hour", "--", "true").want(t, 0, "")
	other.run("run", "--", "true", "a").want(t, 0, "")
	file := filepath.Join(dir, "crontab")
	os.WriteFile(file, []byte("0 2 * * * onceonly run --job seoul -- true\n0 2 * * * onceonly run --job hourly -- true\n"+
		"0 2 * * * onceonly run -- true b\n0 2 * * * onceonly run --job fine -- true\n"), 0o644)
	changes := func() string {
		return regexp.MustCompile(`rdb_changes_since_last_save:\d+`).FindString(r.rdb.Info(context.Background(), "persistence").Val())
	}
	before := changes()
	got := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=onceonly", "ONCEONLY_CONFIG="+config).run("doctor", file)
	hasWords(t, got.stdout, "FAIL line 1 seoul 0 2 * * * day this host's zone is ", ", the job's is Asia/Seoul (web-9, since ",
		"FAIL line 2 hourly 0 2 * * * day this line is 'every day', that of web-9 is 'every hour', and their slots overlap",
		"FAIL line 3 true 0 2 * * * day web-9 asked at ", " with other arguments hint: two lines need two names",
		"ok line 4 fine 0 2 * * * day next ")
	if got.status != 1 {
		t.Errorf("%v", got)
	}
	if after := changes(); before == "" || after != before {
		t.Errorf("it has written: %s, then %s", before, after)
	}
}

// SH-63: for programs: valid JSON with stable names; unknown options and files that are not there are usage errors.
func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), `cron "tab" 한국`)
	os.WriteFile(file, []byte("*/5 * * * * onceonly run --job 'a \"b\" 청구' -- true\n"), 0o644)
	r := newRedis(t)
	got := doctorOf(t, r.url(), file, "--json")
	var doc struct {
		Version, Host      string
		AsOf               time.Time `json:"as_of"`
		Failures, Warnings int
		Findings           []finding
		NotRead            []unread `json:"not_read"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.status != 1 || doc.Host != "web-1" || doc.NotRead == nil {
		t.Fatalf("%v: %v", err, got)
	}
	at := slices.IndexFunc(doc.Findings, func(f finding) bool { return f.Line == 1 })
	want := finding{Level: "FAIL", Subject: "line 1", File: file, Line: 1, Job: `a "b" 청구`, Fields: "*/5 * * * *", Every: "day",
		Text: "only the first of a day would run", Hint: "add --schedule '*/5 * * * *'"}
	if at < 0 || doc.Findings[at] != want || doc.Failures != 1 {
		t.Errorf("%+v", doc)
	}
	h := newHost(t, "web-1")
	h.run("doctor", "--bogus").want(t, 64, "onceonly: no option --bogus\nonceonly: hint: onceonly doctor --help\n")
	h.run("doctor", "/no/such/file").want(t, 64, "onceonly: doctor: /no/such/file: no such file or directory\n")
	h.run("doctor", "--namespace", "").want(t, 64, "onceonly: --namespace \"\": empty\n")
	if r := h.run("doctor", "--help"); r.status != 0 || r.stdout != doctorText {
		t.Errorf("%v", r)
	}
	cmd := h.command("doctor", "--offline")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	cmd.Stdout = full
	if got := exitStatus(t, cmd.Run()); got != 74 {
		t.Errorf("status %d where nothing can be written", got)
	}
}
