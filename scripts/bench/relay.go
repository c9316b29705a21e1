//go:build linux

package main

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"onceonly/scripts/resp"
)

// A relay is a link to a server that delays what it carries, and counts the requests.
type relay struct {
	net.Listener
	target string
	delay  time.Duration // each way
	count  atomic.Int64
	last   atomic.Pointer[[]byte] // request
}

func newRelay(port int, delay time.Duration) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{Listener: l, target: "127.0.0.1:" + strconv.Itoa(port), delay: delay}
	go r.accept()
	return r, nil
}

func (r *relay) port() int { return r.Addr().(*net.TCPAddr).Port }

func (r *relay) accept() {
	for {
		client, err := r.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		in, out := bufio.NewReader(client), bufio.NewReader(server)
		// The kernel connects at once; over such a link it would take a round trip.
		go r.carry(server, time.Now().Add(2*r.delay), func() ([]byte, error) {
			raw, _, err := resp.Read(in)
			if err == nil {
				r.count.Add(1)
				r.last.Store(&raw)
			}
			return raw, err
		})
		go r.carry(client, time.Now(), func() ([]byte, error) {
			raw, _, err := resp.Read(out)
			return raw, err
		})
	}
}

// A parcel is on its way until it is due.
type parcel struct {
	raw []byte
	due time.Time
}

// carry hands over each value when it is due, however many are under way.
func (r *relay) carry(to io.WriteCloser, earliest time.Time, read func() ([]byte, error)) {
	way := make(chan parcel, 1000)
	go func() {
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.due))
			to.Write(p.raw)
		}
	}()
	defer close(way)
	for {
		raw, err := read()
		if err != nil {
			return
		}
		from := time.Now()
		if from.Before(earliest) {
			from = earliest
		}
		way <- parcel{raw, from.Add(r.delay)}
	}
}
