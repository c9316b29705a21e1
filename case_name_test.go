package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A mistake is a command line, an environment or a file that no run may come of, and words that the message has.
type mistake struct {
	args []string
	env  string // NAME=value
	file string // of options
	says string
}

// Everything wrong with the command line is exit 64 with one line and at most one hint, nothing on stdout, nothing written
// to Redis, nothing run. (SH-39, 55, 61, 62)
func TestCaseUsage(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	file := filepath.Join(t.TempDir(), "onceonly.conf")
	told := false
	for i, m := range slices.Concat(wrongWords(), wrongValues(), wrongAddresses(), wrongSettings()) {
		web := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_CONFIG="+file)
		if m.env != "" {
			web.env = append(web.env, m.env)
		}
		if err := os.WriteFile(file, []byte(m.file), 0o600); err != nil {
			t.Fatal(err)
		}
		args := m.args
		if args == nil {
			args = []string{"run", "--job", "j", "--", "echo", "ran"}
		}
		got := web.run(args...)
		wantRefused(t, r, 64, got, m.says)
		if strings.Contains(got.stderr, "s3cret") {
			t.Errorf("the password is in %q", got.stderr)
		}
		if i%5 == 0 && len(args) > 0 && args[0] == "run" {
			explained := append([]string{"explain"}, args[1:]...)
			web.run(explained...).want(t, 64, got.stderr)
		}
		if t.Failed() && !told {
			told = true
			t.Logf("the first: onceonly %q, environment %q, file %q", args, m.env, m.file)
		}
	}
}

// wrongWords are wrong whatever the values are.
func wrongWords() []mistake {
	return []mistake{
		{args: []string{}, says: "no command"},
		{args: []string{"rum", "--", "echo", "ran"}, says: `"rum"`},
		{args: []string{"--", "echo", "ran"}, says: ""},
		{args: []string{"echo", "ran"}, says: `"echo"`},
		{args: []string{"run"}, says: "no command"},
		{args: []string{"run", "--"}, says: "no command"},
		{args: []string{"run", "--job", "j"}, says: "no command"},
		{args: []string{"run", "--job", "j", "--"}, says: "no command"},
		{args: []string{"run", "--job", "j", "--", ""}, says: ""},
		{args: []string{"run", "--job", "j", ""}, says: ""},
		{args: []string{"run", "--job", "j", " "}, says: ""},
		{args: []string{"run", "--job"}, says: "--job"},
		{args: []string{"run", "-j"}, says: "-j"},
		{args: []string{"run", "--jbo", "j", "--", "echo", "ran"}, says: "--jbo"},
		{args: []string{"run", "--attempt", "2", "--job", "j", "--", "echo", "ran"}, says: "--attempt"},
		{args: []string{"run", "--jobs=j", "--", "echo", "ran"}, says: "--jobs"},
		{args: []string{"run", "-z", "--job", "j", "--", "echo", "ran"}, says: "-z"},
		{args: []string{"run", "-jv", "--", "echo", "ran"}, says: ""},
		{args: []string{"run", "--job", "j", "--verbose=maybe", "--", "echo", "ran"}, says: "maybe"},
		{args: []string{"run", "--job", "j", "--expand=2", "--", "echo", "ran"}, says: "2"},
		{args: []string{"--redis", "redis://127.0.0.1:1", "run", "--job", "j", "--", "echo", "ran"}, says: ""},
		{args: []string{"run", "echo ran | cat"}, says: "needs a shell"},
		{args: []string{"run", "--job", "j", "echo ran | cat"}, says: `"|"`},
		{args: []string{"run", "--job", "j", "echo ran; echo ran"}, says: `";"`},
		{args: []string{"run", "--job", "j", "echo ran && echo ran"}, says: `"&"`},
		{args: []string{"run", "--job", "j", "echo ran > /dev/null"}, says: `">"`},
		{args: []string{"run", "--job", "j", "cat < /dev/null"}, says: `"<"`},
		{args: []string{"run", "--job", "j", "echo `date`"}, says: "`"},
		{args: []string{"run", "--job", "j", "echo $(date)"}, says: "$("},
		{args: []string{"run", "--job", "j", `echo "north east`}, says: ""},
		{args: []string{"run", "--job", "j", "echo 'north east"}, says: ""},
		{args: []string{"run", "--job", "j", `echo north\`}, says: ""},
		{args: []string{"run", "sh", "-c", "echo ran"}, says: `"sh" runs other programs`},
		{args: []string{"run", "--", "sh", "-c", "echo ran"}, says: "--job NAME"},
		{args: []string{"run", "/bin/sh", "-c", "echo ran"}, says: `"sh"`},
		{args: []string{"run", "bash", "x"}, says: `"bash"`}, {args: []string{"run", "dash", "x"}, says: `"dash"`},
		{args: []string{"run", "zsh", "x"}, says: `"zsh"`}, {args: []string{"run", "env", "echo", "ran"}, says: `"env"`},
		{args: []string{"run", "sudo", "echo"}, says: `"sudo"`}, {args: []string{"run", "nice", "echo", "ran"}, says: `"nice"`},
		{args: []string{"run", "ionice", "echo"}, says: `"ionice"`}, {args: []string{"run", "timeout", "9", "echo", "ran"}, says: `"timeout"`},
		{args: []string{"run", "chronic", "echo"}, says: `"chronic"`}, {args: []string{"run", "flock", "/tmp/x", "echo"}, says: `"flock"`},
		{args: []string{"run", "php", "artisan", "invoice:send"}, says: "onceonly run --job NAME -- php artisan invoice:send"},
		{args: []string{"run", "python", "x"}, says: `"python"`}, {args: []string{"run", "/usr/bin/python3", "x"}, says: `"python3"`},
		{args: []string{"run", "perl", "x"}, says: `"perl"`}, {args: []string{"run", "ruby", "x"}, says: `"ruby"`},
		{args: []string{"run", "node", "x"}, says: `"node"`}, {args: []string{"run", "java", "x"}, says: `"java"`},
		{args: []string{"run", "docker", "run", "x"}, says: `"docker"`}, {args: []string{"run", "podman", "run", "x"}, says: `"podman"`},
		{args: []string{"run", "sh -c 'echo ran'"}, says: `"sh"`},
	}
}

// wrongValues are of the line's options.
func wrongValues() []mistake {
	long, all := strings.Repeat("x", 201), []mistake{}
	for option, values := range map[string][]string{
		"--job":         {"", "-x", "--", long, strings.Repeat("x", 10000), strings.Repeat("ü", 101), "a\nb", "a\tb", "a\x01b", "a\x7fb", "a\xffb", "\u0085", "a\u2028b"},
		"--every":       {"", "7m", "daily", "0", "0m", "-1h", "25h", "7h", "90m", "2d", "1.5h", "15", "Day", "days", "1s", "30s", "week ", "2 weeks", "1h1m", "1e1m", "*/5", "9999999999999999999h"},
		"--tz":          {"", "Asia/Soul", "JST-9", "UTC+9", "+09:00", "../../etc/passwd", "/etc/localtime", "Europe/Berlin ", "local", "a/b/c"},
		"--attempts":    {"", "0", "-1", "1.5", "two", "1e3", "0x2", "99999999999999999999", "2 ", "+"},
		"--lease":       {"", "0", "0s", "10", "3600", "-5s", "999ms", "5 m", "5min", "1h30", "forever", "1e3s", "∞", "1s1", ".s", "s", "99999999999999999999h"},
		"--redis-wait":  {"", "10", "-1s", "x", "1w", "1h30"},
		"--exit-busy":   {"", "256", "-1", "abc", "1.5", "99999999999999999999"},
		"--exit-done":   {"", "256", "-1", "abc"},
		"--exit-failed": {"", "256", "-1", "abc"},
		"--namespace":   {"", "-x", "a\nb", long},
		"--host":        {"", "-x", "a\nb", long},
	} {
		for _, v := range values {
			all = append(all, mistake{args: []string{"run", "--job", "j", option + "=" + v, "--", "echo", "ran"}, says: option})
		}
	}
	for wrong, says := range map[string]string{ // as INTERFACE.md has them
		"--job=-x":        `onceonly: --job "-x": a name is 1 to 200 bytes of printable UTF-8 and does not begin with "-"` + "\n",
		"--every=7m":      "onceonly: --every 7m: 7m does not divide an hour\nonceonly: hint: for cron's */7 write --schedule '*/7 * * * *'\n",
		"--every=daily":   `onceonly: --every "daily": not a period` + "\nonceonly: hint: day, week, month, hour, or a part of one such as 15m or 6h\n",
		"--lease=3600":    `onceonly: --lease "3600": a number needs a unit` + "\nonceonly: hint: 3600s, 60m or 1h\n",
		"--tz=Asia/Soul":  `onceonly: --tz "Asia/Soul": no such zone` + "\nonceonly: hint: names such as Asia/Seoul; on a small image install tzdata\n",
		"--redis=redis:/": "onceonly: --redis: not a URL",
	} {
		all = append(all, mistake{args: []string{"run", "--job", "j", wrong, "--", "echo", "ran"}, says: says})
	}
	return all
}

// wrongAddresses are no URLs of a Redis. None may repeat the password.
func wrongAddresses() []mistake {
	var all []mistake
	for _, url := range []string{"127.0.0.1:6379", "localhost", "http://127.0.0.1:6379", "redis:127.0.0.1", "redis://", "redis:///0",
		"redis://127.0.0.1:port", "redis://127.0.0.1:99999", "redis://127.0.0.1:0", "redis://127.0.0.1:-1", "redis://127.0.0.1/abc", "redis://127.0.0.1/-1", "redis://127.0.0.1/1/2",
		"redis://u:s3cret/w#rd@127.0.0.1/0", "redis://u:s3cret%zz@127.0.0.1", "redis://u:p@s3cret/x@127.0.0.1", "redis://u:s3cret@127.0.0.1/abc",
		"redis://u:s3cret@127.0.0.1:port/0", "redis://127.0.0.1?password=s3cret", "redis://127.0.0.1/0?nonsense=1", "rediss://127.0.0.1?skip_verify=true",
		"unix://", "redis://[::1", "redis://a b/0", " ", "redis://127.0.0.1/99999999999999999999"} {
		all = append(all,
			mistake{args: []string{"run", "--redis-wait=1s", "--redis=" + url, "--job", "j", "--", "echo", "ran"}, says: "--redis:"},
			mistake{args: []string{"run", "--redis-wait=1s", "--job", "j", "--", "echo", "ran"}, env: "ONCEONLY_REDIS=" + url, says: "ONCEONLY_REDIS:"})
	}
	return append(all, mistake{env: "ONCEONLY_REDIS=", says: "ONCEONLY_REDIS"})
}

// wrongSettings stand in the environment or the file.
func wrongSettings() []mistake {
	var all []mistake
	for name, values := range map[string][]string{
		"ONCEONLY_EVERY": {"7m", "daily", ""}, "ONCEONLY_TZ": {"Asia/Soul", ""}, "ONCEONLY_ATTEMPTS": {"0", "many", ""},
		"ONCEONLY_LEASE": {"10", "999ms", ""}, "ONCEONLY_REDIS_WAIT": {"10", ""}, "ONCEONLY_EXIT_BUSY": {"256", ""},
		"ONCEONLY_EXIT_DONE": {"-1", ""}, "ONCEONLY_EXIT_FAILED": {"x", ""}, "ONCEONLY_NAMESPACE": {"-x", ""},
		"ONCEONLY_HOST": {"-x", ""}, "ONCEONLY_VERBOSE": {"maybe", ""}, "ONCEONLY_EXPAND": {"maybe", ""}, "ONCEONLY_REDIS_FILE": {""},
	} {
		for _, v := range values {
			all = append(all, mistake{env: name + "=" + v, says: name})
			if name == "ONCEONLY_HOST" || name == "ONCEONLY_NAMESPACE" { // the harness sets these, and the environment beats the file
				continue
			}
			all = append(all, mistake{file: "# a comment\n\n" + name + "=" + v + "\n", says: name})
		}
	}
	for line, says := range map[string]string{
		"ONCEONLY_ATTEMPT=2":           "ONCEONLY_ATTEMPT\nonceonly: hint: ONCEONLY_ATTEMPTS",
		"ONCEONLY_JOB=j":               "ONCEONLY_JOB",
		"ONCEONLY_DATE=today":          "ONCEONLY_DATE",
		"ONCEONLY_RERUN=1":             "ONCEONLY_RERUN",
		"ONCEONLY_REASON=x":            "ONCEONLY_REASON",
		"ONCEONLY_CONFIG=/etc/x":       "ONCEONLY_CONFIG",
		"ONCEONLY_FENCING_TOKEN=1":     "ONCEONLY_FENCING_TOKEN",
		"REDIS=redis://127.0.0.1":      "REDIS",
		"redis=redis://127.0.0.1":      "redis",
		"export ONCEONLY_TZ=UTC":       "export",
		"ONCEONLY_TZ":                  "NAME=value",
		"ONCEONLY_TZ=''":               "ONCEONLY_TZ",
		"ONCEONLY_TZ: UTC":             "NAME=value",
		"[onceonly]":                   "NAME=value",
		"ONCEONLY_LEASE=5m # a remark": "ONCEONLY_LEASE",
		"ONCEONLY_TZ=\"UTC":            "ONCEONLY_TZ",
	} {
		all = append(all, mistake{file: "# a comment\n\n\n" + line + "\n", says: says}, mistake{file: "# a comment\n\n\n" + line, says: ":4"})
	}
	return all
}

// A file that cannot be read is not a usage error: 78, and nothing is written.
func TestCaseUnreadable(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	gone, folder := filepath.Join(t.TempDir(), "none"), t.TempDir()
	for _, c := range []struct{ env, says string }{
		{"ONCEONLY_CONFIG=" + gone, gone}, // named, so it must be there
		{"ONCEONLY_CONFIG=" + folder, folder},
		{"ONCEONLY_REDIS_FILE=" + gone, gone},
		{"ONCEONLY_REDIS_FILE=" + folder, folder},
	} {
		web := newHost(t, "web-1", c.env)
		web.env = slices.DeleteFunc(web.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_REDIS=") })
		if !strings.Contains(c.env, "REDIS_FILE") {
			web.env = append(web.env, "ONCEONLY_REDIS="+r.url())
		}
		wantRefused(t, r, 78, web.run("run", "--job", "j", "--", "echo", "ran"), c.says)
	}
	web := newHost(t, "web-1")
	web.env = slices.DeleteFunc(web.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_REDIS=") })
	web.run("run", "--job", "j", "--", "echo", "ran").want(t, 64,
		"onceonly: no Redis given\nonceonly: hint: ONCEONLY_REDIS=redis://HOST:6379/0, --redis, or /etc/onceonly.conf\n")
}

// SH-59: an onceonly inside an onceonly is an ordinary caller. Another job has its own slot and token; the same job, which
// is another line of this host, is refused at once; and what a run leaves behind has no free pass the next day.
func TestCaseOnceonlyInside(t *testing.T) {
	t.Parallel()
	web := newHost(t, "web-1")
	show := `echo $ONCEONLY_JOB $ONCEONLY_SLOT $ONCEONLY_KEY $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN`
	r := web.run("run", "--job", "a", "--date", "2026-01-05", "--", "sh", "-c",
		show+`; onceonly run --job b --date 2026-01-03 -- sh -c '`+show+`'; onceonly run --job a --date 2026-01-05 -- echo ran; echo "status $?"; env >"$0"`,
		filepath.Join(t.TempDir(), "env"))
	a, b := entryOf(t, "a", "2026-01-05"), entryOf(t, "b", "2026-01-03")
	want := fmt.Sprintf("a 2026-01-05 a/2026-01-05 1 %d\nb 2026-01-03 b/2026-01-03 1 %d\nstatus 78\n", a.Token, b.Token)
	if r.status != 0 || r.stdout != want || a.State != "done" || b.State != "done" || a.RunID == b.RunID {
		t.Errorf("got %v\nwant %q", r, want)
	}
	if !strings.Contains(r.stderr, "onceonly: a 2026-01-05: not run: ") || !strings.Contains(r.stderr, "two lines need two names") {
		t.Errorf("the same job inside is told %q", r.stderr)
	}
}

// SH-59: the names handed to the command are never read as options, whatever stands in them; nor do they stay as they
// were for the command of an onceonly inside.
func TestCaseInheritedNamesAreNoOptions(t *testing.T) {
	t.Parallel()
	web := newHost(t, "web-1")
	first := web.run("run", "--job", "a", "--date", "2026-01-05", "--", "env")
	first.want(t, 0, "")
	inherited := strings.Split(strings.TrimSpace(first.stdout), "\n")
	left := newHost(t, "web-1")
	left.env = append(inherited, "ONCEONLY_JOB=other", "ONCEONLY_DATE=2026-01-01", "ONCEONLY_SLOT=2026-01-01", "ONCEONLY_BUSINESS_DATE=x",
		"ONCEONLY_ATTEMPT=99", "ONCEONLY_FENCING_TOKEN=1", "ONCEONLY_RUN_ID="+strings.Repeat("0", 32), "ONCEONLY_KEY=other/1",
		"ONCEONLY_FIRST_SLOT=x", "ONCEONLY_LAST_SLOT=", "ONCEONLY_RERUN=yes", "ONCEONLY_REASON=x")
	r := left.run("run", "--job", "a", "--date", "2026-01-06", "--", "env")
	r.want(t, 0, "")
	e := entryOf(t, "a", "2026-01-06")
	for _, v := range []string{"JOB=a", "SLOT=2026-01-06", "BUSINESS_DATE=2026-01-06", "ATTEMPT=1", "KEY=a/2026-01-06", "FIRST_SLOT=2026-01-06",
		"LAST_SLOT=2026-01-06", "RUN_ID=" + e.RunID, "FENCING_TOKEN=" + fmt.Sprint(e.Token)} {
		name, _, _ := strings.Cut("ONCEONLY_"+v, "=")
		if n := len(regexp.MustCompile("(?m)^"+name+"=").FindAllString(r.stdout, -1)); n != 1 || !strings.Contains("\n"+r.stdout, "\nONCEONLY_"+v+"\n") {
			t.Errorf("the command of the left-over process sees %s %d times, want it once, ONCEONLY_%s", name, n, v)
		}
	}
	again := left.run("run", "--job", "a", "--date", "2026-01-06", "--", "env") // and takes part like anybody else
	again.want(t, 0, "")
	if again.stdout != "" || e.RunID == entryOf(t, "a", "2026-01-05").RunID {
		t.Errorf("ran twice: %v", again)
	}
}

// SH-60: staging and production on one Redis. Each runs its own, every key begins with its namespace, and the variable
// and the option mean the same.
func TestCaseTwoNamespaces(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	for _, c := range []struct {
		host  *host
		words []string
	}{
		{newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=prod"), nil},
		{newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=prod"), []string{"--namespace", "staging"}},
	} {
		args := append([]string{"run", "--job", "a", "--date", "2026-01-05"}, c.words...)
		for _, want := range []string{"ran\n", ""} {
			got := c.host.run(append(args, "--", "echo", "ran")...)
			got.want(t, 0, "")
			if got.stdout != want {
				t.Errorf("%q: %q, want %q", args, got.stdout, want)
			}
		}
	}
	count := map[string]int{}
	keys, err := r.rdb.Keys(context.Background(), "*").Result()
	for _, k := range keys {
		ns, _, _ := strings.Cut(k, ":")
		count[ns]++
	}
	if err != nil || len(count) != 2 || count["prod"] != count["staging"] || count["prod"] == 0 {
		t.Errorf("keys %q, %v; want as many of staging as of prod, and no other", keys, err)
	}
	web := newHost(t, "web-2", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=staging")
	if got := web.run("explain", "--job", "a", "--date", "2026-01-05", "--", "echo", "ran"); !strings.Contains(got.stdout, "staging") {
		t.Errorf("explain does not say which namespace is in use: %v", got)
	}
}

// SH-61: hosts whose paths differ agree on the base name; other arguments are refused, not silently skipped; and with
// --job, neither path nor arguments tell jobs apart.
func TestCaseNameOfTheCommand(t *testing.T) {
	t.Parallel()
	true1, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(true1, filepath.Join(folder, "true")); err != nil {
		t.Fatal(err)
	}
	web1, web2, web3 := newHost(t, "web-1"), newHost(t, "web-2"), newHost(t, "web-3")
	web1.run("run", "--date", "2026-01-05", "--", true1).want(t, 0, "")
	web2.run("run", "--date", "2026-01-05", "--", filepath.Join(folder, "true")).want(t, 0, "")
	if got := web2.run("run", "--date", "2026-01-05", "--", "true"); got.status != 78 || // this host's line had another path
		!strings.HasPrefix(got.stderr, "onceonly: true 2026-01-05: not run: another line of this host has the same name") {
		t.Errorf("another line of the same host: %v", got)
	}
	got := web3.run("run", "--date", "2026-01-05", "true", "--release=7")
	if got.status != 78 || !regexp.MustCompile(`^onceonly: true 2026-01-05: not run: web-[12] asked at (\d\d-\d\d )?[0-9:]+ with other arguments\nonceonly: hint: two lines need two names: --job NAME on each\n$`).MatchString(got.stderr) {
		t.Errorf("other arguments under a derived name: %v", got)
	}
	if e := entryOf(t, "true", "2026-01-05"); e.State != "done" || e.Host != "web-1" || e.Attempt != 1 {
		t.Errorf("entry %+v, want done on web-1 at the first attempt", e)
	}
	for _, c := range []struct {
		host *host
		want string
		argv []string
	}{{web1, "ran\n", []string{"echo", "ran"}}, {web2, "", []string{"/bin/echo", "ran"}}, {web3, "", []string{"echo", "ran", "again"}}} {
		got := c.host.run(append([]string{"run", "--job", "named", "--date", "2026-01-05", "--"}, c.argv...)...)
		got.want(t, 0, "")
		if got.stdout != c.want {
			t.Errorf("%q on %s: %q, want %q", c.argv, c.host.name, got.stdout, c.want)
		}
	}
}

// SH-62: a name is given back unchanged, never cut, and two long ones that differ only at the end are two jobs.
func TestCaseOddNames(t *testing.T) {
	t.Parallel()
	web, x := newHost(t, "web-1"), strings.Repeat("x", 199)
	for _, name := range []string{"a b", "a/b", "a:b", "a.b", "Ärger", "청구서-발송", "😀", x, x + "a", x + "b", "a", "a%b", "a%25b", "a{b", "a}b",
		"{a}", "{}", "a}:ledger", "a:ledger", "*", "a*", `a"b`, `a'b`, `a\b`, `a\nb`, "$HOME", "$(date)", "`date`", "{job}", "%7Ba%7D", "[a]", " a", "a ",
		"A", "null", "0", "jobs", "a=b", "a-"} {
		for _, want := range []string{name + " " + name + "/2026-01-05\n", ""} {
			got := web.run("run", "--job="+name, "--date", "2026-01-05", "--", "sh", "-c", `printf '%s %s\n' "$ONCEONLY_JOB" "$ONCEONLY_KEY"`)
			got.want(t, 0, "")
			if got.stdout != want {
				t.Errorf("--job %q: the command saw %q, want %q", name, got.stdout, want)
			}
		}
		if e := entryOf(t, name, "2026-01-05"); e.State != "done" {
			t.Errorf("--job %q: %q", name, e.State)
		}
	}
}

// notDaily is what a line hears that evidently runs more often than its slot.
var notDaily = regexp.MustCompile(`^onceonly: sync [0-9-]+: not run: this line ran at \d\d:\d\d and comes again at \d\d:\d\d, but its slot is the whole day
onceonly: hint: --every \S+, or --schedule '\S+ \* \* \* \*'; --every day if once a day is meant
$`)

// A line that is not daily: asked again by the same host in the same minute it is skipped in silence, at another hour and
// minute it is refused with a hint, unless the line says that a day is meant. Waiting for the clock would take a minute:
// the host's last question is set back in the roll call instead, and with ONCEONLY_TEST_LONG the clock is waited for.
func TestCaseLineThatIsNotDaily(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		words []string
		env   string
		back  string // the minute in the roll call; "": as it was
		other bool   // another host asks
		want  int
	}{
		{what: "the same minute", want: 0},
		{what: "another minute", back: "00:61", want: 78},
		{what: "another minute, another host", back: "00:61", other: true, want: 0},
		{what: "--every day", words: []string{"--every", "day"}, back: "00:61", want: 0},
		{what: "ONCEONLY_EVERY=day", env: "ONCEONLY_EVERY=day", back: "00:61", want: 0},
		{what: "--attempts 2", words: []string{"--attempts", "2"}, back: "00:61", want: 0},
		{what: "--date today", words: []string{"--date", "today"}, back: "00:61", want: 0},
		{what: "--exit-done 9", words: []string{"--exit-done", "9"}, back: "00:61", want: 78},
		{what: "-v", words: []string{"-v"}, back: "00:61", want: 78},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			web := hostWith(t, "web-1", c.env)
			args := slices.Concat([]string{"run", "--job", "sync"}, c.words, []string{"--", "echo", "ran"})
			for {
				minute := time.Now().Format("15:04")
				if r := web.run(args...); r.status != 0 || r.stdout != "ran\n" {
					t.Fatalf("the first: %v", r)
				}
				setMinute(t, "sync", "web-1", c.back)
				asker := web
				if c.other {
					asker = hostWith(t, "web-2", c.env)
				}
				r := asker.run(args...)
				if time.Now().Format("15:04") != minute { // the clock went on in between, perhaps to another day
					l := &ledger{shared.rdb, namespaceOf(t)}
					shared.rdb.Del(context.Background(), l.keys("sync")...)
					continue
				}
				if r.status != c.want || r.stdout != "" || c.want == 0 && r.stderr != "" || c.want == 78 && !notDaily.MatchString(r.stderr) {
					t.Errorf("got %v, want status %d", r, c.want)
				}
				return
			}
		})
	}
	t.Run("the clock itself", func(t *testing.T) {
		if os.Getenv("ONCEONLY_TEST_LONG") == "" {
			t.Skip("takes a minute: ONCEONLY_TEST_LONG")
		}
		t.Parallel()
		web := newHost(t, "web-1")
		web.run("run", "--job", "sync", "--", "true").want(t, 0, "")
		minute := time.Now().Format("15:04")
		for time.Now().Format("15:04") == minute {
			time.Sleep(time.Second)
		}
		if r := web.run("run", "--job", "sync", "--", "true"); r.status != 78 || !notDaily.MatchString(r.stderr) {
			t.Errorf("a minute later: %v", r)
		}
	})
}

// setMinute changes the minute at which a host asked last, in the roll call.
func setMinute(t *testing.T, job, host, minute string) {
	t.Helper()
	if minute == "" {
		return
	}
	key := (&ledger{shared.rdb, namespaceOf(t)}).keys(job)[6]
	fields, err := shared.rdb.HGetAll(context.Background(), key).Result()
	if err != nil || len(fields) != 1 {
		t.Fatalf("the roll call has %q, %v; want one host", fields, err)
	}
	for name, text := range fields {
		changed := regexp.MustCompile(`"minute":"[^"]*"`).ReplaceAllString(text, `"minute":"`+minute+`"`)
		if changed == text {
			t.Fatalf("the roll call of %s has no minute: %s", host, text)
		}
		shared.rdb.HSet(context.Background(), key, name, changed)
	}
}

func hostWith(t *testing.T, name, variable string) *host {
	if variable == "" {
		return newHost(t, name)
	}
	return newHost(t, name, variable)
}
