//go:build linux

package main

import (
	"net"
	"strconv"
	"sync"
	"time"

	"onceonly/scripts/ports"
)

// A proxy stands between one host and one server. What it does to what passes is the host's weather: the same for all
// proxies of the host.

// A weather is how a host's network behaves; the zero value lets all pass.
type weather struct {
	refuse     bool          // connections are refused
	noRequests bool          // what is sent gets lost; the connection stays
	noReplies  bool          // what is answered gets lost
	down       bool          // the interface is down: the kernel loses all, both ways
	delay      time.Duration // each way
	half       bool          // replies are cut in the middle, and the connection with them
	nemesis    string        // that has brought it
}

// A network is a host's way to the servers.
type network struct {
	host      string
	namespace *namespace // nil: the machine allows none
	watch     watcher

	mu      sync.Mutex
	weather weather
	proxies map[int]*proxy // by the server's port
	relays  map[*relay]bool
	closed  bool
}

// A watcher is told of all that passes. It may hold it up, and says what is to become of it.
type watcher interface {
	asked(r *request) fate    // before the server has it
	answered(r *request) fate // before the host has the answer
	settled(r *request)       // nothing more will happen to it
	acted(nemesis string)     // its weather has met something
}

// A fate is what becomes of a request or an answer.
type fate int

const (
	pass fate = iota
	lose      // it is lost, and the connection reset
	late      // a request: the connection is reset, and the server gets it later
)

// A proxy listens for one host in front of one server.
type proxy struct {
	network  *network
	port     int // ours, also while it is closed
	target   int // the server's
	listener net.Listener
}

func newNetwork(host string, n *namespace, w watcher) *network {
	return &network{host: host, namespace: n, watch: w, proxies: map[int]*proxy{}, relays: map[*relay]bool{}}
}

// reach returns the port by which the host reaches a server: the same, where nobody else's ports are in its network.
func (n *network) reach(target int) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.proxies[target]; p != nil {
		return p.port, nil
	}
	p := &proxy{network: n, target: target, port: target}
	var err error
	if n.namespace == nil {
		if p.port, err = ports.Free(); err != nil {
			return 0, err
		}
	}
	if err := p.listen(); err != nil {
		return 0, err
	}
	n.proxies[target] = p
	return p.port, nil
}

func (p *proxy) listen() (err error) {
	p.network.namespace.do(func() { p.listener, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p.port)) })
	if err == nil {
		go p.accept(p.listener)
	}
	return err
}

func (p *proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

// serve carries one connection.
func (p *proxy) serve(client net.Conn) {
	s, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.target))
	n := p.network
	n.mu.Lock()
	if refused := n.weather.refuse; err != nil || n.closed || refused {
		by := n.weather.nemesis
		n.mu.Unlock()
		if refused {
			n.watch.acted(by)
		}
		reset(client)
		if s != nil {
			s.Close()
		}
		return
	}
	r := &relay{proxy: p, client: client, server: s}
	n.relays[r] = true
	n.mu.Unlock()
	go r.down()
	r.up()
}

// turn changes the weather. While a host is refused its ports are closed.
func (n *network) turn(w weather) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.weather
	n.weather = w
	if n.closed {
		return
	}
	if (w.refuse || w.down) && len(n.relays) > 0 {
		defer n.watch.acted(w.nemesis)
	}
	if w.down != before.down {
		n.namespace.do(func() { setLink(!w.down) })
	}
	switch {
	case w.refuse && !before.refuse:
		n.shut()
	case !w.refuse && before.refuse:
		for _, p := range n.proxies {
			for tries := 0; p.listen() != nil && tries < 200; tries++ { // a process that is just started has it, too, until its exec
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
}

func (n *network) now() weather {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.weather
}

// cut resets all connections that there are, and says how many.
func (n *network) cut() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	there := len(n.relays)
	n.end()
	return there
}

func (n *network) end() {
	for r := range n.relays {
		r.end()
	}
	clear(n.relays)
}

// shut closes all ports and connections; the caller holds mu.
func (n *network) shut() {
	for _, p := range n.proxies {
		p.listener.Close()
	}
	n.end()
}

func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.shut()
}

func (n *network) forget(r *relay) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.relays, r)
}

// ports are pairs of a server's port and the one by which this host reaches it.
func (n *network) ports() map[int]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[int]int{}
	for target, p := range n.proxies {
		all[target] = p.port
	}
	return all
}

// reset closes a connection without a farewell.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}
