//go:build linux

package main

import (
	"bufio"
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"onceonly/scripts/resp"
)

// A relay is one connection of a host and its own to the server. It carries one RESP value at a time.
type relay struct {
	proxy          *proxy
	client, server net.Conn
	mu             sync.Mutex
	pending        []*request // what the server has still to answer
}

// up carries requests.
func (r *relay) up() {
	n := r.proxy.network
	defer r.close()
	for in := bufio.NewReader(r.client); ; {
		raw, words, err := resp.Read(in)
		if err != nil {
			return
		}
		q := parseRequest(words)
		q.host, q.received, q.raw, q.link = n.host, bootNow(), raw, r
		if q.kind == "other" && len(words) > 0 {
			q.state = strings.ToUpper(words[0])
		}
		switch n.watch.asked(q) {
		case lose:
			n.watch.settled(q)
			return
		case late:
			return
		}
		w := n.now()
		if w.delay > 0 {
			n.watch.acted(w.nemesis)
		}
		time.Sleep(w.delay)
		if w := n.now(); w.noRequests {
			n.watch.acted(w.nemesis)
			n.watch.settled(q)
			continue
		}
		r.mu.Lock()
		r.pending = append(r.pending, q)
		r.mu.Unlock()
		if _, err := r.server.Write(raw); err != nil {
			return
		}
	}
}

// down carries replies.
func (r *relay) down() {
	n := r.proxy.network
	defer r.close()
	for in := bufio.NewReader(r.server); ; {
		raw, words, err := resp.Read(in)
		if err != nil {
			r.abandon()
			return
		}
		q := r.next(raw[0] == '>')
		q.executed = bootNow()
		if q.kind != "other" {
			q.answer(raw, words)
		}
		raw = r.translate(q, raw)
		if n.watch.answered(q) == lose {
			n.watch.settled(q)
			return
		}
		time.Sleep(n.now().delay)
		switch w := n.now(); {
		case w.half:
			n.watch.acted(w.nemesis)
			r.client.Write(raw[:len(raw)/2])
			n.watch.settled(q)
			return
		case w.noReplies:
			n.watch.acted(w.nemesis)
		default: // an interface that is down may yet come up in time
			q.delivered = bootNow()
			r.client.Write(raw)
		}
		n.watch.settled(q)
	}
}

// next is the request that a value answers. A message to a subscriber answers none, and belongs to the subscription.
func (r *relay) next(message bool) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if message || len(r.pending) == 0 {
		return &request{kind: "other", state: "SUBSCRIBE"}
	}
	q := r.pending[0]
	if !strings.HasSuffix(q.state, "SUBSCRIBE") { // in RESP 2, all that follows are messages
		r.pending = r.pending[1:]
	}
	return q
}

// abandon settles what the server will never answer.
func (r *relay) abandon() {
	r.mu.Lock()
	pending := r.pending
	r.pending = nil
	r.mu.Unlock()
	for _, q := range pending {
		r.proxy.network.watch.settled(q)
	}
}

// translate puts the host's own ports in place of the servers' where a Sentinel or a cluster node tells of them: all
// have five digits. So a host cannot get past its proxies, also where it has no network of its own.
func (r *relay) translate(q *request, raw []byte) []byte {
	if q.state != "SENTINEL" && q.state != "CLUSTER" && !strings.HasSuffix(q.state, "SUBSCRIBE") {
		return raw
	}
	for target, port := range r.proxy.network.ports() {
		raw = bytes.ReplaceAll(raw, []byte(strconv.Itoa(target)), []byte(strconv.Itoa(port)))
	}
	return raw
}

// deliverLate hands the server a request long after it was sent, as a network may that lost its connection.
func (r *relay) deliverLate(q *request) {
	s, err := net.Dial("tcp", r.server.RemoteAddr().String())
	if err == nil {
		defer s.Close()
		s.SetDeadline(time.Now().Add(5 * time.Second))
		s.Write(q.raw)
		if raw, words, err := resp.Read(bufio.NewReader(s)); err == nil {
			q.executed = bootNow()
			q.answer(raw, words)
		}
	}
	r.proxy.network.watch.settled(q)
}

func (r *relay) close() {
	r.proxy.network.forget(r)
	r.end()
}

func (r *relay) end() {
	reset(r.client)
	r.server.Close()
}
