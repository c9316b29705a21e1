//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// A contender is a command that is measured; args are of its n-th round.
type contender struct {
	name string
	args func(n int) []string
	env  []string
	took []time.Duration
}

func (c *contender) median() time.Duration {
	slices.Sort(c.took)
	return c.took[len(c.took)/2]
}

// race runs all of them in turn, each round in another order. The first rounds warm up, and do not count.
func (b *bench) race(all []*contender) error {
	const warm = 3
	for n := range b.rounds + warm {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, c := range all {
			args := c.args(n)
			cmd := exec.CommandContext(b.ctx, args[0], args[1:]...)
			cmd.Env = append(os.Environ(), c.env...)
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				return fmt.Errorf("%s: %v: %s", c.name, err, out)
			}
			if n >= warm {
				c.took = append(c.took, time.Since(began))
			}
		}
	}
	return nil
}

// wrappers are a run and a loser of onceonly over this URL; which keeps jobs apart.
func (b *bench) wrappers(which, url string) (run, loser *contender) {
	env := []string{"ONCEONLY_REDIS=" + url, "ONCEONLY_NAMESPACE=" + which, "ONCEONLY_CONFIG=" + os.DevNull,
		"ONCEONLY_STATE_DIR=" + filepath.Join(b.dir, "state")}
	day := func(n int) string { return time.Date(2020, 1, 1+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) }
	ask := func(job, day string) []string {
		return []string{b.onceonly, "run", "--job", job, "--date", day, "--", "/bin/true"}
	}
	return &contender{name: "onceonly, a run", env: env, args: func(n int) []string { return ask("run", day(n)) }},
		&contender{name: "onceonly, a loser", env: env, args: func(int) []string { return ask("loser", day(0)) }}
}

// script is a lock as people write it: taken by SET NX with an expiry, given back if it is still one's own.
func (b *bench) script(how string) *contender {
	const text = `token=$(hostname)-$$
[ "$(redis-cli %[1]s SET lock $token NX PX 60000)" = OK ] || exit 0
/bin/true
redis-cli %[1]s EVAL 'if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("DEL", KEYS[1]) end' 1 lock $token >/dev/null
`
	return &contender{name: "sh, redis-cli twice", args: func(int) []string { return []string{"sh", "-c", fmt.Sprintf(text, how)} }}
}

// times compares the wall time over loopback and over a socket.
func (b *bench) times() error {
	url := fmt.Sprintf("redis://127.0.0.1:%d/0", b.port)
	run, loser := b.wrappers("tcp", url)
	near, nearLoser := b.wrappers("socket", "unix://"+b.socket+"?db=0")
	near.name, nearLoser.name = near.name+", socket", nearLoser.name+", socket"
	script := b.script(fmt.Sprint("-p ", b.port))
	flock := &contender{name: "flock -n", args: func(int) []string { return []string{"flock", "-n", filepath.Join(b.dir, "lock"), "/bin/true"} }}
	bare := &contender{name: "true", args: func(int) []string { return []string{"/bin/true"} }}
	all := []*contender{bare, flock, run, loser, near, nearLoser, script}
	if err := b.race(slices.Clone(all)); err != nil {
		return err
	}
	fmt.Printf("wall time around /bin/true, median of %d, in turn, on loopback\n\n", b.rounds)
	for _, c := range all {
		fmt.Printf("  %-28s %7.2f ms  %5.2f of the script\n", c.name, ms(c.median()), ratio(c, script))
	}
	fmt.Println()
	target("a run, of the script", ratio(run, script), 0.6)
	target("a loser, of a run", ratio(loser, run), 0.7)
	target("a run, of flock", ratio(run, flock), 2.4)
	return nil
}

func ratio(a, b *contender) float64 { return float64(a.median()) / float64(b.median()) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func target(what string, got, most float64) {
	verdict := "met"
	if got > most {
		verdict = "missed"
	}
	fmt.Printf("  target: %-28s %5.2f, at most %.2f: %s\n", what, got, most, verdict)
}
