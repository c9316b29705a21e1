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
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis: how its address and its secrets are given, and that no secret is shown.

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
					{"explain", "--job", way, "--", "true"}, {"status"}, {"status", "--json"}, {"status", way},
					{"status", "--exit-code", "--brief"}, {"status", "--metrics"}, {"complete", "status", ""}}, func(words []string) {
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
