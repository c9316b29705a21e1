package main

import "golang.org/x/sys/unix"

func bootNow() boot {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // a kernel without it is older than Go supports
	}
	return boot(t.Nano())
}
