package main

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"onceonly/scripts/resp"
)

// How the proxy carries requests and replies, one RESP value at a time, and where its misbehaviour happens.

// A relay is one client's connection and its own to the server.
type relay struct {
	client  net.Conn
	server  net.Conn // nil until it is made
	mu      sync.Mutex
	pending []string // what the server has still to answer
}

func (p *proxy) listen(l net.Listener) {
	p.listener = l
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
}

func (p *proxy) serve(client net.Conn) {
	r := &relay{client: client}
	bad, target := p.accept(r)
	if bad.hangUp || bad.reset {
		closeConn(client, bad.reset)
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		p.cut(r)
		return
	}
	if !p.join(r, server) {
		return
	}
	go p.down(r)
	p.up(r)
}

// accept takes a connection on: from here on whoever ends the living ones ends it, too. A listener that is closed may have
// handed out one more.
func (p *proxy) accept(r *relay) (misbehaviour, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	if p.listener == nil {
		return misbehaviour{reset: true}, ""
	}
	if !p.bad.hangUp && !p.bad.reset {
		p.relays[r] = true
	}
	return p.bad, p.target
}

// join gives a relay its server, unless it was ended meanwhile.
func (p *proxy) join(r *relay, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.relays[r] {
		server.Close()
		return false
	}
	r.server = server
	return true
}

// up carries requests.
func (p *proxy) up(r *relay) {
	in := bufio.NewReader(r.client)
	for {
		raw, words, err := resp.Read(in)
		if err != nil {
			p.close(r)
			return
		}
		command := ""
		if len(words) > 0 {
			command = strings.ToUpper(words[0])
		}
		bad := p.ask(command)
		time.Sleep(bad.delay) // the mode
		switch {
		case bad.answer != "" && (bad.answerTo == nil || slices.Contains(bad.answerTo, command)):
			io.WriteString(r.client, bad.answer+"\r\n")
		case !bad.toServer:
			r.mu.Lock()
			r.pending = append(r.pending, command)
			r.mu.Unlock()
			r.server.Write(raw)
		}
	}
}

func (p *proxy) ask(command string) misbehaviour {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, command)
	return p.bad
}

// down carries replies.
func (p *proxy) down(r *relay) {
	in := bufio.NewReader(r.server)
	for {
		raw, _, err := resp.Read(in)
		if err != nil {
			if !p.now().toClient { // who swallows, swallows also the end of a connection
				p.close(r)
			}
			return
		}
		command, drop := p.reply(r, raw)
		bad := p.now()
		time.Sleep(bad.delay) // the mode
		switch {
		case drop != nil && drop.cut:
			p.cut(r)
			return
		case drop == nil && !bad.toClient:
			r.client.Write(raw)
			p.mu.Lock()
			p.answered = append(p.answered, command)
			p.mu.Unlock()
		}
	}
}

func (p *proxy) now() misbehaviour {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bad
}

// reply finds the request that is answered, and whether its reply is to be lost.
func (p *proxy) reply(r *relay, raw []byte) (command string, dropped *replyDrop) {
	r.mu.Lock()
	if len(r.pending) > 0 && raw[0] != '>' { // a push answers nothing
		command, r.pending = r.pending[0], r.pending[1:]
	}
	r.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.drops {
		if d.command == "" || d.command == command {
			if d.n--; d.n == 0 {
				dropped = d
			}
		}
	}
	p.drops = slices.DeleteFunc(p.drops, func(d *replyDrop) bool { return d.n == 0 })
	return command, dropped
}

func (p *proxy) close(r *relay) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(r, false)
}

func (p *proxy) cut(r *relay) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(r, true)
}

// endAll ends the living connections; the caller holds mu.
func (p *proxy) endAll(reset bool) {
	for r := range p.relays {
		p.end(r, reset)
	}
}

// end ends one, likewise.
func (p *proxy) end(r *relay, reset bool) {
	delete(p.relays, r)
	closeConn(r.client, reset)
	if r.server != nil {
		r.server.Close()
	}
}

// closeConn closes a connection, with a reset or in good order.
func closeConn(c net.Conn, reset bool) {
	if t, ok := c.(*net.TCPConn); ok && reset {
		t.SetLinger(0)
	}
	c.Close()
}
