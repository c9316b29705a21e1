package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	t := &torture{options: o, report: newReport(), random: newRandom(o.seed), ctx: ctx}
	dir, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return nil, err
	}
	os.Chmod(dir, 0o755)
	defer os.RemoveAll(dir)
	defer t.close()
	if err := t.open(dir); err != nil {
		return nil, err
	}
	t.report.seed = o.seed
	began := time.Now()
	if err := t.playAll(began); err != nil {
		return nil, err
	}
	t.report.took = time.Since(began)
	t.report.sort()
	return t.report, nil
}

// open builds what is tortured, and starts the judge.
func (t *torture) open(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t.stage = &stage{dir: dir, self: self, seed: t.seed, logf: t.logf, scenes: map[int]*scene{}}
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
	redis, _ := exec.Command("redis-server", "--version").Output() // Redis server v=7.0.15 …
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	_, rest, _ := strings.Cut(string(redis), "v=")
	t.report.versions = fmt.Sprintf("onceonly %s, Redis %s, PostgreSQL %s, Linux %s", commit(t.root),
		strings.Join(strings.Fields(rest)[:min(1, len(rest))], ""), t.stage.judge.version(), strings.TrimSpace(string(kernel)))
	return nil
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
	if t.controls {
		for _, c := range t.chosen() {
			jobs = append(jobs, func() error { return t.playControl(c) })
		}
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
		if p == nil || (!t.brief && time.Since(began) > t.lasts) {
			return nil
		}
		v, err := t.playOne(p)
		if err != nil {
			return fmt.Errorf("scene %d, %s, %s: %w", p.number, p.title(), p.kind, err)
		}
		t.mu.Lock()
		t.report.take(v)
		t.mu.Unlock()
	}
	return t.ctx.Err()
}

// plan is the next scene's, nil if there is none.
func (t *torture) plan() *plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	title, more := t.next(t.planned)
	if !more {
		return nil
	}
	t.planned++
	p := &plan{kind: t.topology(title), nemeses: strings.Split(title, "+"), lasts: 12 * time.Second, program: t.program,
		brief: t.brief, mood: pick(t.random, "", "", quarrelsome, tedious)}
	switch {
	case t.brief:
		p.lasts = 6 * time.Second
	case p.kind == sentinel:
		p.lasts = 20 * time.Second
	}
	if slices.Contains(p.nemeses, "N11") {
		p.old = t.old
	}
	return p
}

// chosen are the controls to try.
func (t *torture) chosen() []control {
	if t.brief {
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

// next is the title of the n-th scene: each nemesis alone, and then pairs by lot.
func (t *torture) next(n int) (string, bool) {
	if len(t.only) > 0 {
		return t.only[n%len(t.only)], true
	}
	var singles []string
	for _, x := range nemeses {
		if x.name != "N8" || t.stage.shim != nil {
			singles = append(singles, x.name)
		}
	}
	if n < len(singles) {
		return singles[n], true
	}
	for !t.brief {
		a, b := pick(t.random, singles...), pick(t.random, singles...)
		if a < b && len(t.possible(a+"+"+b)) > 0 {
			return a + "+" + b, true
		}
	}
	return "", false
}

// possible are the topologies that all nemeses of a title can have.
func (t *torture) possible(title string) (all []string) {
	for _, kind := range kinds {
		fits := true
		for _, name := range strings.Split(title, "+") {
			n := nemesisNamed(name)
			fits = fits && n != nil && (n.kinds == nil || slices.Contains(n.kinds, kind))
		}
		if fits {
			all = append(all, kind)
		}
	}
	return all
}

func (t *torture) topology(title string) string {
	all := t.possible(title)
	switch {
	case t.kind != "":
		return t.kind
	case len(all) == 0:
		return alone
	case t.brief && len(all) == len(kinds): // Sentinels take their time; N6 has them
		return pick(t.random, alone, appended, cluster)
	}
	return pick(t.random, all...)
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
