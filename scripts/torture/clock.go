//go:build linux

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// A boot is an instant on CLOCK_BOOTTIME, ns. All processes here share one kernel, so it is a global clock, which a real
// cluster lacks: it is for judging only.
type boot int64

func bootNow() boot {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // a kernel without it is older than Go supports
	}
	return boot(t.Nano())
}

func (b boot) add(d time.Duration) boot { return b + boot(d) }

// sub is the time from a to b.
func (b boot) sub(a boot) time.Duration { return time.Duration(b - a) }

func since(b boot) time.Duration { return bootNow().sub(b) }

// never is the instant of what has not happened.
const never = boot(1 << 62)
