package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Cases of real users about mistakes: a command line, an environment or a file that is wrong is told, and nothing runs.

// A mistake is a command line, an environment or a file that no run may come of, and words that the message has.
type mistake struct {
	args []string
	env  string // NAME=value
	file string // of options
	says string
}

// Everything wrong with the command line is exit 64 with one line and at most one hint, nothing on stdout, nothing written
// to Redis, nothing run. (SH-39, SH-55, SH-61, SH-62)
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
		{args: []string{"run", "echo (ran)"}, says: `"echo (ran)": "(" at character 6 needs a shell`},
		{args: []string{"run", "echo ran\necho ran"}, says: `"\n" at character 9 needs a shell` + "\nonceonly: hint: onceonly run --job NAME -- COMMAND"},
		{args: []string{"run", "sh", "-c", "echo ran\necho ran"}, says: "onceonly: hint: onceonly run --job NAME -- COMMAND"},
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

		"--schedule":     {"", "0 2 * *", "0 2 * * * *", "0 25 * * *", "0 0 31 2 *", "@sometimes"},
		"--day-start":    {"", "24:00", "6", "06:60", "noon"},
		"--overlap":      {"", "Skip", "never"},
		"--catch-up":     {"", "all", "Each"},
		"--log":          {"", "file", "stderr,syslog"},
		"--wait-max":     {"", "10", "0s", "-1s"},
		"--retry-delay":  {"", "10", "-1s"},
		"--timeout":      {"", "3600", "0s", "-1s"},
		"--kill-after":   {"", "10", "-1s"},
		"--catch-up-max": {"", "0", "101", "all"},
		"--keep":         {"", "9", "1000001", "all"},
		"--standby":      {"", "maybe"},
		"--rerun":        {"", "maybe"},
		"--pg":           {"", "maybe"},
		"--expand":       {"", "maybe"},
		"--verbose":      {"", "maybe"},
	} {
		for _, v := range values {
			all = append(all, mistake{args: []string{"run", "--job", "j", option + "=" + v, "--", "echo", "ran"}, says: option})
		}
	}
	for wrong, says := range map[string]string{ // word by word
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
	const misplaced = "redis://u:s3cret@127.0.0.1/0"
	return append(all, mistake{env: "ONCEONLY_REDIS=", says: "ONCEONLY_REDIS"},
		mistake{env: "ONCEONLY_CONFIG=" + misplaced, says: "ONCEONLY_CONFIG: a URL, where none belongs"},
		mistake{args: []string{"run", "--redis-file", misplaced, "--job", "j", "echo", "ran"}, says: "--redis-file: a URL, where none belongs"},
		mistake{args: []string{"run", "--every", misplaced, "--job", "j", "echo", "ran"}, says: "--every: a URL, where none belongs"},
		mistake{args: []string{"doctor", "--config", misplaced}, says: "--config: a URL, where none belongs"})
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
		"ONCEONLY_ATTEMPT=2":       "ONCEONLY_ATTEMPT\nonceonly: hint: ONCEONLY_ATTEMPTS",
		"ONCEONLY_JOB=j":           "ONCEONLY_JOB",
		"ONCEONLY_DATE=today":      "ONCEONLY_DATE",
		"ONCEONLY_RERUN=1":         "ONCEONLY_RERUN",
		"ONCEONLY_REASON=x":        "ONCEONLY_REASON",
		"ONCEONLY_CONFIG=/etc/x":   "ONCEONLY_CONFIG",
		"ONCEONLY_FENCING_TOKEN=1": "ONCEONLY_FENCING_TOKEN",
		"REDIS=redis://127.0.0.1":  "REDIS",
		"redis=redis://127.0.0.1":  "redis",
		"export ONCEONLY_TZ=UTC":   "NAME=value",

		// A URL where none belongs is not shown, for its password's sake.
		"redis://u:s3cret@127.0.0.1/0?db=3":              "NAME=value",
		"ONCEONLY_REDIS: redis://u:s3cret@h/0?ca=/x":     "NAME=value",
		"ONCEONLY_REDIS redis://:s3cret=@h/0":            "NAME=value",
		"ONCEONLY_REDIS_FILE=redis://u:s3cret@h/0":       "ONCEONLY_REDIS_FILE: a URL, where none belongs",
		"ONCEONLY_TZ=redis://u:s3cret@127.0.0.1:6379/0":  "ONCEONLY_TZ: a URL, where none belongs",
		"ONCEONLY_LEASE=redis://u:s3cret@127.0.0.1:6379": "ONCEONLY_LEASE: a URL, where none belongs",

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

// Every option of run that refuses a value is among the wrong values, so that what it refuses is told with its name.
func TestWrongValuesAreOfAllOptions(t *testing.T) {
	var tried []string
	for _, m := range slices.Concat(wrongValues(), wrongAddresses()) {
		for _, word := range m.args {
			tried = append(tried, strings.SplitN(word, "=", 2)[0])
		}
	}
	for _, o := range runOptions {
		if !o.bare && o.set(initial(), "no value of any option\n") != nil && !slices.Contains(tried, dashes(o.name)) {
			t.Errorf("case_usage_test.go, wrongValues: has no wrong value of %s", dashes(o.name))
		}
	}
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
		{"ONCEONLY_CONFIG=/dev/zero", "longer than 1 MB"},
		{"ONCEONLY_REDIS_FILE=/dev/zero", "longer than 1 MB"},
		{"ONCEONLY_REDIS=rediss://127.0.0.1:1/0?ca=/dev/zero", "longer than 1 MB"},
		{"ONCEONLY_REDIS=rediss://127.0.0.1:1/0?key=/dev/zero", "longer than 1 MB"},
	} {
		web := newHost(t, "web-1", c.env)
		web.env = slices.DeleteFunc(web.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_REDIS=") && v != c.env })
		if strings.HasPrefix(c.env, "ONCEONLY_CONFIG=") {
			web.env = append(web.env, "ONCEONLY_REDIS="+r.url())
		}
		wantRefused(t, r, 78, web.run("run", "--job", "j", "--", "echo", "ran"), c.says)
	}
	web := newHost(t, "web-1")
	web.env = slices.DeleteFunc(web.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_REDIS=") })
	empty := filepath.Join(t.TempDir(), "empty")
	caseTouch(t, empty, "\n")
	web.run("run", "--redis-file", empty, "--job", "j", "--", "echo", "ran").want(t, 64, "onceonly: "+empty+": empty\n")
	web.run("run", "--job", "j", "--", "echo", "ran").want(t, 64,
		"onceonly: no Redis given\nonceonly: hint: ONCEONLY_REDIS=redis://HOST:6379/0, --redis, or /etc/onceonly.conf\n")
}

// wantRefused wants the exit status, one line and at most one hint, which have those words in them, nothing run, and a
// server on which there is nothing.
func wantRefused(t *testing.T, r *redisServer, status int, got result, words ...string) {
	t.Helper()
	said := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
	switch {
	case got.status != status || got.stdout != "":
		t.Errorf("%q: got %v\nwant status %d and no stdout", words, got, status)
	case !strings.HasSuffix(got.stderr, "\n") || !strings.HasPrefix(said[0], "onceonly: ") || strings.HasPrefix(said[0], "onceonly: hint:"):
		t.Errorf("%q: no line of onceonly's: %q", words, got.stderr)
	case len(said) > 2 || len(said) == 2 && !strings.HasPrefix(said[1], "onceonly: hint: "):
		t.Errorf("%q: more than a line and a hint: %q", words, got.stderr)
	case strings.HasSuffix(said[0], ".") || strings.HasSuffix(said[0], ": ") || strings.Contains(got.stderr, "%!"):
		t.Errorf("%q: ends badly: %q", words, got.stderr)
	}
	for _, word := range words {
		quotedWord := strings.Trim(word, " \n\t")
		if !strings.Contains(got.stderr, quotedWord) {
			t.Errorf("%q is not in %q", word, got.stderr)
		}
	}
	if keys, err := r.rdb.DBSize(context.Background()).Result(); err != nil || keys != 0 {
		t.Errorf("%q: %d keys in Redis, %v; want none", words, keys, err)
		r.rdb.FlushAll(context.Background())
	}
}
