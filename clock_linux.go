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
	raw, err := t.file.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { setTimer(int(fd), at) })
	}
}

func (t *bootTimer) stop() { t.file.Close() }

func setTimer(fd int, at boot) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(at), 1))}
	unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// readable waits until there is something to read, or the end, and returns true; false if the instant comes before.
func readable(fd int, until boot) bool {
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC)
	if err != nil {
		panic(err) // no descriptor left: nothing could be watched
	}
	defer unix.Close(timer)
	setTimer(timer, until)
	either := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(timer), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(either, -1); err != unix.EINTR {
			return either[0].Revents != 0
		}
	}
}
