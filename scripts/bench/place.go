//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"onceonly/scripts/ports"
	"onceonly/scripts/redisserver"
)

const patience = 30 * time.Second // for a server to answer, and for whatever is waited for

// A place is a temporary directory with the binary, and servers of its own.
type place struct {
	ctx     context.Context
	dir     string
	program string
	servers []*exec.Cmd
	cancel  context.CancelFunc
	running sync.WaitGroup // what would outlive us
	day     int            // the slots used so far
}

func newPlace(ctx context.Context) (*place, error) {
	dir, err := os.MkdirTemp("", "onceonly-bench")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &place{ctx: ctx, cancel: cancel, dir: dir, program: filepath.Join(dir, "onceonly")}
	if err = p.build(); err == nil {
		err = os.WriteFile(filepath.Join(dir, "conf"), nil, 0o644)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// build builds the binary and installs it as make install does. How a file was written decides how it lies in memory, and
// with that how much of it is mapped, and how fast it starts: one that was just linked is no measure of what people run.
func (p *place) build() error {
	linked := p.program + ".linked"
	build := exec.CommandContext(p.ctx, "go", "build", "-trimpath", "-tags=urfave_cli_no_docs,urfave_cli_no_suggest", "-o", linked, "onceonly")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, cmd := range []*exec.Cmd{build, exec.CommandContext(p.ctx, "install", "-m", "755", linked, p.program)} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return nil
}

// start starts a server.
func (p *place) start(cmd *exec.Cmd) error {
	cmd.Dir, cmd.SysProcAttr = p.dir, &syscall.SysProcAttr{Setpgid: true} // ^C is ours
	if err := cmd.Start(); err != nil {
		return err
	}
	p.servers = append(p.servers, cmd)
	return nil
}

func (p *place) close() {
	p.cancel()
	p.running.Wait()
	for _, s := range p.servers {
		s.Process.Kill()
		s.Wait()
	}
	os.RemoveAll(p.dir)
}

// A store is a redis-server of our own.
type store struct {
	*redis.Client
	dir  string
	port int
}

func (s *store) url() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

func (p *place) newStore() (*store, error) {
	dir, err := os.MkdirTemp(p.dir, "redis")
	if err != nil {
		return nil, err
	}
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	if err := p.start(redisserver.Command(dir, port, "--maxclients", "4000")); err != nil {
		return nil, err
	}
	s := &store{redisserver.Client(dir), dir, port}
	return s, redisserver.Await(p.ctx, s.Client)
}

func (p *place) await(what string, there func() bool) error {
	for deadline := time.Now().Add(patience); !there(); time.Sleep(20 * time.Millisecond) {
		if p.ctx.Err() != nil || time.Now().After(deadline) {
			return errors.New(what + ": waited in vain")
		}
	}
	return nil
}

// command is a command that no setting of this machine has a say in.
func (p *place) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TZ=UTC", "HOME=" + p.dir, "ONCEONLY_CONFIG=" + p.dir + "/conf",
		"ONCEONLY_STATE_DIR=" + p.dir + "/state", "ETCDCTL_API=3"}
	return cmd
}

// onceonly is a call of the binary by some host.
func (p *place) onceonly(url, host string, args ...string) *exec.Cmd {
	cmd := p.command(p.program, args...)
	cmd.Env = append(cmd.Env, "ONCEONLY_REDIS="+url, "ONCEONLY_HOST="+host)
	return cmd
}

// slot asks for the newest slot of a job that was used; next makes it a fresh one.
func (p *place) slot(url, job string) *exec.Cmd {
	date := time.Date(2000, 1, 1+p.day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	return p.onceonly(url, "web-1", "run", "--job", job, "--date", date, "--", "/bin/true")
}

func (p *place) next(url, job string) *exec.Cmd {
	p.day++
	return p.slot(url, job)
}

// timed runs a command, and returns how long it took.
func timed(cmd *exec.Cmd) (time.Duration, error) {
	var out bytes.Buffer
	cmd.Stderr = &out
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out.String())
	}
	return time.Since(began), nil
}
