//go:build linux

// Bench measures what onceonly costs, beside what else a crontab line could be wrapped in: everything in one sitting, in
// turn, in an order left to chance. It prints medians and ratios, and the targets beside them; it judges nothing, for the
// machine may be busy.
//
//	go run ./scripts/bench [-rounds 60] [-hold 10s]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// A bench has a folder, a redis-server of its own, and the onceonly that is measured.
type bench struct {
	ctx      context.Context
	dir      string
	onceonly string
	rounds   int
	hold     time.Duration
	socket   string // of redis-server
	port     int    // likewise
}

func main() {
	rounds := flag.Int("rounds", 60, "how often each command is run")
	hold := flag.Duration("hold", 10*time.Second, "how long a lease is held, to see what that costs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *rounds, *hold); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, rounds int, hold time.Duration) error {
	dir, err := os.MkdirTemp("", "onceonly-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{ctx: ctx, dir: dir, onceonly: filepath.Join(dir, "onceonly"), rounds: rounds, hold: hold,
		socket: filepath.Join(dir, "redis.sock")}
	if err := b.build(); err != nil {
		return err
	}
	end, err := b.serve()
	if err != nil {
		return err
	}
	defer end()
	for _, part := range []func() error{b.times, b.slowLinks, b.holding} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// build makes the binary that people get. It is copied: a file that the linker has just written is mapped in small pages,
// and starts more slowly.
func (b *bench) build() error {
	linked := filepath.Join(b.dir, "linked")
	cmd := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-tags", "urfave_cli_no_docs,urfave_cli_no_suggest", "-o", linked, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	text, err := os.ReadFile(linked)
	if err != nil {
		return err
	}
	return os.WriteFile(b.onceonly, text, 0o755)
}

// serve starts redis-server on a free port and a socket, and returns what ends it.
func (b *bench) serve() (end func(), err error) {
	if b.port, err = freePort(); err != nil {
		return nil, err
	}
	cmd := exec.Command("redis-server", "--port", fmt.Sprint(b.port), "--bind", "127.0.0.1", "--unixsocket", b.socket,
		"--save", "", "--dir", b.dir, "--logfile", filepath.Join(b.dir, "log"))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		switch _, err := os.Stat(b.socket); {
		case err == nil:
			return end, nil
		case time.Now().After(deadline):
			end()
			return nil, fmt.Errorf("redis-server: %w", err)
		}
	}
}
