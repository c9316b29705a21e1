//go:build !race

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"onceonly/scripts/ports"
)

// Redis Sentinel.

// Sentinels are a master with a replica, and three that watch them.
type sentinels struct {
	master, replica *redisServer
	addresses       []string
	rdb             *redis.SentinelClient
}

func newSentinels(t *testing.T, more ...string) *sentinels {
	t.Helper()
	w := &sentinels{master: newRedis(t)}
	w.replica = newRedis(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(w.master.port), "--repl-diskless-sync-delay", "0")
	for range 3 {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		conf := filepath.Join(dir, "sentinel.conf")
		caseTouch(t, conf, fmt.Sprintf(`port %d
bind 127.0.0.1
dir %s
logfile %s/log
sentinel monitor main 127.0.0.1 %d 2
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 5000
%s
`, port, dir, dir, w.master.port, strings.Join(more, "\n")))
		cmd := exec.Command("redis-server", conf, "--sentinel")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		w.addresses = append(w.addresses, "127.0.0.1:"+strconv.Itoa(port))
	}
	ctx := context.Background()
	password := ""
	for _, line := range more {
		password = strings.TrimPrefix(line, "requirepass ")
	}
	for _, s := range w.addresses {
		c := redis.NewSentinelClient(&redis.Options{Addr: s, Protocol: 2, Password: password})
		t.Cleanup(func() { c.Close() })
		w.rdb = c
		eventually(t, "the Sentinels know each other and the replica", func() bool {
			others, _ := c.Sentinels(ctx, "main").Result()
			replicas, _ := c.Replicas(ctx, "main").Result()
			return len(others) == 2 && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
		})
	}
	return w
}

func (w *sentinels) url() string {
	return "redis+sentinel://" + strings.Join(w.addresses, ",") + "/main/0"
}

// current is the port of the master, as a Sentinel says.
func (w *sentinels) current() string {
	a, _ := w.rdb.GetMasterAddrByName(context.Background(), "main").Result()
	return strings.Join(a, ":")
}

// A master, a replica, three Sentinels: a run, a second host, the status; not a word when all is well.
func TestSentinel(t *testing.T) {
	t.Parallel()
	w := newSentinels(t)
	url := "ONCEONLY_REDIS=" + w.url()
	a, b := newHost(t, "web-1", url), newHost(t, "web-2", url)
	log := filepath.Join(t.TempDir(), "log")
	args := caseRun("j", "--lease 3s --exit-busy 5 --exit-done 6", beating(t, log, "20ms", "2s")...)
	p := caseStart(t, a.command(args...))
	eventually(t, "it begins", beats(log, "web-1"))
	b.run(args...).want(t, 5, "")
	q := caseStart(t, b.command(caseRun("j", "--lease 3s --standby --attempts 2 --exit-done 6", beating(t, log, "20ms", "2s")...)...))
	p.wait().want(t, 0, "")
	q.wait().want(t, 6, "")
	b.run(args...).want(t, 6, "")
	if r := b.run("status", "j"); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "done") {
		t.Errorf("status: %v", r)
	}
	if e := entryIn(t, w.master.rdb, namespaceOf(t), "j", caseDay); e.State != "done" {
		t.Errorf("entry %+v", e)
	}
	for bad, why := range map[string]string{ // what it says must be what is wrong
		"redis+sentinel://" + w.addresses[0] + "/other": `Redis at other by Sentinel [^\n]*(master|other)[^\n]*`,
		"redis+sentinel://127.0.0.1:1,127.0.0.1:2/main": `Redis at main by Sentinel 127.0.0.1:1,127.0.0.1:2 not reached in 1s: connection refused`,
		"redis://" + w.addresses[0] + "/0": w.addresses[0] + " is a Sentinel\nonceonly: hint: redis\\+sentinel://" +
			w.addresses[0] + "/MASTER",
	} {
		ran := filepath.Join(t.TempDir(), "ran")
		newHost(t, "web-1", "ONCEONLY_REDIS="+bad).run(caseRun("k", "--redis-wait 1s --lease 1s", "touch", ran)...).wantMatch(t, 69,
			"onceonly: k "+caseDay+": not run: "+why+"\n")
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: it ran", bad)
		}
	}
	one := newHost(t, "web-3", "ONCEONLY_REDIS=redis+sentinel://127.0.0.1:1,"+w.addresses[1]+"/main") // the first is away
	one.run(args...).want(t, 6, "")
}

// A failover in the middle of a run: asked for, or because the master dies. The run goes on, or is stopped and says so;
// in no case do two run at once, and what the ledger says is what happened.
//
// Manual: Redis fails over
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"asked for", "the master dies"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newSentinels(t)
			url := "ONCEONLY_REDIS=" + w.url()
			log := filepath.Join(t.TempDir(), "log")
			options := "--lease 10s --redis-wait 20s --attempts 2"
			a := caseStart(t, newHost(t, "web-1", url).command(caseRun("j", options, beating(t, log, "5ms", "12s")...)...))
			eventually(t, "it begins", beats(log, "web-1"))
			eventually(t, "the replica has it", func() bool { return heldIn(t, w.replica.rdb, "j") })
			b := caseStart(t, newHost(t, "web-2", url).command(caseRun("j", options+" --standby --exit-done 6", beating(t, log, "5ms", "100ms")...)...))
			before := w.current()
			if how == "asked for" {
				if err := w.rdb.Failover(context.Background(), "main").Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				w.master.cmd.Process.Kill()
			}
			at := time.Now()
			eventually(t, "another master", func() bool { return w.current() != before && w.current() != "" })
			t.Logf("another master after %v", time.Since(at))
			ra, rb := a.wait(), b.wait()
			t.Logf("%q: first %v, second %v", beatWords(log), ra, rb)
			e := entryIn(t, w.replica.rdb, namespaceOf(t), "j", caseDay)
			switch {
			case ra.status == 0:
				ra.wantMatch(t, 0, "("+notRenewed("j")+")?")
				if len(beatsBy(log, "web-2")) > 0 || rb.status != 6 || e.State != "done" || e.Attempt != 1 {
					t.Errorf("entry %+v, the second: %v", e, rb)
				}
			case ra.status == 75:
				if !strings.Contains(ra.stderr, ": stopped: ") || rb.status != 0 || e.State != "done" || e.Attempt != 2 {
					t.Errorf("entry %+v, %v, the second: %v", e, ra, rb)
				}
				if margin := handover(t, log, "web-1", "web-2"); margin <= 0 {
					t.Errorf("two ran together for %v", -margin)
				}
			default:
				t.Errorf("%v", ra)
			}
		})
	}
}

// Redis asks for a password, the Sentinels do not: the usual way.
func TestSentinelPassword(t *testing.T) {
	t.Parallel()
	ctx, w := context.Background(), newSentinels(t)
	for _, s := range w.addresses {
		c := redis.NewSentinelClient(&redis.Options{Addr: s, Protocol: 2})
		c.Set(ctx, "main", "auth-pass", "geheim/@")
		c.Close()
	}
	for _, r := range []*redisServer{w.replica, w.master} {
		r.rdb.ConfigSet(ctx, "masterauth", "geheim/@")
		r.rdb.ConfigSet(ctx, "requirepass", "geheim/@")
	}
	with := func(password string) *host {
		return newHost(t, "web-1", "ONCEONLY_REDIS="+strings.Replace(w.url(), "://", "://:"+percent(password)+"@", 1))
	}
	with("geheim/@").run(caseRun("j", "", "true")...).want(t, 0, "")
	r := with("falsch").run(caseRun("j", "", "true")...)
	if r.status != 77 || strings.Contains(r.stderr, "falsch") || !strings.HasPrefix(r.stderr, "onceonly: j "+caseDay+": not run: Redis at main by Sentinel ") {
		t.Errorf("a wrong password: %v", r)
	}
}

// The Sentinels ask for a password of their own.
func TestSentinelsOwnPassword(t *testing.T) {
	t.Parallel()
	w := newSentinels(t, "sentinel sentinel-pass wache&/", "requirepass wache&/")
	with := func(query string) result {
		return newHost(t, "web-1", "ONCEONLY_REDIS="+w.url()+query).run(caseRun("j", "--redis-wait 1s", "true")...)
	}
	with("?sentinel_password="+url.QueryEscape("wache&/")).want(t, 0, "")
	for _, query := range []string{"", "?sentinel_password=falsch"} {
		if r := with(query); r.status != 77 || r.stdout != "" || strings.Contains(r.stderr, "falsch") {
			t.Errorf("%q: %v", query, r)
		}
	}
}
