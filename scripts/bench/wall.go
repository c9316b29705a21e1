//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"onceonly/scripts/ports"
	"onceonly/scripts/redisserver"
)

// The shell script that people write, done right.
const script = `#!/bin/sh
[ "$(redis-cli "$@" set lock $$ nx px 60000)" = OK ] || exit 0
/bin/true
status=$?
redis-cli "$@" eval 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end' 1 lock $$ >/dev/null
exit $status
`

// A contender is one way to run /bin/true.
type contender struct {
	name string
	make func() *exec.Cmd
	took []time.Duration
}

// race runs all of them in random order, so often.
func race(rounds int, all []*contender) error {
	for range rounds {
		for _, i := range rand.Perm(len(all)) {
			took, err := timed(all[i].make())
			if err != nil {
				return err
			}
			all[i].took = append(all[i].took, took)
		}
	}
	return nil
}

// A link is a way to the server, as onceonly and redis-cli name it.
type link struct {
	name, url string
	cli       []string
}

func (p *place) links(s *store) ([]link, error) {
	port := func(n int) []string { return []string{"-p", fmt.Sprint(n)} }
	all := []link{{"loopback", s.url(), port(s.port)}, {"unix socket", "unix://" + redisserver.Socket(s.dir), []string{"-s", redisserver.Socket(s.dir)}}}
	for _, delay := range []time.Duration{time.Millisecond, 5 * time.Millisecond} {
		r, err := newRelay(s.port, delay)
		if err != nil {
			return nil, err
		}
		all = append(all, link{fmt.Sprint("link of ", delay, " each way"), fmt.Sprintf("redis://127.0.0.1:%d/0", r.port()), port(r.port())})
	}
	return all, nil
}

// wall is the time that each takes, as who started it sees it.
func wall(p *place, o options) error {
	s, err := p.newStore()
	if err != nil {
		return err
	}
	links, err := p.links(s)
	if err != nil {
		return err
	}
	file := filepath.Join(p.dir, "script")
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		return err
	}
	plain := []*contender{{name: "true", make: func() *exec.Cmd { return p.command("/bin/true") }},
		{name: "flock -n", make: func() *exec.Cmd { return p.command("flock", "-n", p.dir+"/flock", "/bin/true") }}}
	etcd, err := p.etcd()
	if err != nil {
		return err
	}
	if etcd != nil {
		plain = append(plain, etcd)
	}
	if cronlock := p.cronlock(s); cronlock != nil {
		plain = append(plain, cronlock)
	}
	all := plain
	for _, l := range links {
		all = append(all, &contender{name: "run", make: func() *exec.Cmd { return p.next(l.url, "bench") }},
			&contender{name: "loser", make: func() *exec.Cmd { return p.slot(l.url, "bench") }},
			&contender{name: "two redis-cli", make: func() *exec.Cmd { return p.command(file, l.cli...) }})
	}
	if _, err := timed(p.next(s.url(), "bench")); err != nil { // the job's first run puts it on the list of jobs
		return err
	}
	if err := race(o.rounds, all); err != nil {
		return err
	}
	printWall(plain, links, all[len(plain):])
	return nil
}

func printWall(plain []*contender, links []link, rest []*contender) {
	title("wall time, medians")
	of := map[string]time.Duration{}
	for _, c := range plain {
		of[c.name] = median(c.took)
		row(c.name, ms(of[c.name]), "ms", 0)
	}
	for i, l := range links {
		fmt.Printf(" %s\n", l.name)
		run, loser, cli := median(rest[3*i].took), median(rest[3*i+1].took), median(rest[3*i+2].took)
		row("run", ms(run), "ms", 0)
		row("loser", ms(loser), "ms", 0)
		row("two redis-cli", ms(cli), "ms", 0)
		row("run / two redis-cli", ms(run)/ms(cli), "", 0.6)
		row("loser / run", ms(loser)/ms(run), "", 0.7)
		if i > 0 {
			continue
		}
		row("run / flock", ms(run)/ms(of["flock -n"]), "", 2.4)
		for _, c := range plain[2:] { // those that are not everywhere
			row("run / "+c.name, ms(run)/ms(of[c.name]), "", map[string]float64{"etcdctl lock": 0.25, "cronlock": 0.06}[c.name])
		}
	}
}

// etcd starts an etcd; nil where there is none.
func (p *place) etcd() (*contender, error) {
	for _, name := range []string{"etcd", "etcdctl"} {
		if _, err := exec.LookPath(name); err != nil {
			fmt.Printf("no %s: left out; scripts/setup bench installs it\n", name)
			return nil, nil
		}
	}
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	peer, err := ports.Free()
	if err != nil {
		return nil, err
	}
	url, peers := fmt.Sprint("http://127.0.0.1:", port), fmt.Sprint("http://127.0.0.1:", peer)
	if err := p.start(exec.Command("etcd", "--data-dir", p.dir+"/etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)); err != nil {
		return nil, err
	}
	lock := func() *exec.Cmd { return p.command("etcdctl", "--endpoints="+url, "lock", "bench", "/bin/true") }
	return &contender{name: "etcdctl lock", make: lock}, p.await("etcd", func() bool { return lock().Run() == nil })
}

// cronlock takes a lock that nobody has; nil where there is none.
func (p *place) cronlock(s *store) *contender {
	if _, err := exec.LookPath("cronlock"); err != nil {
		fmt.Println("no cronlock: left out; it is a script that somebody who wants it compared puts into PATH")
		return nil
	}
	return &contender{name: "cronlock", make: func() *exec.Cmd {
		p.day++
		cmd := p.command("cronlock", "/bin/true")
		cmd.Env = append(cmd.Env, "CRONLOCK_HOST=127.0.0.1", fmt.Sprint("CRONLOCK_PORT=", s.port), fmt.Sprint("CRONLOCK_KEY=", p.day))
		return cmd
	}}
}

// requests counts what goes over the wire.
func requests(p *place, o options) error {
	s, err := p.newStore()
	if err != nil {
		return err
	}
	r, err := newRelay(s.port, 0)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("redis://127.0.0.1:%d/0", r.port())
	title("requests, the handshake included")
	for _, c := range []struct {
		name   string
		cold   bool
		make   func(url, job string) *exec.Cmd
		target float64
	}{{"a job's first run", true, p.next, 0}, {"run, warm", false, p.next, 3}, {"run, cold", true, p.next, 3}, {"loser, warm", false, p.slot, 2},
		{"loser, cold", true, p.slot, 2}} {
		if c.cold {
			s.ScriptFlush(p.ctx)
		}
		r.count.Store(0)
		if _, err := timed(c.make(url, "bench")); err != nil {
			return err
		}
		row(c.name, float64(r.count.Load()), "", c.target)
	}
	return nil
}
