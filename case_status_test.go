package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What Redis can be like, for those who only look: status, its exit status, and its metrics.

// looks are the ways to look at a ledger.
var looks = [][]string{{"status"}, {"status", "--json"}, {"status", "--exit-code", "--brief"}, {"status", "--metrics"}, {"status", "etl"}}

// wantLooks wants each of them to show the job, and nothing on stderr.
func wantLooks(t *testing.T, h *host) {
	t.Helper()
	for _, look := range looks {
		got := h.run(look...)
		if got.status != 0 || got.stderr != "" || !regexp.MustCompile(`\betl\b|OK - 1 job`).MatchString(got.stdout) {
			t.Errorf("%q: %v", look, got)
		}
	}
}

// wantNoLook wants each of them to say why it cannot be told, the way that it is read: 3 and a line on stdout, a metric, or
// the status and a message.
func wantNoLook(t *testing.T, h *host, status int, message string) {
	t.Helper()
	for _, look := range looks {
		got := h.run(slices.Concat(look, []string{"--redis-wait", "300ms"})...)
		said, want := strings.TrimPrefix(got.stderr, "onceonly: "), status
		if slices.Contains(look, "--brief") {
			want, said = nagiosUnknown, strings.TrimPrefix(got.stdout, "ONCEONLY UNKNOWN - ")
			if got.stderr != "" {
				t.Errorf("%q: %v", look, got)
			}
		} else if up := "onceonly_up{ledger=\"" + namespaceOf(t) + "\"} 0\n"; slices.Contains(look, "--metrics") != strings.Contains(got.stdout, up) {
			t.Errorf("%q: %v", look, got)
		} else if !slices.Contains(look, "--metrics") && got.stdout != "" {
			t.Errorf("%q: %v", look, got)
		}
		if got.status != want || !regexp.MustCompile("^"+message+`\n(onceonly: hint: .*\n)?$`).MatchString(said) {
			t.Errorf("%q: %v\nwant status %d, %s", look, got, want, message)
		}
	}
}

// SH-22, 24: a password of odd letters, in the URL and in a file; a wrong one, and none.
func TestCaseLookPassword(t *testing.T) {
	t.Parallel()
	const password = "p@ss/w#rd%41?&:+=é "
	r, _ := secretRedis(t, password)
	good := "redis://:" + percent(password) + "@" + r.address() + "/0"
	newHost(t, "web-1", "ONCEONLY_REDIS="+good).run("run", "--job", "etl", "--", "true").want(t, 0, "")
	wantLooks(t, newHost(t, "web-1", "ONCEONLY_REDIS="+good))
	file := filepath.Join(t.TempDir(), "url")
	caseTouch(t, file, good+"\n")
	h := newHost(t, "web-1", "ONCEONLY_REDIS_FILE="+file)
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_REDIS=") })
	wantLooks(t, h)
	wantNoLook(t, newHost(t, "web-1", "ONCEONLY_REDIS=redis://:wrong@"+r.address()+"/0"), exitDenied,
		"Redis at "+r.address()+", user default: WRONGPASS .*")
	wantNoLook(t, newHost(t, "web-1", "ONCEONLY_REDIS=redis://"+r.address()+"/0"), exitDenied,
		"Redis at "+r.address()+", user default: NOAUTH Authentication required.")
}

// SH-25: what stands in another database is not there; a socket is as good as an address.
func TestCaseLookDatabase(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	three := newHost(t, "web-1", "ONCEONLY_REDIS=unix://"+r.socket+"?db=3")
	three.run("run", "--job", "etl", "--", "true").want(t, 0, "")
	wantLooks(t, three)
	wantLooks(t, newHost(t, "web-1", "ONCEONLY_REDIS=redis://"+r.address()+"/3"))
	if got := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).run("status"); got.stdout != noJobs(namespaceOf(t))+"\n" {
		t.Errorf("in database 0: %v", got)
	}
}

// SH-28, 30, 34: who only looks can do so on a replica that nobody may write to, after the scripts were forgotten, and
// where Redis may forget the ledger; of which doctor says more.
func TestCaseLookReplica(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	h.run("run", "--job", "etl", "--", "true").want(t, 0, "")
	for _, do := range [][]any{{"script", "flush"}, {"config", "set", "maxmemory-policy", "allkeys-lru"}, {"replicaof", "127.0.0.1", "1"}} {
		if err := r.rdb.Do(context.Background(), do...).Err(); err != nil {
			t.Fatal(err)
		}
		wantLooks(t, h)
	}
	if got := h.run("run", "--job", "other", "--redis-wait", "300ms", "--", "true"); got.status != exitAway {
		t.Errorf("a run on a replica: %v", got)
	}
}

// SH-31: nobody answers: before the connection, or after it.
func TestCaseLookNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	p := newProxy(t, r.address())
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
	h.run("run", "--job", "etl", "--", "true").want(t, 0, "")
	wantLooks(t, h)
	p.swallow(false, true)
	wantNoLook(t, h, exitAway, "Redis at "+p.address()+` not reached in .*: no answer`)
	p.refuse()
	wantNoLook(t, h, exitAway, "Redis at "+p.address()+` not reached in .*: connection refused`)
}

// SH-32: a user who may only read; and one right less each time names what lacks.
func TestCaseLookRights(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).run("run", "--job", "etl", "--", "true").want(t, 0, "")
	h := newHost(t, "web-1", "ONCEONLY_REDIS=redis://watcher:pw@"+r.address()+"/0")
	allow := func(rights ...string) {
		rule := []any{"acl", "setuser", "watcher", "reset", "on", ">pw", "~" + namespaceOf(t) + ":*"}
		for _, right := range rights {
			rule = append(rule, "+"+right)
		}
		if err := r.rdb.Do(context.Background(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	enough := []string{"eval", "smembers", "time", "get", "pttl", "hget", "hgetall", "zrange", "zrevrange", "zscore"}
	allow(enough...)
	wantLooks(t, h)
	for i, right := range enough {
		allow(slices.Delete(slices.Clone(enough), i, i+1)...)
		got := h.run("status", "--redis-wait", "300ms")
		if got.status != exitDenied || !strings.Contains(strings.ToLower(got.stderr), right) && !strings.Contains(got.stderr, "executing the script") {
			t.Errorf("without %s: %v", right, got)
		}
		if got := h.run("status", "--exit-code", "--brief"); got.status != nagiosUnknown {
			t.Errorf("without %s: %v", right, got)
		}
	}
}

// SH-35: four times as many as there is room for ask at once: all are told, one after the other, or why not.
func TestCaseLookCrowd(t *testing.T) {
	t.Parallel()
	r := newRedis(t, "--maxclients", "20")
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	h.run("run", "--job", "etl", "--", "true").want(t, 0, "")
	var all []string
	for i := range 80 {
		all = append(all, fmt.Sprint(i))
	}
	atOnce(all, func(string) {
		got := h.run("status", "--exit-code", "--brief")
		if got.status != 0 && !strings.Contains(got.stdout, "UNKNOWN - Redis at "+r.address()) {
			t.Errorf("%v", got)
		}
	})
}

// SH-66: two days of downtime: they are told apart from the days that were done, by name, and can be run, once.
func TestCaseLookNeverRan(t *testing.T) {
	t.Parallel()
	newSeed(t, "etl", "schedule", "0 2 * * *", "first", "2026-11-25").days("2026-11-29", 2, "02:00:00").days("2026-11-25", 1, "02:00:00")
	got := view(t, statusAsk{job: "etl", json: true, n: 0}, seoulNow, 0)
	missed := regexp.MustCompile(`(?s)"missed": \[(.*?)\]`).FindStringSubmatch(got)[1]
	if strings.Join(strings.Fields(missed), "") != `"2026-11-27","2026-11-26"` {
		t.Errorf("missed: %s", missed)
	}
	h := newHost(t, "web-1", "TZ=Asia/Seoul")
	marks := filepath.Join(t.TempDir(), "marks")
	for range 2 {
		for _, day := range []string{"2026-11-26", "2026-11-27"} {
			h.run("run", "--job", "etl", "--date", day, "--", "sh", "-c", "echo $ONCEONLY_SLOT >>"+marks).want(t, 0, "")
		}
	}
	if text, _ := os.ReadFile(marks); string(text) != "2026-11-26\n2026-11-27\n" {
		t.Errorf("ran %q", text)
	}
	if got := view(t, statusAsk{job: "etl", json: true}, seoulNow, 0); !strings.Contains(got, `"missed": []`) || !strings.Contains(got, `"attention": []`) {
		t.Errorf("%s", got)
	}
}
