//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"onceonly/scripts/resp"
)

// A machine carries fewer processes than a fleet has hosts. The rest are connections that send what a process has sent,
// each with a run ID and a host of its own.

const (
	probe  = "probe" // the job of the process; as long as crowd
	nobody = "web-0000"
)

var runID = regexp.MustCompile(`"run_id":"([0-9a-f]{32})"`)

// question is the request by which a process asks for the slot of the crowd; but for its job nothing is changed.
func (p *place) question(s *store) ([]byte, error) {
	r, err := newRelay(s.port, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	url := fmt.Sprintf("redis://127.0.0.1:%d/0", r.port())
	for range 2 { // whoever loses asks this, and nothing more
		if _, err := timed(p.onceonly(url, nobody, "run", "--job", probe, "--date", "2000-01-01", "--", "/bin/true")); err != nil {
			return nil, err
		}
	}
	raw := bytes.ReplaceAll(*r.last.Load(), []byte("{"+probe+"}"), []byte("{crowd}"))
	if !runID.Match(raw) || !bytes.Contains(raw, []byte("{crowd}")) {
		return nil, errors.New("not the question of a run")
	}
	return raw, nil
}

// A rest is those that ask without a process: when each was answered, how many may start, and how many have failed.
type rest struct {
	mu          sync.Mutex
	left        []time.Time
	ran, failed int
	all         sync.WaitGroup
}

// newRest starts as many.
func newRest(p *place, s *store, question []byte, n int) *rest {
	r := &rest{}
	id := runID.FindSubmatch(question)[1]
	for i := range n {
		own := bytes.ReplaceAll(question, id, fmt.Appendf(nil, "%016x%016x", rand.Uint64(), rand.Uint64()))
		own = bytes.ReplaceAll(own, []byte(nobody), fmt.Appendf(nil, "app-%04d", i+1))
		r.all.Go(func() { r.note(ask(s.port, own)) })
	}
	return r
}

func (r *rest) note(answer string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, time.Now())
	switch {
	case err == nil && strings.Contains(answer, `"verdict":"run"`):
		r.ran++
	case err != nil || !strings.Contains(answer, `"verdict":"busy"`) && !strings.Contains(answer, `"verdict":"done"`):
		r.failed++
	}
}

// ask sends a question as a run does, after its handshake.
func ask(port int, question []byte) (string, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	in := bufio.NewReader(conn)
	var answer []byte
	for _, request := range [][]byte{[]byte("*2\r\n$5\r\nhello\r\n$1\r\n2\r\n"), question} {
		if _, err := conn.Write(request); err != nil {
			return "", err
		}
		if answer, _, err = resp.Read(in); err != nil {
			return "", err
		}
	}
	return string(answer), nil
}
