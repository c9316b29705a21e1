package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Cases of real users about a Redis that is away or unwilling when it is asked: nothing starts, and one line says why.

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
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // no handshake is the case itself
			s.StartTLS()
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
	line := regexp.MustCompile(`^onceonly: j 2026-01-05: not run: Redis at \S+:? [^\n]*` + words + `[^\n]*\n(onceonly: hint: [^\n]*\n)?$`)
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
