package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// What an error of Redis means, and what to say about it.

// Timings of one request. A renewal has less when the stop deadline is near.
const (
	dialTimeout    = 3 * time.Second
	requestTimeout = 3 * time.Second
)

// persist asks until there is an answer, for as long as wait allows. It is for what may be asked any number of times.
func (v *server) persist(wait time.Duration, ask func(context.Context) error) *exit {
	asked := bootNow()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		open := v.open.Load()
		left := wait - time.Duration(bootNow()-asked)
		ctx, cancel := context.WithTimeout(context.Background(), min(max(left, shortest), requestTimeout))
		err := ask(ctx)
		cancel()
		if err == nil {
			return nil
		}
		remedy, waited := v.judge(err, open), time.Duration(bootNow()-asked)
		if remedy == denied || remedy == broken || waited >= wait {
			return v.refusal(err, waited, remedy)
		}
		time.Sleep(jitter(min(pause, wait-waited)))
	}
}

// A remedy is what the caller may do about an error.
type remedy int

const (
	unsent  remedy = iota // refused before it was executed, or never sent: wait and ask again
	unknown               // sent, and no answer: it may have been executed, or may be yet
	denied                // credentials or rights: asking again does not help
	broken                // anything else that Redis says: asking again does not help
)

// unauthenticated is what Redis says of a long request before any password.
const unauthenticated = "Protocol error: unauthenticated"

var passing = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY", "MISCONF",
	"OOM", "UNKILLABLE", "max number of clients reached"}

var credentials = []string{"NOAUTH", "WRONGPASS", "NOPERM", "invalid password", "AUTH ",
	"The user executing the script can't", unauthenticated}

// judge says what an error of a request means. wasOpen: a connection stood when it was sent, or came to stand.
func (v *server) judge(err error, wasOpen bool) remedy {
	var said redis.Error
	if !errors.As(err, &said) {
		stood := wasOpen || v.open.Load()
		v.open.Store(false)
		var away turnedAway
		var op *net.OpError
		var untrusted *tls.CertificateVerificationError
		if errors.As(err, &untrusted) {
			return broken
		}
		if !stood || errors.As(err, &away) || (errors.As(err, &op) && op.Op == "dial") {
			return unsent
		}
		return unknown
	}
	text := strings.TrimPrefix(said.Error(), "ERR ")
	switch {
	case startsWith(text, credentials):
		return denied
	case startsWith(text, passing):
		return unsent
	}
	return broken
}

func startsWith(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// cause is an error in words that people know: what the system or the server said, without the layers between, and never
// with a password.
func cause(err error) string {
	var said redis.Error
	var errno syscall.Errno
	var dns *net.DNSError
	switch {
	case errors.As(err, &said):
		text, _, _ := strings.Cut(strings.TrimPrefix(said.Error(), "ERR "), " script: ")
		if strings.HasPrefix(text, unauthenticated) {
			return "NOAUTH Authentication required."
		}
		return text
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return "no such host"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	case errors.Is(err, io.EOF):
		return "connection closed"
	case strings.HasPrefix(err.Error(), "redis: can't parse"):
		return "not a Redis server"
	}
	return strings.TrimPrefix(err.Error(), "redis: ")
}

const replicaHint = "the master's address, or redis+sentinel://HOST/MASTER"

const rightsHint = "the rule that is enough stands in onceonly(1), REDIS"

// forbidden finds the command that the user may not use, as Redis names it.
func forbidden(err error) (string, bool) {
	_, rest, found := strings.Cut(err.Error(), "run the '")
	name, _, closed := strings.Cut(rest, "'")
	return strings.ToUpper(name), found && closed
}

// instead is what to write where Redis says that it is not the one to ask: a replica, or a node of a cluster.
func (v *server) instead(said string) string {
	switch {
	case strings.HasPrefix(said, "READONLY"):
		return replicaHint
	case strings.HasPrefix(said, "MOVED"):
		return "redis+cluster://" + v.address
	}
	return ""
}

// refusal is what to say, and to do, when Redis will not serve: at once for credentials, after waiting otherwise.
func (v *server) refusal(err error, waited time.Duration, r remedy) *exit {
	var said redis.Error
	user := v.user
	if user == "" {
		user = "default"
	}
	switch {
	case r == denied:
		if name, ok := forbidden(err); ok {
			return &exit{status: exitDenied, msg: "user " + user + " may not " + name,
				hint: rightsHint}
		}
		e := &exit{status: exitDenied, msg: "Redis at " + v.address + ", user " + user + ": " + cause(err)}
		if strings.Contains(e.msg, "executing the script") || strings.Contains(e.msg, "NOPERM") {
			e.hint = rightsHint
		}
		return e
	case errors.As(err, &said) && strings.HasPrefix(cause(err), "unknown command 'eval'"): // any other Redis knows it
		return &exit{status: exitAway, msg: v.address + " is a Sentinel", hint: "redis+sentinel://" + v.address + "/MASTER"}
	case errors.As(err, &said):
		return &exit{status: exitAway, msg: "Redis at " + v.address + ": " + cause(err), hint: v.instead(cause(err))}
	}
	return &exit{status: exitAway,
		msg: "Redis at " + v.address + " not reached in " + brief(waited) + ": " + cause(err)}
}
