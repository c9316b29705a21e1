package main

import (
	"os"

	"golang.org/x/sys/unix"
)

func bootNow() boot {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // a kernel without it is older than Go supports
	}
	return boot(t.Nano())
}

// A bootTimer fires at an instant, at once if the machine slept through it; Go's own timers stand still in suspend.
type bootTimer struct {
	c    chan struct{}
	file *os.File
}

func newBootTimer() *bootTimer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		panic(err) // no descriptor left: nothing could be watched
	}
	t := &bootTimer{c: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "timer")}
	go func() {
		for buf := make([]byte, 8); ; {
			if _, err := t.file.Read(buf); err != nil {
				return
			}
			select {
			case t.c <- struct{}{}:
			default: // one is enough
			}
		}
	}()
	return t
}

// set moves the timer; an instant that is past fires at once.
func (t *bootTimer) set(at boot) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(at), 1))}
	raw, err := t.file.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
	}
}

func (t *bootTimer) stop() { t.file.Close() }
