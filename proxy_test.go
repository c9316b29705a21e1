package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"onceonly/scripts/ports"
	"onceonly/scripts/resp"
)

// A Redis that behaves badly, as a test wants it to: here is what a test can ask of the proxy, and whether it keeps its
// word.

// A proxy is a TCP relay in front of a Redis, which a test can make behave badly, and which counts what clients ask. It
// begins in the mode pass. A mode ends the one before it, and counts for the connections that there are as well as for
// new ones, unless its comment says otherwise. dropReply is not a mode; it stands beside one until it has been used up.
type proxy struct {
	t    *testing.T
	port int

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	target   string       // host:port of the server
	bad      misbehaviour
	drops    []*replyDrop
	relays   map[*relay]bool
	asked    []string
	answered []string
	accepted int
}

// A misbehaviour is a mode; the zero value passes all.
type misbehaviour struct {
	hangUp, reset      bool
	toServer, toClient bool // swallowed
	delay              time.Duration
	answer             string   // an error line
	answerTo           []string // commands; none: all
}

// A replyDrop loses one reply: the n-th from now to that command, whoever asks it.
type replyDrop struct {
	command string // "": any
	n       int
	cut     bool
}

// newProxy listens on a loopback port in front of target, host:port.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{t: t, target: target, relays: map[*relay]bool{}}
	var err error
	if p.port, err = ports.Free(); err != nil {
		t.Fatal(err)
	}
	p.pass()
	t.Cleanup(p.refuse)
	return p
}

func (p *proxy) address() string { return "127.0.0.1:" + strconv.Itoa(p.port) }

func (p *proxy) url() string { return "redis://" + p.address() + "/0" }

// pass relays everything as it is.
func (p *proxy) pass() { p.behave(misbehaviour{}) }

// refuse closes the port, so that connecting is refused, and resets every connection.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
		eventually(p.t, "the port is closed", func() bool { // a process that another test starts has it, too, until its exec
			c, err := net.Dial("tcp", p.address())
			if err == nil {
				c.Close()
			}
			return err != nil
		})
	}
	p.endAll(true)
}

// hangUp accepts connections and closes them at once; living ones are closed.
func (p *proxy) hangUp() { p.behave(misbehaviour{hangUp: true}) }

// reset answers every new connection with a reset, and resets the living ones.
func (p *proxy) reset() { p.behave(misbehaviour{reset: true}) }

// resetOnce resets the living connections, and changes nothing for new ones.
func (p *proxy) resetOnce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endAll(true)
}

// swallow loses what is sent, in one direction or both, without a sign: connections stay, and new ones are accepted.
func (p *proxy) swallow(toServer, toClient bool) {
	p.behave(misbehaviour{toServer: toServer, toClient: toClient})
}

// answer answers with an error line, such as "-LOADING Redis is loading the dataset in memory", in place of the server,
// which never sees the request: every request, or only those of the named commands.
func (p *proxy) answer(line string, commands ...string) {
	p.behave(misbehaviour{answer: line, answerTo: commands})
}

// delay holds back every request and every reply for d.
func (p *proxy) delay(d time.Duration) { p.behave(misbehaviour{delay: d}) }

// switchTo leads to another server. Living connections are reset.
func (p *proxy) switchTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.endAll(true)
}

// dropReply loses the n-th reply from now (1 is the next) to a command, "" for any. The server has executed the request.
// With cut the connection is reset in the reply's place; without, nothing comes and the connection stays.
func (p *proxy) dropReply(command string, n int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, &replyDrop{command, n, cut})
}

// dropsLeft is how many replies are still to be dropped.
func (p *proxy) dropsLeft() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.drops)
}

// requests lists what clients asked, by the command's name, since the last forget; also what never reached the server.
func (p *proxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// replies lists what clients were answered, likewise.
func (p *proxy) replies() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.answered)
}

// clients are the ports that the living connections come from.
func (p *proxy) clients() (ports []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.relays {
		ports = append(ports, r.client.RemoteAddr().(*net.TCPAddr).Port)
	}
	return ports
}

// connections is how many were accepted since the last forget.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// forget begins the counting anew.
func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.answered, p.accepted = nil, nil, 0
}

// behave takes on a mode, and opens the port again if it was closed.
func (p *proxy) behave(bad misbehaviour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bad = bad
	if bad.hangUp || bad.reset {
		p.endAll(bad.reset)
	}
	if p.listener != nil {
		return
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l, err := net.Listen("tcp", p.address())
		if err == nil {
			p.listen(l)
			return
		}
		if time.Now().After(deadline) {
			p.t.Error(err)
			return
		}
	}
}

// TestProxy holds the proxy itself to its word: a test that is told of a fault must have met it.
func TestProxy(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared.address())
	ask := func(words string) string {
		c, err := net.Dial("tcp", p.address())
		if err != nil {
			return lastWord(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "*1\r\n$%d\r\n%s\r\n", len(words), words)
		c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		raw, _, err := resp.Read(bufio.NewReader(c))
		switch {
		case err == nil:
			return strings.TrimSpace(string(raw))
		case errors.Is(err, io.EOF):
			return "closed"
		}
		return lastWord(err)
	}
	want := func(what, answer string) {
		t.Helper()
		if got := ask("ping"); got != answer {
			t.Errorf("%s: got %q, want %q", what, got, answer)
		}
	}
	want("pass", "+PONG")
	p.refuse()
	want("refuse", "refused")
	p.hangUp()
	if got := ask("ping"); got != "closed" && got != "peer" { // what was sent to a closed socket is answered by a reset
		t.Errorf("hangUp: %q", got)
	}
	p.reset()
	want("reset", "peer")
	p.swallow(true, false)
	want("swallow requests", "timeout")
	p.swallow(false, true)
	want("swallow replies", "timeout")
	p.answer("-LOADING wait")
	want("answer", "-LOADING wait")
	p.answer("-OOM", "EVAL")
	want("answer others", "+PONG")
	p.pass()
	p.dropReply("PING", 2, false)
	p.dropReply("", 4, true)
	want("drop the second: first", "+PONG")
	want("drop the second: second", "timeout")
	want("cut the next", "+PONG")
	want("cut the next", "peer")
	p.switchTo("127.0.0.1:1")
	if got := ask("ping"); got != "closed" && got != "peer" {
		t.Errorf("nobody there: %q", got)
	}
	p.switchTo(shared.address())
	p.forget()
	want("back", "+PONG")
	if got := p.requests(); !slices.Equal(got, []string{"PING"}) || p.connections() != 1 || p.dropsLeft() != 0 {
		t.Errorf("counted %q on %d connections, %d drops left", got, p.connections(), p.dropsLeft())
	}
}

// A connection that is just being made is ended with those that there are: what the proxy says is over is over.
func TestProxyConnecting(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared.address())
	survived := 0
	for range 300 {
		p.pass()
		c, err := net.Dial("tcp", p.address()) // made by the system, whether or not the proxy knows of it
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(200 * time.Microsecond)) // drawn anew each time, so that it meets each step of taking it on
		p.refuse()
		io.WriteString(c, "*1\r\n$4\r\nPING\r\n")
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, _ := c.Read(make([]byte, 7)); n > 0 {
			survived++
		}
		c.Close()
	}
	if survived > 0 {
		t.Errorf("%d of 300 connections survived", survived)
	}
}

// A port is given out once, and the system gives it to nobody: who does not listen there for a while finds it as free as he
// has left it, and meanwhile nobody is met there.
func TestFreePort(t *testing.T) {
	t.Parallel()
	var low int
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	fmt.Sscan(string(text), &low)
	given := map[int]bool{newProxy(t, shared.address()).port: true, shared.port: true}
	for range 50 {
		port, err := ports.Free()
		if err != nil || given[port] {
			t.Errorf("%d is given out again, or %v", port, err)
		}
		given[port] = true
	}
	for port := range given {
		if low > 0 && port >= low {
			t.Errorf("%d is one of those that the system gives out", port)
		}
	}
}

// lastWord of "connection refused", "connection reset by peer", "i/o timeout".
func lastWord(err error) string {
	words := strings.Fields(err.Error())
	return words[len(words)-1]
}
