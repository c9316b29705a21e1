package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A fleet is hosts that share a ledger. All are this machine; ONCEONLY_HOST tells them apart.
type fleet struct {
	ctx     context.Context
	dir     string // their PATH begins here
	ledger  *ledger
	started []*process
}

// A process is one command line on one host.
type process struct {
	host     string
	cmd      *exec.Cmd
	out, err output
	screen   output // both, in the order in which a terminal would show them
	status   int
	ended    chan struct{}
}

// start says the command line as its user would have typed it, and starts it. No host inherits a setting of this
// machine. Its stdin is no terminal, as under cron.
func (f *fleet) start(host, line string) (*process, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	fmt.Printf("%s$ %s\n", host, line)
	words := strings.Fields(line)
	p := &process{host: host, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(f.ctx, filepath.Join(f.dir, words[0]), words[1:]...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = patience
	p.cmd.Env = []string{"PATH=" + f.dir + ":" + os.Getenv("PATH"), "TZ=UTC", "HOME=" + f.dir, "ONCEONLY_HOST=" + host,
		"ONCEONLY_CONFIG=" + filepath.Join(f.dir, "onceonly.conf"), "ONCEONLY_REDIS=" + f.ledger.url,
		"ONCEONLY_NAMESPACE=" + f.ledger.namespace}
	p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(&p.out, &p.screen), io.MultiWriter(&p.err, &p.screen)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	f.started = append(f.started, p)
	go p.reap()
	return p, nil
}

// reap waits until the process is gone, and all that writes where it wrote: its command too.
func (p *process) reap() {
	p.cmd.Wait()
	p.status = p.cmd.ProcessState.ExitCode()
	close(p.ended)
}

func (p *process) wait() { <-p.ended }

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) stdout() string { return p.out.String() }

func (p *process) stderr() string { return p.err.String() }

// reach waits until the command has written text.
func (p *process) reach(text string) error {
	for deadline := time.Now().Add(patience); !strings.Contains(p.stdout(), text); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.ended:
			p.show("")
			return fmt.Errorf("ended with status %d before it wrote %q", p.status, text)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("never wrote %q", text)
		}
	}
	fmt.Print(p.stdout())
	return nil
}

// kill ends onceonly as no program can prevent, and sees that its command ends with it.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	limit := lease
	if runtime.GOOS != "linux" { // there the command goes on to its own end
		limit = patience
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("the command of %s outlives its onceonly", p.host)
	}
}

// show prints what the process left, each line behind prefix, and what cannot be seen in it: its status, its silence.
func (p *process) show(prefix string) {
	screen := p.screen.String()
	for line := range strings.Lines(screen) {
		fmt.Print(prefix + line)
	}
	switch {
	case screen == "":
		fmt.Printf("%s(exit %d, silent)\n", prefix, p.status)
	case p.status != 0:
		fmt.Printf("%s(exit %d)\n", prefix, p.status)
	}
}

// leaseOver waits until nobody holds the job.
func (f *fleet) leaseOver(job string) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		held, err := f.ledger.held(f.ctx, job)
		if err != nil || !held {
			return err
		}
		if err := sleep(f.ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the lease of %s does not run out", job)
}

// clear leaves no process behind, however the demo ends.
func (f *fleet) clear() {
	for _, p := range f.started {
		p.cmd.Process.Signal(os.Interrupt)
		p.wait()
	}
}

// An output is what a process has written so far.
type output struct {
	sync.Mutex
	bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.Write(b)
}

func (o *output) String() string {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.String()
}
