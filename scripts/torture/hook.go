//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// The hook is a socket by which every command says that it starts, and that it ends, and waits until it may go on. So the
// torture knows which processes belong to an attempt, and has it in its hand at both moments.

// A call is the command's side.
type hookCall struct {
	conn net.Conn
	name string
}

func callHook(w *worker) (*hookCall, error) {
	c, err := net.Dial("unix", os.Getenv(envHook))
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s %s %s %d %d %d %d", w.job, w.slot, w.run, w.attempt, w.token, os.Getppid(), os.Getpid())
	return &hookCall{c, name}, nil
}

// tell says it and waits for the answer.
func (h *hookCall) tell(word string, status int) {
	fmt.Fprintf(h.conn, "%s %d %d %s\n", word, status, bootNow(), h.name)
	h.conn.Read(make([]byte, 1))
}

// A life is one attempt as its command told of it.
type life struct {
	job, slot, run string
	attempt        int
	token          int64
	wrapper, pid   int
	host           string
	began          boot // when the command said that it starts
	exits          boot // and that it ends
	status         int
	gone           bool // looked for, two leases after its onceonly
}

// A hook is the torture's side.
type hook struct {
	listener net.Listener
	path     string
}

// newHook listens; handle is called for each message, and the command goes on when it returns.
func newHook(dir string, handle func(word string, l life)) (*hook, error) {
	h := &hook{path: filepath.Join(dir, "hook")}
	var err error
	if h.listener, err = net.Listen("unix", h.path); err != nil {
		return nil, err
	}
	os.Chmod(h.path, 0o777)
	go func() {
		for {
			c, err := h.listener.Accept()
			if err != nil {
				return
			}
			go serveHook(c, handle)
		}
	}()
	return h, nil
}

func serveHook(c net.Conn, handle func(string, life)) {
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var l life
		var word string
		var at boot
		if _, err := fmt.Sscan(lines.Text(), &word, &l.status, &at, &l.job, &l.slot, &l.run, &l.attempt, &l.token,
			&l.wrapper, &l.pid); err != nil {
			continue
		}
		l.began, l.exits = at, at
		handle(word, l)
		c.Write([]byte("\n"))
	}
}

func (h *hook) stop() { h.listener.Close() }
