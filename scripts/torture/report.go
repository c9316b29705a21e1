//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A report is what a whole round has shown.
type report struct {
	seed, versions, mixed string
	took                  time.Duration
	titles                []string // in the order in which they came
	figures               map[string]*figures
	broken                map[string]map[string]int // title -> invariant -> violations
	excused               map[string]int            // invariant -> outside the promise
	examples              []string
	controls              []string // what became of each
	failed                []string // controls not caught, and what else makes the round void
	skipped               []string
	whole                 bool // every nemesis on every topology: then nothing may be missing
}

func newReport() *report {
	return &report{figures: map[string]*figures{}, broken: map[string]map[string]int{}, excused: map[string]int{}}
}

// take adds a scene.
func (r *report) take(v *verdict) {
	title := v.scene.title()
	if r.figures[title] == nil {
		r.titles = append(r.titles, title)
		r.figures[title], r.broken[title] = &figures{}, map[string]int{}
	}
	r.figures[title].add(v.figures)
	for _, x := range v.violations {
		r.broken[title][x.invariant]++
		if len(r.examples) < 40 {
			r.examples = append(r.examples, fmt.Sprintf("%s %s (scene %d): %s", x.invariant, title, v.scene.number, x.text))
		}
	}
	for name, n := range v.excused {
		r.excused[name] += n
	}
}

func (r *report) violations() (n int) {
	for _, by := range r.broken {
		for _, k := range by {
			n += k
		}
	}
	return n
}

// print writes the report.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "Torture of onceonly: seed %s, %v\n%s\n", r.seed, r.took.Round(time.Second), r.versions)
	if r.mixed != "" {
		fmt.Fprintf(w, "N11 mixes in: %s\n", r.mixed)
	}
	r.printNemeses(w)
	r.printLegend(w)
	r.printSteps(w)
	r.printInvariants(w)
	for _, list := range []struct {
		title string
		lines []string
	}{{"Controls", r.controls}, {"Violations", r.examples}, {"Left out", r.skipped}, {"Void", r.failed}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(w, "\n%s\n", list.title)
			for _, line := range list.lines {
				fmt.Fprintf(w, "  %s\n", line)
			}
		}
	}
	fmt.Fprintf(w, "\n%s\n", r.verdict())
}

// void says whether the round proves nothing.
func (r *report) void() bool { return len(r.failed) > 0 || len(r.titles) == 0 }

func (r *report) wrong() bool { return r.void() || r.violations() > 0 }

func (r *report) verdict() string {
	switch {
	case r.void():
		return "VOID: the torture itself has failed"
	case r.violations() > 0:
		return fmt.Sprintf("FAILED: %d violations", r.violations())
	}
	if len(r.controls) == 0 {
		return "PASSED: no violation was found; no control was tried"
	}
	return "PASSED: no violation was found, and every control that was tried was caught"
}

// printNemeses has one row for each nemesis and pair, and one for all.
func (r *report) printNemeses(w io.Writer) {
	fmt.Fprintf(w, "\n%-17s %5s %6s %6s %6s %5s %5s %5s %6s %-17s %5s %5s\n", "", "", "", "", "uncer-", "viol-", "stale", "over-",
		"", "takeover", "false", "")
	fmt.Fprintf(w, "%-17s %5s %6s %6s %6s %5s %5s %5s %6s %-17s %5s %5s\n", "nemesis", "calls", "runs", "fault", "tain",
		"ation", "write", "laps", "max", "median 99% worst", "stops", "stall")
	all := &figures{}
	for _, title := range r.titles {
		all.add(*r.figures[title])
		n := 0
		for _, k := range r.broken[title] {
			n += k
		}
		r.printRow(w, title, r.figures[title], n)
	}
	r.printRow(w, "all", all, r.violations())
	percent := func(n int) float64 { return 100 * float64(n) / float64(max(all.slots, 1)) }
	fmt.Fprintf(w, "\n%d slots, %.1f%% done before they were asked for again, %.2f%% uncertain; %d stale ends; "+
		"%d questions linearizable, %d histories undecided\n", all.slots, percent(all.inTime), percent(all.uncertain), all.stale,
		all.linear, all.undecided)
	fmt.Fprintf(w, "median, 99%%, worst: overlaps %s, of these %d without a guard %s; from a command's end to that in the ledger %s\n",
		spread(all.overlaps), len(all.unguarded), spread(all.unguarded), spread(all.delays))
}

// printLegend says what the nemeses are, and how often each has taken effect.
func (r *report) printLegend(w io.Writer) {
	fmt.Fprintln(w)
	for _, n := range nemeses {
		if r.played(n) {
			fmt.Fprintf(w, "%-9s %-45s %6d faults took effect\n", n.name, n.what, r.acts(n))
		}
	}
}

func (r *report) played(n *nemesis) bool {
	return slices.ContainsFunc(r.titles, func(t string) bool { return slices.Contains(strings.Split(t, "+"), n.name) })
}

func (r *report) acts(n *nemesis) (all int) {
	for _, f := range r.figures {
		all += f.acts[n.name]
	}
	return all
}

func (r *report) hits(step string) (all int) {
	for _, f := range r.figures {
		all += f.hits[step]
	}
	return all
}

// judgeItself finds what makes the round prove nothing: a nemesis that never took effect, a check that had nothing to
// look at, in a whole round no write that the fence refused, and in one of an hour a step that was hardly ever hit.
func (r *report) judgeItself() {
	void := func(format string, args ...any) { r.failed = append(r.failed, fmt.Sprintf(format, args...)) }
	all := &figures{}
	for _, f := range r.figures {
		all.add(*f)
	}
	for _, n := range nemeses {
		if r.played(n) && r.acts(n) == 0 {
			void("%s never took effect", n.name)
		}
	}
	if all.runs == 0 || all.slots == 0 || all.writes == 0 {
		void("%d runs, %d slots, %d writes: nothing to judge", all.runs, all.slots, all.writes)
	}
	if !r.whole {
		return
	}
	if all.linear == 0 || all.refused == 0 {
		void("%d questions linearizable, %d stale writes refused: too kind", all.linear, all.refused)
	}
	for _, step := range steps {
		if n := r.hits(step); n < leastHits && r.took >= time.Hour {
			void("%d kills at %q, want %d", n, step, leastHits)
		}
	}
}

const leastHits = 30 // at each step of a run, in an hour

func (r *report) printRow(w io.Writer, title string, f *figures, violations int) {
	fmt.Fprintf(w, "%-17s %5d %6d %6d %6d %5d %5d %5d %6s %-17s %5d %5d\n", title, f.asks, f.runs, f.faulted, f.uncertain,
		violations, f.refused, len(f.overlaps), short(quantile(f.overlaps, 1)), spread(f.takeovers), f.falseStops, f.stalled)
}

// spread is the median, the 99th of a hundred, and the worst.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %.1f %.1f s", quantile(all, 0.5).Seconds(), quantile(all, 0.99).Seconds(), quantile(all, 1).Seconds())
}

func short(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

// printSteps says how often something was killed at each step of a run.
func (r *report) printSteps(w io.Writer) {
	fmt.Fprintf(w, "\nkill -9 at\n")
	for _, step := range steps {
		fmt.Fprintf(w, "  %-32s %5d\n", step, r.hits(step))
	}
}

// printInvariants gives for each the bound that its zero stands for: with n faulted runs and no violation, fewer than
// 3/n of them break it, at 95 %.
func (r *report) printInvariants(w io.Writer) {
	faulted := 0
	for _, f := range r.figures {
		faulted += f.faulted
	}
	fmt.Fprintf(w, "\ninvariant%60s %8s %8s %9s\n", "", "violated", "excused", "below")
	for _, i := range invariants {
		n := 0
		for _, by := range r.broken {
			n += by[i.name]
		}
		bound := "-"
		if n == 0 && faulted > 0 {
			bound = fmt.Sprintf("%.4f%%", 300/float64(faulted))
		}
		fmt.Fprintf(w, "%-4s %-64s %8d %8d %9s\n", i.name, i.what, n, r.excused[i.name], bound)
	}
}

// titles sorted for people: one nemesis before two.
func (r *report) sort() {
	slices.SortStableFunc(r.titles, func(a, b string) int { return strings.Count(a, "+") - strings.Count(b, "+") })
}
