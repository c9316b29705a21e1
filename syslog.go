package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Syslog's numbers, as every system has them.
const (
	facilityCron = 9 << 3
	logWarning   = facilityCron | 4 // what a person should know
	logInfo      = facilityCron | 6 // what is normal
)

// logSocket is where syslog listens.
var logSocket = "/dev/log"

// logLine gives one line to syslog. It opens the socket anew each time, for syslog may be started anew while a command
// runs, and waits for nothing: one that is full or hangs does not get the line.
func logLine(normal bool, text string) error {
	priority := logWarning
	if normal {
		priority = logInfo
	}
	line := fmt.Sprintf("<%d>%s onceonly[%d]: %s", priority, time.Now().Format(time.Stamp), os.Getpid(), text)
	err := sendTo(unix.SOCK_DGRAM, line)
	if err == unix.EPROTOTYPE {
		err = sendTo(unix.SOCK_STREAM, line+"\x00")
	}
	return err
}

func sendTo(kind int, line string) error {
	syscall.ForkLock.RLock() // the command does not inherit it
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: logSocket}); err != nil {
		return err
	}
	n, err := unix.Write(fd, []byte(line))
	if err == nil && n < len(line) {
		err = unix.EAGAIN
	}
	return err
}
