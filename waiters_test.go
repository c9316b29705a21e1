package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// waiterRequests is how many requests a server got, and how many of them were scripts. What a script calls is counted by the
// server as well, but is no request; so these are counted by name: scripts, and what clients send on their own account.
func waiterRequests(t *testing.T, r *redisServer) (all, evals int) {
	t.Helper()
	text, err := r.rdb.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[2])
		if name, _, _ := strings.Cut(m[1], "|"); slices.Contains([]string{"eval", "evalsha", "script", "fcall", "hello", "auth", "select", "client",
			"command", "ping", "subscribe", "psubscribe", "unsubscribe", "cluster"}, name) {
			all += n
		}
		if m[1] == "eval" {
			evals += n
		}
	}
	return all, evals
}

// waitingWindow is how long the waiters are watched.
func waitingWindow(t *testing.T) time.Duration {
	t.Helper()
	text := cmp.Or(os.Getenv("ONCEONLY_TEST_WAITERS"), "12s")
	window, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return window
}

// waitingCalls are n hosts that ask for one slot, while another one of the job runs.
func waitingCalls(t *testing.T, r *redisServer, n int, log string) (calls []*call) {
	t.Helper()
	for i := range n {
		c, err := newCallAt(t, time.Now(), map[string]string{"redis": r.url(), "job": "invoice", "every": "day", "date": "2025-06-10",
			"host": fmt.Sprint("web-", i+1)}, "sh", "-c", `echo ran >>"$0"`, log)
		if err != nil {
			t.Fatal(err)
		}
		c.wall = time.Now
		calls = append(calls, c)
	}
	return calls
}

// askedWhileWaiting is how many requests n waiters send in the window, who began to wait at started: none before their
// first look, which comes after five seconds.
func askedWhileWaiting(t *testing.T, r *redisServer, n int, window time.Duration, started time.Time) int {
	t.Helper()
	began, _ := waiterRequests(t, r)
	quiet := max(0, 4900*time.Millisecond-time.Since(started))
	time.Sleep(quiet) // just short of the first look
	if asked, _ := waiterRequests(t, r); quiet > 0 && asked > began {
		t.Errorf("%d requests within the first five seconds", asked-began)
	}
	time.Sleep(window - quiet) // what is measured: how often they ask in so long
	asked, _ := waiterRequests(t, r)
	if most := int(float64(n) * window.Seconds() / 5); asked-began >= most {
		t.Errorf("%d waiters sent %d requests in %v, not below %d", n, asked-began, window, most)
	}
	return asked - began
}

// endAndHear ends a run that was held, and returns when its end was published.
func endAndHear(t *testing.T, r *redisServer, channel string, held *heldRun) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pubsub := r.rdb.Subscribe(ctx, channel)
	defer pubsub.Close()
	if _, err := pubsub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	held.open(0)
	if _, err := pubsub.ReceiveMessage(ctx); err != nil {
		t.Errorf("the end is not published: %v", err)
	}
	return time.Now()
}

// Two hundred hosts wait for the end of one run: they ask less than once in five seconds, are woken when it ends, and just one
// of them runs. ONCEONLY_TEST_WAITERS=1m watches them for longer.
func TestTwoHundredWaiters(t *testing.T) {
	t.Parallel()
	const n = 200
	window, r, log := waitingWindow(t), newRedis(t), filepath.Join(t.TempDir(), "log")
	first := newHost(t, "web-0", "ONCEONLY_REDIS="+r.url()).hold(log, "run", "--job", "invoice", "--every", "day", "--date", "2025-06-09")
	calls := waitingCalls(t, r, n, log)
	_, before := waiterRequests(t, r)
	statuses, ends, started := make([]int, n), make([]time.Time, n), time.Now()
	var all sync.WaitGroup
	for i, c := range calls {
		all.Go(func() {
			if e := c.execute(&voice{w: io.Discard}); e != nil {
				statuses[i] = e.status
			}
			ends[i] = time.Now()
		})
	}
	eventually(t, "all wait: each has asked, subscribed, and asked once more", func() bool {
		_, evals := waiterRequests(t, r)
		return evals >= before+2*n
	})
	asked := askedWhileWaiting(t, r, n, window, started)
	ended := endAndHear(t, r, calls[0].ledger.channel("invoice"), first)
	first.wait().want(t, 0, "")
	all.Wait()
	if ran := lines(log); len(ran) != 3 || ran[2] != "ran" {
		t.Errorf("effects: %q", ran)
	}
	var woken []time.Duration
	for i, at := range ends {
		if statuses[i] != 0 {
			t.Errorf("web-%d ended with %d", i+1, statuses[i])
		}
		woken = append(woken, at.Sub(ended))
	}
	slices.Sort(woken)
	median, worst := woken[n/2], woken[n-1]
	t.Logf("%d waiters: %.2f requests each in %v; after the end they were done in %v (median), %v (worst)", n, float64(asked)/n, window,
		median.Round(time.Millisecond), worst.Round(time.Millisecond))
	if median > time.Second || worst > 4*time.Second { // by looking alone it would be 2.5 and 6
		t.Errorf("woken after %v (median), %v (worst)", median, worst)
	}
}
