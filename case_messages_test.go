package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Messages, word by word. Most stand in the tests of what they are about; here are the rest.

// TestUsageMessages: what is wrong with the words is said in one line, with at most one hint, and nothing else is.
func TestUsageMessages(t *testing.T) {
	t.Parallel()
	const rerun = "onceonly run --rerun --reason TEXT --date 2026-11-29 -- command"
	for _, c := range []struct{ words, says, hint string }{
		{"run --every day --schedule @daily true", "--every and --schedule exclude each other", ""},
		{"run --rerun --reason x true", "--rerun needs --date", rerun},
		{"run --rerun --date today true", "--rerun needs --reason", rerun},
		{"run --reason x true", "--reason needs --rerun", ""},
		{"run --standby true", "--standby needs --attempts 2 or more", "with one attempt nobody may take over"},
		{"run --lease 10ms true", `--lease "10ms": shorter than 1s`, ""},
		{"run --lease soon true", `--lease "soon": not a duration`, "90s, 10m, 1h30m, 2d"},
		{"run --catch-up each --catch-up-max 10 --keep 10 true", "--catch-up-max 10: --keep 10 keeps no more than that", "--keep 11"},
		{"run --keep 1 true", `--keep "1": not a number from 10 to 1000000`, ""},
		{"run --job", "no value for --job", "onceonly run --help"},
		{"run /x/-x", `"-x" cannot name the job: a name is 1 to 200 bytes of printable UTF-8 and does not begin with "-"`,
			"onceonly run --job NAME -- /x/-x"},
		{"run --job \xff true", "--job \"\\xff\": a name is 1 to 200 bytes of printable UTF-8 and does not begin with \"-\"", ""},
		{"run --redis ftp://h true", "--redis: not a URL of the form redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://", ""},
		{"run --redis redis://h?color=red true", "--redis: a URL of this form has no such parameter", ""},
		{"run --redis redis://cron@h true", "--redis: a user without a password", ""},
		{"run --redis redis+sentinel://h/m?sentinel_user=x true", "--redis: a user without a password", ""},
		{"stop j", "stop needs --reason", "onceonly stop JOB --reason TEXT"},
		{"stop --reason x", "stop: no job", "onceonly stop JOB --reason TEXT"},
		{"pause", "pause: no job", "onceonly pause JOB [--until TIME] [--reason TEXT]"},
		{"pause j --until soon", `--until "soon": not a time`, "2026-12-01, 2026-12-01T06:00 or 2026-12-01T06:00:00+09:00"},
		{"wait", "wait: no job", "onceonly wait JOB [--date SLOT] [--timeout DURATION]"},
		{"status --date today", "status: --date needs a job", "onceonly status JOB --date today"},
		{"status --hosts", "status: --hosts needs a job", "onceonly status JOB --hosts"},
	} {
		want := "onceonly: " + c.says + "\n"
		if c.hint != "" {
			want += "onceonly: hint: " + c.hint + "\n"
		}
		newHost(t, "web-1").run(strings.Split(c.words, " ")...).want(t, 64, want)
	}
	h := newHost(t, "web-1")
	h.run("run", `a "b`).want(t, 64, `onceonly: "a \"b": unbalanced quote, or a backslash at the end`+
		"\nonceonly: hint: onceonly run [options] -- command argument...\n")
	h.run("run", "a \xff").want(t, 64, "onceonly: the command is not valid UTF-8 text\n"+
		"onceonly: hint: onceonly run [options] -- command argument...\n")
	newHost(t, "web-1", "ONCEONLY_CONFIG=").run("run", "true").want(t, 64, "onceonly: ONCEONLY_CONFIG \"\": empty\n")
	newHost(t, "web-1", "ONCEONLY_VERBOSE=perhaps").run("run", "true").
		want(t, 64, "onceonly: ONCEONLY_VERBOSE \"perhaps\": neither yes nor no\n")
	file := filepath.Join(t.TempDir(), "onceonly.conf")
	caseTouch(t, file, "\nONCEONLY_TZ\n")
	newHost(t, "web-1", "ONCEONLY_CONFIG="+file).run("run", "true").
		want(t, 64, "onceonly: "+file+":2: not a line of the form NAME=value\n")
}

// TestDisagreeMessages: lines that disagree are told what differs, and what to write.
func TestDisagreeMessages(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	silent(t, "every hour", h.run("run", "--job", "j", "--every", "hour", "--date", "2024-02-29T10:00", "--", "true"))
	h.run(caseRun("j", "", "true")...).want(t, 78, "onceonly: j: not run: this line is 'every day', that of web-1 is 'every hour', "+
		"and their slots overlap (2024-02-29 and 2024-02-29T10:00)\nonceonly: hint: give all hosts the same line: onceonly status j --hosts\n")
	h.run("run", "--", "no-such-command").want(t, 127, "onceonly: no-such-command "+time.Now().UTC().Format(time.DateOnly)+
		": no-such-command: not found in PATH\n")
	silent(t, "Seoul", h.run("run", "--job", "z", "--tz", "Asia/Seoul", "--", "true"))
	h.run("run", "--job", "z", "--", "true").wantMatch(t, 78, `onceonly: z: not run: this host's zone is UTC \(TZ\), the job's is `+
		`Asia/Seoul \(web-1, since \d{4}-\d\d-\d\d\)`+"\nonceonly: hint: on every host ONCEONLY_TZ=Asia/Seoul in /etc/onceonly.conf, or --tz Asia/Seoul\n")
}

// TestZoneMessages: one line under two zones, where the ledger knows the job's, and where only --date has run.
func TestZoneMessages(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	silent(t, "Seoul", h.run("run", "--job", "z", "--tz", "Asia/Seoul", "--", "true"))
	newest, _ := shared.rdb.HGet(context.Background(), jobKeys(t, "z")[5], "current").Result()
	day, _ := time.Parse(time.DateOnly, newest) // of which Seoul's clocks show the beginning on the day before in UTC
	before := day.AddDate(0, 0, -1).Format(time.DateOnly)
	h.run("run", "--job", "z", "--tz", "UTC", "--date", before, "--", "true").wantMatch(t, 78, `onceonly: z: not run: `+
		`this line's zone is UTC, the job's is Asia/Seoul \(web-1, since \d{4}-\d\d-\d\d\), and their slots overlap \(`+before+" and "+newest+`\)`+
		"\nonceonly: hint: on every host ONCEONLY_TZ=Asia/Seoul in /etc/onceonly.conf, or --tz Asia/Seoul\n")
	silent(t, "by date", h.run("run", "--job", "d", "--tz", "Asia/Seoul", "--date", "2024-02-29", "--", "true"))
	h.run("run", "--job", "d", "--tz", "UTC", "--date", "2024-02-28", "--", "true").want(t, 78, "onceonly: d: not run: this line's zone is UTC, "+
		"web-1 had another one, and their slots overlap (2024-02-28 and 2024-02-29)\nonceonly: hint: onceonly status d --date 2024-02-29\n")
}

// TestStopMessages: what stop says, and the holder that is stopped; and a command that ends with 0 when it is told to.
func TestStopMessages(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	silent(t, "the line is known", h.run("run", "--job", "j", "--", "true"))
	gone := filepath.Join(t.TempDir(), "log")
	p := h.start(caseRun("j", "--lease 1s", effects(gone, "sleep 60")[1:]...)...)
	eventually(t, "it has begun", started(gone))
	h.run("stop", "-v", "j", "--date", "2024-03-01", "--reason", "x").wantMatch(t, 1,
		`onceonly: j 2024-03-01: not running; 2024-02-29 is, on web-1:\d+\n`)
	h.run("stop", "-v", "j", "--reason", "hangs on NFS").wantMatch(t, 0,
		`onceonly: j 2024-02-29: asked web-1:\d+ to stop; it will hear within \d+(ms|s)\n`)
	p.result(t).wantMatch(t, 75, `onceonly: j 2024-02-29: stopped by [^ ]+@web-1: "hangs on NFS"\n`)
	h.run("stop", "j", "--reason", "x").want(t, 1, "onceonly: j: nobody holds it\n")
	again := filepath.Join(t.TempDir(), "log")
	p = h.start(caseRun("k", "", effects(again, "trap 'exit 0' TERM; sleep 60 & wait")[1:]...)...)
	eventually(t, "it has begun", started(again))
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.result(t).want(t, 75, "onceonly: k 2024-02-29: interrupted: the command was told to stop, and exited 0\n")
}

// TestRightMessages: a right that is lacking is named.
func TestRightMessages(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	if err := r.rdb.Do(context.Background(), "ACL", "SETUSER", "cron", "on", ">right", "~*", "&*", "+@all", "-eval").Err(); err != nil {
		t.Fatal(err)
	}
	newHost(t, "web-1", "ONCEONLY_REDIS=redis://cron:right@"+r.address()).run(caseRun("j", "", "true")...).want(t, 77,
		"onceonly: j 2024-02-29: not run: user cron may not EVAL\nonceonly: hint: the rule that is enough stands in onceonly(1), REDIS\n")
}

// TestCauseMessages: why Redis was not reached.
func TestCauseMessages(t *testing.T) {
	t.Parallel()
	away := func(redis, where, why string) {
		t.Helper()
		newHost(t, "web-1", "ONCEONLY_REDIS="+redis, "ONCEONLY_REDIS_WAIT=100ms").run(caseRun("j", "", "true")...).wantMatch(t, 69,
			`onceonly: j 2024-02-29: not run: Redis at `+where+` not reached in \d+(\.\d)?m?s: `+why+"\n")
	}
	away("redis://no-such-host.invalid:6379", `no-such-host\.invalid:6379`, "no such host")
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closing.Close()
	go func() {
		for c, err := closing.Accept(); err == nil; c, err = closing.Accept() {
			c.(*net.TCPConn).CloseWrite()
			go io.Copy(io.Discard, c) // what is not read makes a reset of the end
		}
	}()
	away("redis://"+closing.Addr().String(), closing.Addr().String(), "connection closed")
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	away("redis://"+web.Listener.Addr().String(), web.Listener.Addr().String(), "not a Redis server")
}

// TestAnswerMessages: answers that start nothing: of another kind than those of a script of ours, and too late.
func TestAnswerMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		behave func(*proxy)
		wait   string
		why    string
	}{
		{func(p *proxy) { p.answer("*1\r\n$3\r\nodd", "EVAL") }, "100ms", "not the answer of a script of ours"},
		{func(p *proxy) { p.delay(600 * time.Millisecond) }, "1500ms", "its answers come after the lease"},
	} {
		p := newProxy(t, shared.address())
		c.behave(p)
		newHost(t, "web-1", "ONCEONLY_REDIS="+p.url(), "ONCEONLY_REDIS_WAIT="+c.wait).run(caseRun("j", "--lease 1s", "true")...).wantMatch(t, 69,
			`onceonly: j 2024-02-29: not run: Redis at `+p.address()+` not reached in \d+s: `+c.why+"\n")
	}
}

// TestStaleMessages: an attempt whose lease was gone, and that ended while another one was running.
func TestStaleMessages(t *testing.T) {
	t.Parallel()
	held := newHost(t, "web-1").hold(filepath.Join(t.TempDir(), "log"), caseRun("j", "--lease 1m --attempts 2")[:9]...)
	shared.rdb.Del(context.Background(), lockKey(t, "j"))
	other := newHost(t, "web-2").hold(filepath.Join(t.TempDir(), "log"), caseRun("j", "--lease 1m --attempts 2")[:9]...)
	held.open(0)
	held.wait().wantMatch(t, exitNotDone, `onceonly: j 2024-02-29: attempt 1 ended after attempt 2 had begun on web-2:\d+; that one stands\n`)
	other.open(0)
	if r := other.wait(); r.status != 0 {
		t.Errorf("%v", r)
	}
}

// TestStatusMessages: what status says of a job that has no line, and that nobody has asked for.
func TestStatusMessages(t *testing.T) {
	t.Parallel()
	newSeed(t, "j", "every", "").entry("2024-02-29", "2024-02-29T00:00:00Z", `"state":"missed"`)
	h := newHost(t, "web-1")
	h.run("status", "j", "--hosts").wantOut(t, "no host has asked for j\n")
	h.run("status", "j", "--date", "today").want(t, 64, "onceonly: --date \"today\": not in the ledger, which has no line of this job\n")
}

// TestBugMessages: answers that no ledger of this version gives.
func TestBugMessages(t *testing.T) {
	t.Parallel()
	c, err := newCallAt(t, time.Now(), map[string]string{"job": "j", "date": caseDay}, "true")
	if err != nil {
		t.Fatal(err)
	}
	if e := c.refuse(&reply{Verdict: "odd"}); e.status != 70 || e.msg != `j 2024-02-29: not run: unknown verdict "odd"` {
		t.Errorf("%+v", e)
	}
	if _, err := decode[reply]("odd"); err == nil || cause(err) !=
		"the ledger's answer is not understood: invalid character 'o' looking for beginning of value" {
		t.Errorf("%v", err)
	}
	if err := noNil(redis.Nil); cause(err) != "no master of that name is known" {
		t.Errorf("%v", err)
	}
}
