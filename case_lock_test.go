package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cases of real users about the lock: however many ask, and whenever, one runs at a time, each slot once, and the
// tokens rise.

// SH-01: the job is over before the others look. What stops them is the ledger: the lock is gone by then.
func TestCaseShortJob(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"0", "0.05", "1"} {
		t.Run(length+"s", func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			args := append([]string{"run", "--job", "short", "--date", "yesterday", "--lease", "3s"}, effects(log, "sleep "+length)...)
			var early []*process
			for n := range 10 {
				early = append(early, newHost(t, "web-"+strconv.Itoa(n)).start(args...))
				strikeAfter(rand.N(10 * time.Millisecond)) // the next host's clock is so much behind
			}
			for _, p := range early {
				silent(t, "an early host", p.result(t))
			}
			if _, _, ttl := lockOf(t, "short"); ttl != -2 {
				t.Errorf("the lock lives on for %v after its run", ttl)
			}
			// Nothing of the job expires, so how much later another asks cannot matter: there is no grace to lapse.
			for _, key := range keysOf(t, "short") {
				if ttl := shared.rdb.PTTL(context.Background(), key).Val(); ttl != -1 {
					t.Errorf("%s expires in %v", key, ttl)
				}
			}
			for n := range 10 {
				silent(t, "a late host", newHost(t, "late-"+strconv.Itoa(n)).run(args...))
			}
			if got := readEffects(t, log, false); len(got) != 1 {
				t.Errorf("%d starts, want 1: %q", len(got), lines(log))
			}
		})
	}
}

// SH-02: everybody at the same instant. Fifty processes wait at a pipe and are let go together, for one slot after the
// other, back day by day: each time one starts and 49 end with 0 and not a byte.
func TestCaseFiftyAtOnce(t *testing.T) {
	t.Parallel()
	rounds, log := 10, filepath.Join(t.TempDir(), "log")
	if long {
		rounds = 100
	}
	day := time.Now().UTC()
	for round := range rounds {
		day = day.AddDate(0, 0, -1)
		for n, r := range atOneInstant(t, 50, append([]string{"run", "--job", "night", "--date", day.Format(time.DateOnly)}, effects(log, "sleep 0.1")...)) {
			silent(t, fmt.Sprintf("round %d, web-%d", round, n), r)
		}
		got := readEffects(t, log, false)
		if len(got) != round+1 || got[round].slot != day.Format(time.DateOnly) || got[round].attempt != 1 {
			t.Fatalf("round %d for %s: the starts are %v", round, day.Format(time.DateOnly), got)
		}
	}
}

// SH-03: a job that is longer than its lease. The lease never comes near its end, and a host that asks again and again
// finds it busy, and then done.
func TestCaseLongerThanTheLease(t *testing.T) {
	t.Parallel()
	length := 4 * time.Second
	if long {
		length = 9 * time.Second
		busy := exec.Command("timeout", "12", "yes")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { busy.Process.Kill(); busy.Wait() })
	}
	log, lease := filepath.Join(t.TempDir(), "log"), 2*time.Second
	args := append([]string{"run", "--job", "long", "--lease", "2s", "--date", "yesterday"}, effects(log, fmt.Sprintf("sleep %v", length.Seconds()))...)
	p := newHost(t, "web-1").start(args...)
	eventually(t, "it starts", started(log))
	rival, samples, asked := newHost(t, "web-2"), 0, 0
	lastAsked := time.Now()
	eventually(t, "the command ends", func() bool {
		_, value, ttl := lockOf(t, "long")
		over := len(lines(log)) > 1
		if samples++; ttl < lease/4 && !over {
			t.Errorf("the lease is down to %v (%q) after %v", ttl, value, time.Since(p.began))
		}
		if ttl > lease {
			t.Errorf("the lease is %v long, want at most %v", ttl, lease)
		}
		if time.Since(lastAsked) > 100*time.Millisecond {
			lastAsked, asked = time.Now(), asked+1
			silent(t, "the competitor", rival.run(args...))
		}
		return p.ended()
	})
	silent(t, "the holder", p.result(t))
	silent(t, "the competitor, afterwards", rival.run(args...))
	if got := readEffects(t, log, false); len(got) != 1 || samples < 20 || asked < 5 {
		t.Errorf("%d starts, want 1; %d samples, asked %d times", len(got), samples, asked)
	}
}

// SH-07: who has lost the lock to another does not free it, however it ends; and how it ended is written all the same.
func TestCaseSomebodyElsesLock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, then string
		signal     syscall.Signal
		entry      string
	}{
		{"exit 0", "exit 0", 0, "done"}, {"exit 1", "exit 1", 0, "failed"}, {"TERM", "exec sleep 20", syscall.SIGTERM, "failed"},
		{"until it notices", "exec sleep 20", 0, "failed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			log, gate := filepath.Join(folder, "log"), filepath.Join(folder, "gate")
			p := newHost(t, "web-1").start(append([]string{"run", "--job", "j", "--date", "2026-01-05", "--lease", "3s"},
				effects(log, `until test -e "`+gate+`"; do sleep 0.01; done; `+c.then)...)...)
			eventually(t, "it starts", started(log))
			key, _, _ := lockOf(t, "j")
			foreign := strings.Repeat("f", 32) + "web-3:77"
			if err := shared.rdb.Set(context.Background(), key, foreign, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.signal != 0 {
				p.cmd.Process.Signal(c.signal)
			}
			r := p.result(t)
			if _, value, ttl := lockOf(t, "j"); value != foreign || ttl < 40*time.Second || ttl > time.Minute {
				t.Errorf("the other's lock is now %q for %v", value, ttl)
			}
			if e := entryOf(t, "j", "2026-01-05"); e.State != c.entry {
				t.Errorf("the entry is %q, want %q; onceonly left %v", e.State, c.entry, r)
			}
			if c.what == "until it notices" && (r.status != 75 || !strings.HasPrefix(r.stderr, "onceonly: j 2026-01-05: stopped: lease lost")) {
				t.Errorf("got %v, want 75 and a line", r)
			}
		})
	}
}

// SH-11: two slots of one job never overlap, however many are asked for at once; and none is lost: whose turn does not
// come (75) finds the slot as free as it was.
func TestCaseManySlotsAtOnce(t *testing.T) {
	t.Parallel()
	log, slots := filepath.Join(t.TempDir(), "log"), 12
	var all []*process
	line := func(n int) []string {
		return append([]string{"run", "--job", "j", "--date", fmt.Sprintf("2026-01-%02d", n+1)}, effects(log, "sleep 0.05")...)
	}
	for n := range slots {
		all = append(all, newHost(t, "web-"+strconv.Itoa(n)).start(line(n)...))
	}
	for n, p := range all {
		if r := p.result(t); r.status != 0 && r.status != 75 || r.stdout != "" {
			t.Errorf("2026-01-%02d: %v", n+1, r)
		}
	}
	for n := range slots {
		silent(t, "asked again", newHost(t, "late").run(line(n)...))
	}
	got := readEffects(t, log, false)
	slices.SortFunc(got, func(a, b effect) int { return strings.Compare(a.slot, b.slot) })
	for n := range slots {
		if len(got) != slots || got[n].slot != fmt.Sprintf("2026-01-%02d", n+1) {
			t.Fatalf("the starts are %v, want each of %d slots once", got, slots)
		}
	}
}
