//go:build !race

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"onceonly/scripts/resp"
)

// Redis accepts a connection, and then says nothing, or nothing that can be understood.

// SH-31: Redis is silent: from the start, after the handshake, with a password; or it speaks TLS where none is expected,
// and the reverse. Within the time allowed one line and 69, no command, and no process left. status likewise.
func TestCaseRedisSilent(t *testing.T) {
	t.Parallel()
	locked, _ := secretRedis(t, "geheim")
	tlsAddress := tlsListener(t)
	for _, c := range []struct {
		what string
		url  func(t *testing.T) string
	}{
		{"after connecting", func(t *testing.T) string {
			px := newProxy(t, shared.address())
			px.swallow(true, true)
			return px.url()
		}},
		{"after the handshake", func(t *testing.T) string { return deafTo(t, shared.address(), "EVAL") }},
		{"after AUTH", func(t *testing.T) string {
			return strings.Replace(deafTo(t, locked.address(), "EVAL"), "redis://", "redis://:geheim@", 1)
		}},
		{"plain to a TLS port", func(t *testing.T) string { return "redis://" + tlsAddress + "/0" }},
		{"TLS to a plain port", func(t *testing.T) string { return "rediss://" + shared.address() + "/0" }},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			url, log := c.url(t), filepath.Join(t.TempDir(), "log")
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+url)
			began := time.Now()
			p := caseStart(t, h.command(caseRun("j", "--lease 1s --redis-wait 1s", "touch", log)...))
			p.wait().wantMatch(t, 69, `onceonly: j `+caseDay+`: not run: Redis at [^\n]+\n(onceonly: hint: [^\n]*\n)?`)
			if took := time.Since(began); took > 7*time.Second { // the wait, a request, the lease, a farewell, another request
				t.Errorf("took %v", took)
			}
			if _, err := os.Stat(log); err == nil {
				t.Error("the command was started")
			}
			if strings.HasPrefix(c.what, "after the") || c.what == "after AUTH" {
				return // status asks otherwise, and is answered
			}
			began = time.Now()
			if r := h.run("status", "--redis-wait", "1s"); r.status != 69 || strings.Count(r.stderr, "\n") > 2 || r.stderr == "" {
				t.Errorf("status: %v", r)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("status took %v", took)
			}
		})
	}
}

// deafTo relays all but one command, which is lost; it returns the URL.
func deafTo(t *testing.T, target, command string) string {
	t.Helper()
	url, _ := withholds(t, target, command)
	return url
}

// withholds relays all but one command: those it keeps, and answers nothing.
func withholds(t *testing.T, target, command string) (url string, kept func() [][]byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all [][]byte
	serve := func(c net.Conn) {
		s, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer s.Close()
		go func() { io.Copy(c, s); c.Close() }()
		for in := bufio.NewReader(c); ; {
			raw, words, err := resp.Read(in)
			if err != nil {
				return
			}
			if len(words) > 0 && strings.EqualFold(words[0], command) {
				mu.Lock()
				all = append(all, raw)
				mu.Unlock()
				continue
			}
			s.Write(raw)
		}
	}
	return "redis://" + serveAll(t, l, serve) + "/0", func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// tlsListener speaks TLS and nothing else.
func tlsListener(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	return serveAll(t, l, func(c net.Conn) { io.Copy(io.Discard, c) })
}

// SH-47: TERM while Redis does not answer: over within a second, no command, no key, not a word.
func TestCaseTermWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	for _, c := range []struct {
		what string
		bad  func(*proxy)
	}{
		{"silent", func(p *proxy) { p.swallow(true, true) }},
		{"refused", (*proxy).refuse},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			px, log := newProxy(t, r.address()), filepath.Join(t.TempDir(), "log")
			px.reset()
			p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "", "touch", log)...))
			eventually(t, "it asks", func() bool { return px.connections() > 0 })
			c.bad(px)
			eventually(t, "it asks again", func() bool { return c.what == "refused" || len(px.requests()) > 0 })
			at := time.Now()
			p.say(unix.SIGTERM)
			p.wait().want(t, 143, "")
			if took := time.Since(at); took > time.Second {
				t.Errorf("took %v", took)
			}
			if _, err := os.Stat(log); err == nil {
				t.Error("the command was started")
			}
			if keys := r.rdb.Keys(context.Background(), namespaceOf(t)+":*").Val(); len(keys) > 0 {
				t.Errorf("keys %q", keys)
			}
		})
	}
}

// TERM, and --redis-wait, count also while there is something to deliver and Redis is silent. (SH-47)
func TestSpoolDoesNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"TERM", "--redis-wait"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, e := newRedis(t), newEnder(t)
			px := newProxy(t, r.address())
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+px.url())
			p := caseStart(t, h.command(caseRun("j", "--lease 1s", e.command("0")...)...))
			eventually(t, "the command runs", e.up)
			px.refuse()
			e.end(t)
			p.wait().wantMatch(t, 74, notRecorded("j", "done", h.stateDir()))
			px.swallow(true, true)
			px.forget()
			began, ran := time.Now(), filepath.Join(t.TempDir(), "ran")
			q := caseStart(t, h.command(caseRun("next", "--lease 1s --redis-wait 1s", "touch", ran)...))
			limit := 6 * time.Second // the wait, a request, the lease, a farewell: as without a spool
			if what == "TERM" {
				eventually(t, "it asks", func() bool { return len(px.requests()) > 0 })
				began, limit = time.Now(), time.Second
				q.say(unix.SIGTERM)
				q.wait().want(t, 143, "")
			} else if got := q.wait(); got.status != 69 || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got %v", got)
			}
			if took := time.Since(began); took > limit {
				t.Errorf("took %v, want %v at most", took, limit)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("it ran")
			}
			px.pass()
			px.resetOnce()
			h.run(caseRun("last", "", "true")...).want(t, 0, "")
			wantDelivered(t, r, h)
		})
	}
}
