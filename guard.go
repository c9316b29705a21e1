package main

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The guard is a second process that kills the command's group when onceonly itself cannot: it was killed, or it is
// frozen past the stop deadline. It holds one end of a pipe. Over it it is told each new deadline; that it closes without
// a farewell means that onceonly is gone.

const (
	guardAfter  = time.Second // a command that ends sooner is never guarded: starting a process costs more
	guardWaits  = 5 * time.Millisecond
	guardLeaves = 100 * time.Millisecond
	guardName   = "onceonly: guard" // argv[0] of the guard, as ps shows it
	mostUrgent  = -20               // nice, where it may: onceonly is mostly not, and the machine busy
	guardShort  = "guard"           // its short name: whoever kills all that is called onceonly is to leave it to its work
)

// A guard is onceonly's side of it.
type guard struct {
	process *os.Process
	mu      sync.Mutex
	pipe    *os.File // nil once the guard is dismissed
	ended   chan struct{}
}

// startGuard starts the guard of a process group, and tells it the first deadline.
func startGuard(group int, deadline boot) (*guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		write.Close()
		return nil, err
	}
	defer null.Close()
	// None of the command's streams: who reads them must see their end when the command has ended.
	process, err := os.StartProcess(ourselves(), []string{guardName, strconv.Itoa(group)}, &os.ProcAttr{Dir: "/",
		Env: []string{}, Files: []*os.File{null, null, null, read}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		write.Close()
		return nil, err
	}
	g := &guard{process: process, pipe: write, ended: make(chan struct{})}
	go func() {
		process.Wait()
		close(g.ended)
	}()
	g.tell(deadline)
	return g, nil
}

const spare = 8 // threads: more than ever wait at a time

// spareThreads starts threads that Go's runtime keeps: if it needed one later, and the command had left no room below the
// limit on processes, it would end onceonly.
func spareThreads() {
	var there, over sync.WaitGroup
	there.Add(spare)
	over.Add(1)
	for range spare {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there.Done()
			over.Wait()
		}()
	}
	there.Wait()
	over.Done()
}

// ourselves is the program that runs here, also when its file has been replaced meanwhile: the two sides of the pipe are to
// be of one version.
func ourselves() string {
	const running = "/proc/self/exe"
	if unix.Access(running, unix.X_OK) == nil {
		return running
	}
	program, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return program
}

// tell moves the deadline on. A guard that no longer reads, and so would act on an old one, is killed: another takes its
// place as if it had died.
func (g *guard) tell(deadline boot) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(guardWaits))
	if _, err := fmt.Fprintln(g.pipe, int64(deadline)); err != nil {
		g.process.Kill()
	}
}

// dismiss ends the guard. It comes before the command is reaped: afterwards the group's number may be somebody else's.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	g.tell(0)
	g.mu.Lock()
	g.pipe.Close()
	g.pipe = nil
	g.mu.Unlock()
	select { // it ends at once
	case <-g.ended:
	case <-time.After(guardLeaves):
		g.process.Kill()
		<-g.ended // or whoever inherits it would have to reap it, and may not
	}
}

// gone is closed when the guard has died; never, where there is none.
func (g *guard) gone() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.ended
}

// guardMain is the whole life of the guard process: argv[1] is the group. What was told before the deadline counts, also
// where the guard itself was held up and reads it later.
func guardMain(args []string) int {
	nameProcess(guardShort)
	runtime.LockOSThread() // a priority is a thread's
	unix.Setpriority(unix.PRIO_PROCESS, 0, mostUrgent)
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGTSTP)
	group, err := strconv.Atoi(args[1])
	if err != nil || group <= 1 {
		return exitUsage
	}
	const pipe = 3
	deadline, told := boot(math.MaxInt64), ""
	for buf := make([]byte, 512); ; {
		if !readable(pipe, deadline) {
			break
		}
		n, err := unix.Read(pipe, buf)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if n <= 0 { // its end: onceonly is gone
			break
		}
		for told += string(buf[:n]); ; {
			line, rest, whole := strings.Cut(told, "\n")
			if !whole {
				break
			}
			told = rest
			switch d, err := strconv.ParseInt(line, 10, 64); {
			case err != nil:
			case d == 0:
				return 0
			default:
				deadline = boot(d)
			}
		}
	}
	unix.Kill(-group, unix.SIGKILL)
	return 0
}
