// Demo shows onceonly on a few hosts, all of them this machine: a host is a name in ONCEONLY_HOST. It says every
// command before it runs it, and ends with status 1 if what happens is not what it says.
//
//	demo ./onceonly    with a Redis inside this program, or the one in ONCEONLY_REDIS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	lease    = 2 * time.Second  // of the backup: how soon its dead host is noticed
	patience = 30 * time.Second // for whatever is waited for
	longest  = time.Minute      // more than a demo takes: it must not begin on one day and end on the next
)

// The two jobs. The backup takes longer than its lease, so that the lease is renewed before the eyes of who watches.
var programs = map[string]string{
	"invoice": `#!/bin/sh
sleep 1
echo "sent the invoices of $ONCEONLY_BUSINESS_DATE, fencing token $ONCEONLY_FENCING_TOKEN"
`,
	"backup": `#!/bin/sh
echo "copying, attempt $ONCEONLY_ATTEMPT"
exec sleep 5
`,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo ONCEONLY")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // where nobody reads on, it clears up all the same
	if err := demo(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, onceonly string) error {
	dir, err := os.MkdirTemp("", "onceonly-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := equip(dir, onceonly); err != nil {
		return err
	}
	l, err := openLedger(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := awayFromMidnight(ctx); err != nil {
		return err
	}
	f := &fleet{ctx: ctx, dir: dir, ledger: l}
	defer f.clear()
	for _, scene := range []func() error{f.night, f.late, f.death, f.uncertain, f.takeover, f.status} {
		if err := scene(); err != nil {
			if ctx.Err() != nil { // explains all that went wrong since
				return errors.New("interrupted")
			}
			return err
		}
	}
	return nil
}

// equip puts what the hosts have on their PATH into dir: onceonly and the two jobs. The configuration is an empty file,
// for that of this machine would have a say otherwise.
func equip(dir, onceonly string) error {
	binary, err := filepath.Abs(onceonly)
	if err != nil {
		return err
	}
	if err := os.Symlink(binary, filepath.Join(dir, "onceonly")); err != nil {
		return err
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "onceonly.conf"), nil, 0o644)
}

// awayFromMidnight waits until a demo would not cross midnight, where a night's second half is another night.
func awayFromMidnight(ctx context.Context) error {
	now := time.Now().UTC()
	left := now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
	if left > longest {
		return nil
	}
	say("In %v it is midnight, UTC, and the next day has a slot of its own. Waiting for it.", left.Round(time.Second))
	return sleep(ctx, left)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func say(format string, args ...any) { fmt.Printf("\n# "+format+"\n", args...) }

// night: three hosts ask at once.
func (f *fleet) night() error {
	say("Three hosts have the same line in their crontab. At night all three ask.")
	var asked []*process
	for _, host := range []string{"web-1", "web-2", "web-3"} {
		p, err := f.start(host, "onceonly run -- invoice")
		if err != nil {
			return err
		}
		asked = append(asked, p)
	}
	ran := 0
	for _, p := range asked {
		p.wait()
		p.show(p.host + ": ")
		if p.status != 0 || p.stderr() != "" {
			return fmt.Errorf("%s: want status 0 and nothing on stderr, got %d", p.host, p.status)
		}
		if strings.HasPrefix(p.stdout(), "sent the invoices") {
			ran++
		}
	}
	if ran != 1 {
		return fmt.Errorf("%d hosts ran the command, want 1", ran)
	}
	return nil
}

// late: a host that was down asks hours later.
func (f *fleet) late() error {
	say("A fourth host was down then, and asks late. -v says what is silent in a crontab.")
	return f.expect("web-4", "onceonly run -v -- invoice", 0, "", `: not run: done on web-[123] at `)
}

// death: the holder of a lease is killed.
func (f *fleet) death() error {
	say("Another job: its host dies in the middle of it. --lease %v, so that nobody waits long here.", lease)
	holder, err := f.start("web-1", "onceonly run --lease 2s -- backup")
	if err != nil {
		return err
	}
	if err := holder.reach("copying, attempt 1"); err != nil {
		return err
	}
	if err := f.expect("web-2", "onceonly run -v -- backup", 0, "", `: not run: running on web-1:\d+ since `); err != nil {
		return err
	}
	fmt.Printf("web-1$ kill -9 %d    # onceonly itself\n", holder.pid())
	return holder.kill()
}

// uncertain: nobody guesses, and one host says so.
func (f *fleet) uncertain() error {
	say("Once the lease is over nobody holds the job, and nobody knows how far it came. So nobody guesses.")
	if err := f.leaseOver("backup"); err != nil {
		return err
	}
	err := f.expect("web-3", "onceonly run -- backup", 75, "", `: not run: uncertain: web-1:\d+ began at `)
	if err != nil {
		return err
	}
	say("It is told once in the fleet: the next host that asks is silent. The exit status says it to all.")
	if err := f.expect("web-4", "onceonly run -- backup", 75, "", ""); err != nil {
		return err
	}
	return f.expect("web-4", "onceonly status", 0, `(?m)^backup +\S+ +uncertain `, "")
}

// takeover: a second attempt is somebody's decision.
func (f *fleet) takeover() error {
	say("A backup may be begun anew: --attempts 2 says so, in the crontab or by hand.")
	return f.expect("web-2", "onceonly run --attempts 2 --lease 2s -- backup", 0, `copying, attempt 2`,
		`: taking over, attempt 2 of 2: web-1:\d+ not heard of for `)
}

// status: the ledger, as any host sees it.
func (f *fleet) status() error {
	say("What ran, where, when, how it ended: any host can tell.")
	return f.expect("web-3", "onceonly status", 0, `(?ms)^backup +\S+ +done +web-2 .*^invoice +\S+ +done +web-[123] `, "")
}

// expect runs one command line on a host and compares what it leaves: the status, and what stdout and stderr match. An
// empty pattern wants nothing there.
func (f *fleet) expect(host, line string, status int, stdout, stderr string) error {
	p, err := f.start(host, line)
	if err != nil {
		return err
	}
	p.wait()
	p.show("")
	switch {
	case p.status != status:
		return fmt.Errorf("want status %d, got %d", status, p.status)
	case !matches(stdout, p.stdout()):
		return fmt.Errorf("stdout is not like %q", stdout)
	case !matches(stderr, p.stderr()):
		return fmt.Errorf("stderr is not like %q", stderr)
	}
	return nil
}

func matches(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	return regexp.MustCompile(pattern).MatchString(text)
}
