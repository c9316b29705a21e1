//go:build linux

// Bench measures what onceonly costs, beside what else does the same, and beside what it is to cost.
//
//	go run ./scripts/bench [-rounds N] [-hold 1m] [-processes N] [-askers N] [-only wall,requests,hold,crowd,waiters,history]
//
// All that is compared is run in one sitting, in random order, and reported as medians and ratios. It measures and does
// not judge: a target that is missed is no failure, something that cannot be run is.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rounds, processes, askers int
	hold                      time.Duration
	only                      []string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 100, "how often each thing is run")
	flag.DurationVar(&o.hold, "hold", time.Minute, "how long holding and waiting are watched")
	flag.IntVar(&o.processes, "processes", 200, "how many processes ask, or wait, at once")
	flag.IntVar(&o.askers, "askers", 1000, "how many ask at one instant, those without a process too")
	only := flag.String("only", "", "these sections only")
	flag.Parse()
	o.askers = max(o.askers, o.processes)
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, o options) error {
	p, err := newPlace(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	for _, s := range []struct {
		name string
		run  func(*place, options) error
	}{{"wall", wall}, {"requests", requests}, {"hold", hold}, {"crowd", crowd}, {"waiters", waiters}, {"history", history}} {
		if o.only != nil && !slices.Contains(o.only, s.name) {
			continue
		}
		if err := s.run(p, o); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted")
			}
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func title(format string, args ...any) { fmt.Printf("\n"+format+"\n", args...) }

// row prints what was measured, and the most that it should be where there is a target.
func row(what string, measured float64, unit string, target float64) {
	fmt.Printf("  %-42s %9.2f %-5s", what, measured, unit)
	if target > 0 {
		verdict := "met"
		if measured > target {
			verdict = "missed"
		}
		fmt.Printf(" %7.2f %s", target, verdict)
	}
	fmt.Println()
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
