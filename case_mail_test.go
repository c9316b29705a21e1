package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Cases of real users about cron's mail: none from whoever had nothing to do, a line each from whoever found Redis
// broken.

// SH-10: what monitoring sees: quiet for a held lock and for a date that is done, loud and different for a Redis that is
// down (69) and for a wrong password (77).
func TestCaseBusyIsNotBroken(t *testing.T) {
	t.Parallel()
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	p := newHost(t, "web-1").start(append([]string{"run", "--job", "j", "--date", "2026-01-05"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)...)
	eventually(t, "it starts", started(log))
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05", "--redis-wait", "1s"}, effects(log, "true")...)
	web := newHost(t, "web-2")
	silent(t, "busy", web.run(args...))
	web.run(slices.Concat([]string{"run", "--exit-busy", "41", "--exit-done", "42"}, args[1:])...).want(t, 41, "")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	silent(t, "the holder", p.result(t))
	silent(t, "done", web.run(args...))
	web.run(slices.Concat([]string{"run", "--exit-busy", "41", "--exit-done", "42"}, args[1:])...).want(t, 42, "")
	down := newProxy(t, shared.address())
	down.refuse()
	newHost(t, "web-2", "ONCEONLY_REDIS="+down.url()).run(args...).want(t, 69,
		"onceonly: j 2026-01-05: not run: Redis at "+down.address()+" not reached in 1s: connection refused\n")
	secret := newRedis(t)
	for _, rule := range [][]any{{"ACL", "SETUSER", "cron", "on", ">right", "~*", "&*", "+@all"}, {"ACL", "SETUSER", "default", "resetpass", ">other"}} {
		if err := secret.rdb.Do(context.Background(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for user, words := range map[string]string{"cron:s3cret@": ", user cron: WRONGPASS invalid username-password pair or user is disabled.\n",
		"": ", user default: NOAUTH Authentication required.\n"} {
		w := newHost(t, "web-2", "ONCEONLY_REDIS=redis://"+user+secret.address()).start(args...)
		w.result(t).want(t, 77, "onceonly: j 2026-01-05: not run: Redis at "+secret.address()+words)
		if took := time.Since(w.began); took > 3*time.Second {
			t.Errorf("took %v to be refused", took)
		}
	}
	if got := readEffects(t, log, false); len(got) != 1 {
		t.Errorf("%d starts, want 1", len(got))
	}
}

// SH-68: no mail from the losers, nor from a winner whose command says nothing. With -v one line each, which says what
// applies; with Redis down one line each.
func TestCaseMail(t *testing.T) {
	t.Parallel()
	log, gate := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "gate")
	args := append([]string{"run", "--job", "j", "--date", "2026-01-05"}, effects(log, `until test -e "`+gate+`"; do sleep 0.01; done`)...)
	verbose := slices.Concat([]string{"run", "-v"}, args[1:])
	winner := newHost(t, "winner").start(args...)
	eventually(t, "it starts", started(log))
	for n, r := range atOneInstant(t, 20, args) {
		silent(t, fmt.Sprintf("busy, web-%d", n), r)
	}
	busy := regexp.MustCompile(fmt.Sprintf(`^onceonly: j 2026-01-05: not run: running on winner:%d since (\d\d-\d\d )?\d\d:\d\d:\d\d, renewed \d+s ago, lease until (\d\d-\d\d )?\d\d:\d\d:\d\d\n$`, winner.cmd.Process.Pid))
	for n, r := range atOneInstant(t, 5, verbose) {
		if r.status != 0 || r.stdout != "" || !busy.MatchString(r.stderr) {
			t.Errorf("busy, -v, web-%d: %v", n, r)
		}
	}
	os.WriteFile(gate, nil, 0o600)
	silent(t, "the winner", winner.result(t))
	for n, r := range atOneInstant(t, 20, args) {
		silent(t, fmt.Sprintf("done, web-%d", n), r)
	}
	done := regexp.MustCompile(`^onceonly: j 2026-01-05: not run: done on winner at (\d\d-\d\d )?\d\d:\d\d:\d\d \(\d+s\)\n$`)
	for n, r := range atOneInstant(t, 5, verbose) {
		if r.status != 0 || r.stdout != "" || !done.MatchString(r.stderr) {
			t.Errorf("done, -v, web-%d: %v", n, r)
		}
	}
	down := newProxy(t, shared.address())
	down.refuse()
	var wait sync.WaitGroup
	for n := range 20 {
		wait.Go(func() {
			newHost(t, "web-"+strconv.Itoa(n)).run(slices.Concat([]string{"run", "--redis", down.url(), "--redis-wait", "1s"}, args[1:])...).want(t, 69,
				"onceonly: j 2026-01-05: not run: Redis at "+down.address()+" not reached in 1s: connection refused\n")
		})
	}
	wait.Wait()
}
