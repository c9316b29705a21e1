package main

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	heldAtMost = 64 << 10         // bytes
	heardAfter = 10 * time.Second // at the end, who is to be heard waits no longer
	takenWhole = 4096             // bytes: a pipe that takes something takes as many
)

// A descriptor is written to past os.Stderr, which would have onceonly killed by SIGPIPE where nobody reads its messages,
// and its command with it. Nor does it wait for who does not read on, or has typed ^S: renewals would wait too. What is not
// taken at once is held and written later.
type descriptor struct {
	fd      int
	mu      sync.Mutex
	held    []byte
	written chan struct{} // closed when nothing is held any more; nil while nothing is
}

func (d *descriptor) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written == nil && len(p) <= takenWhole && d.takes(0) {
		return unix.Write(d.fd, p)
	}
	if len(d.held)+len(p) <= heldAtMost {
		d.held = append(d.held, p...)
	}
	if d.written == nil {
		d.written = make(chan struct{})
		go d.drain()
	}
	return len(p), nil
}

// takes says whether something can be written, or never will be: the error then says so. It waits for that, in ms, for ever
// if that is negative.
func (d *descriptor) takes(wait int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLOUT}}, wait)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}

// drain writes what is held, as it is taken.
func (d *descriptor) drain() {
	for {
		d.takes(-1)
		d.mu.Lock()
		part := d.held[:min(len(d.held), takenWhole)]
		d.mu.Unlock()
		n, err := unix.Write(d.fd, part)
		d.mu.Lock()
		if d.held = d.held[max(n, 0):]; err != nil && err != unix.EINTR && err != unix.EAGAIN {
			d.held = nil
		}
		if len(d.held) == 0 {
			close(d.written)
			d.written = nil
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
	}
}

// rest waits until what is held is written, for a while.
func (d *descriptor) rest() {
	d.mu.Lock()
	written := d.written
	d.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-time.After(heardAfter):
	}
}
