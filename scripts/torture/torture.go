//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A torture is one round: the controls, every nemesis alone, then pairs, until the time is up.
type torture struct {
	options
	root    string
	program string
	old     string
	weak    map[string]string // the controls' programs
	stage   *stage
	report  *report
	ctx     context.Context

	mu      sync.Mutex
	random  *rand.Rand
	scenes  int
	planned int
}

type options struct {
	lasts    time.Duration
	seed     string
	only     []string // titles
	kind     string
	controls bool
	brief    bool // every nemesis once, two controls
	verbose  bool
}

// run does the round.
func run(ctx context.Context, o options) (*report, error) {
	t := &torture{options: o, weak: map[string]string{}, report: newReport(), random: newRandom(o.seed), ctx: ctx}
	dir, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return nil, err
	}
	os.Chmod(dir, 0o755)
	defer os.RemoveAll(dir)
	fast, err := os.MkdirTemp("/dev/shm", "torture-")
	if err != nil {
		fast = dir
	}
	defer os.RemoveAll(fast)
	defer t.close()
	if err := t.open(dir, fast); err != nil {
		return nil, err
	}
	t.report.seed = o.seed
	began := time.Now()
	if err := t.playAll(began); err != nil {
		return nil, err
	}
	t.report.took, t.report.whole = time.Since(began), !t.brief && len(t.only) == 0 && t.kind == ""
	t.report.judgeItself()
	t.report.sort()
	return t.report, nil
}

// open builds what is tortured, and starts the judge.
func (t *torture) open(dir, fast string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t.stage = &stage{dir: dir, fast: fast, self: self, seed: t.seed, logf: t.logf, scenes: map[int]*scene{}}
	if t.root, err = repository(); err != nil {
		return err
	}
	t.program = filepath.Join(dir, "onceonly")
	if err := buildFrom(t.root, t.program); err != nil {
		return err
	}
	if t.old, t.report.mixed, err = buildOld(t.root, dir); err != nil {
		return err
	}
	for _, c := range t.chosen() { // all at once, of the same tree
		if err := c.build(t); err != nil {
			return err
		}
	}
	if t.stage.judge, err = newJudge(filepath.Join(dir, "judge")); err != nil {
		return err
	}
	if t.stage.hook, err = newHook(dir, t.stage.heard); err != nil {
		return err
	}
	if t.stage.shim, err = newShim(dir); err != nil {
		t.stage.shim = nil
		t.report.skipped = append(t.report.skipped, "N8: "+err.Error())
		if os.Getenv("CI") == "true" {
			t.report.failed = append(t.report.failed, "N8: no compiler")
		}
	}
	t.probe()
	redis, _ := exec.Command("redis-server", "--version").Output() // Redis server v=7.0.15 …
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	_, rest, _ := strings.Cut(string(redis), "v=")
	t.report.versions = fmt.Sprintf("onceonly %s, Redis %s, PostgreSQL %s, Linux %s", commit(t.root),
		strings.Join(strings.Fields(rest)[:min(1, len(rest))], ""), t.stage.judge.version(), strings.TrimSpace(string(kernel)))
	return nil
}

// probe notes what this machine has not for hosts.
func (t *torture) probe() {
	n, m := newNamespace("probe"), newMemory(fmt.Sprintf("torture-%d-probe", os.Getpid()))
	if n == nil {
		t.report.skipped = append(t.report.skipped, "a network and a name of each host's own: not allowed here")
	}
	if m == nil {
		t.report.skipped = append(t.report.skipped, "N10: memory: control groups are not to be had here")
	}
	n.close()
	m.remove()
}

func (t *torture) close() {
	if t.stage == nil {
		return
	}
	if t.stage.hook != nil {
		t.stage.hook.stop()
	}
	if t.stage.judge != nil {
		t.stage.judge.stop()
	}
}

func (t *torture) logf(format string, args ...any) {
	if t.verbose {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
}

// playAll plays the controls, then scene after scene, some at a time.
func (t *torture) playAll(began time.Time) error {
	var jobs []func() error
	for _, c := range t.chosen() {
		jobs = append(jobs, func() error { return t.playControl(c) })
	}
	at := 2
	if t.brief {
		at = 3
	}
	var workers sync.WaitGroup
	errs := make(chan error, at)
	for range at {
		workers.Go(func() { errs <- t.work(began, &jobs) })
	}
	workers.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return t.ctx.Err()
}

// work does one job after the other, and then plays scenes until the time is up.
func (t *torture) work(began time.Time, jobs *[]func() error) error {
	for t.ctx.Err() == nil {
		t.mu.Lock()
		var job func() error
		if len(*jobs) > 0 {
			job, *jobs = (*jobs)[0], (*jobs)[1:]
		}
		t.mu.Unlock()
		if job != nil {
			if err := job(); err != nil {
				return err
			}
			continue
		}
		p := t.plan()
		if p == nil || time.Since(began) > t.lasts && (!t.brief || len(t.only) > 0) {
			return nil
		}
		v, err := t.playOne(p)
		t.mu.Lock()
		if err == nil {
			t.report.take(v)
		} else { // the rest is worth its report
			t.report.failed = append(t.report.failed, fmt.Sprintf("scene %d, %s, %s: %v", p.number, p.title(), p.kind, err))
		}
		t.mu.Unlock()
	}
	return t.ctx.Err()
}

// chosen are the controls to try.
func (t *torture) chosen() []control {
	switch {
	case !t.controls:
		return nil
	case t.brief:
		return []control{controls[0], controls[4]}
	}
	return controls
}

// playControl notes whether one was caught.
func (t *torture) playControl(c control) error {
	said, err := t.tryControl(c, max(t.lasts/10, 2*time.Minute))
	if t.ctx.Err() != nil {
		return t.ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.report.failed = append(t.report.failed, err.Error())
		said = "NOT CAUGHT"
	}
	t.report.controls = append(t.report.controls, fmt.Sprintf("%-30s %s", c.name, said))
	t.logf("control %s: %s", c.name, said)
	return nil
}

// playOne plays one scene.
func (t *torture) playOne(p *plan) (*verdict, error) {
	t.mu.Lock()
	t.scenes++
	p.number, p.hosts, p.jobs = t.scenes, 4, 8
	t.mu.Unlock()
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	s, err := t.stage.newScene(p)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	v, err := s.play(t.ctx)
	if err == nil {
		t.logf("s%d %s on %s: %v, %d calls, %d runs, %d faulted, %d violations", p.number, p.title(), p.kind,
			time.Since(began).Round(time.Second), v.figures.asks, v.figures.runs, v.figures.faulted, len(v.violations))
	}
	return v, err
}
