//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"onceonly/scripts/resp"
)

// A link stands before redis-server. It holds everything up for a while, each way, and counts what is asked.
type link struct {
	listener net.Listener
	delay    time.Duration
	mu       sync.Mutex
	asked    []string
}

func (b *bench) newLink(delay time.Duration) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, delay: delay}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go k.relay(client, b.socket)
		}
	}()
	return k, nil
}

// relay passes on whole requests and answers, so that a script is held up once and not packet by packet.
func (k *link) relay(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer server.Close()
		k.pass(client, server, true)
	}()
	k.pass(server, client, false)
}

func (k *link) pass(from io.Reader, to io.Writer, asking bool) {
	for in := bufio.NewReaderSize(from, 65536); ; {
		raw, words, err := resp.Read(in)
		if err != nil {
			return
		}
		if asking && len(words) > 0 {
			k.mu.Lock()
			k.asked = append(k.asked, strings.ToUpper(words[0]))
			k.mu.Unlock()
		}
		time.Sleep(k.delay)
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

func (k *link) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := k.asked
	k.asked = nil
	return asked
}

func (k *link) port() int { return k.listener.Addr().(*net.TCPAddr).Port }

// slowLinks compares over links that take a while, and counts the requests of a run and of a loser.
func (b *bench) slowLinks() error {
	for _, delay := range []time.Duration{time.Millisecond, 5 * time.Millisecond} {
		k, err := b.newLink(delay)
		if err != nil {
			return err
		}
		run, loser := b.wrappers(fmt.Sprint("slow", delay), fmt.Sprintf("redis://127.0.0.1:%d/0", k.port()))
		script := b.script(fmt.Sprint("-p ", k.port()))
		err = b.race([]*contender{run, loser, script})
		k.listener.Close()
		if err != nil {
			return err
		}
		fmt.Printf("\n%v further away, each way\n\n", delay)
		for _, c := range []*contender{run, loser, script} {
			fmt.Printf("  %-28s %7.2f ms  %5.2f of the script\n", c.name, ms(c.median()), ratio(c, script))
		}
	}
	return b.requests()
}

func (b *bench) requests() error {
	k, err := b.newLink(0)
	if err != nil {
		return err
	}
	defer k.listener.Close()
	url := fmt.Sprintf("redis://127.0.0.1:%d/0", k.port())
	run, loser := b.wrappers("counted", url)
	fmt.Printf("\nrequests, the handshake included\n\n")
	for _, c := range []*contender{run, loser} {
		one := &bench{ctx: b.ctx, dir: b.dir, onceonly: b.onceonly}
		if err := one.race([]*contender{c}); err != nil { // warm-up alone: the last of these is counted
			return err
		}
		asked := k.take()
		last := len(asked) - 1 - slices.Index(reversed(asked), "HELLO")
		fmt.Printf("  %-28s %d: %s\n", c.name, len(asked)-last, strings.Join(asked[last:], " "))
	}
	return nil
}

func reversed(words []string) []string {
	words = slices.Clone(words)
	slices.Reverse(words)
	return words
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
