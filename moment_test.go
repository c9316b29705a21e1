package main

import (
	"net"
	"testing"
	"time"
)

// Faults in time. Here, and not in what waits for a fact, a time that passes is what a test is given.

// strikeAfter lets d pass before a fault strikes. It waits for nothing: what is promised holds at whatever moment that is,
// so the moment is an input, mostly drawn by lot, and too early or too late is one more moment that must come out right.
// Where a test would show nothing if all of them met the same step, it counts afterwards what they met.
func strikeAfter(d time.Duration) { time.Sleep(d) }

// lasting makes a fault that is over after d. How long an outage is, is what its case is about: users gave the number, or
// the lease sets it. Nothing could be waited for instead, for what ends the fault is this.
func lasting(d time.Duration, begin, end func()) {
	begin()
	time.Sleep(d)
	end()
}

// serveAll answers every connection in its own way, until the test is over. It returns the address.
func serveAll(t *testing.T, l net.Listener, serve func(net.Conn)) string {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { serve(c); c.Close() }()
		}
	}()
	return l.Addr().String()
}
