package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timings of one request. A renewal has less when the stop deadline is near.
const (
	dialTimeout    = 3 * time.Second
	requestTimeout = 3 * time.Second
)

// errURL never carries the value: it may hold a password, and what a parser says of it may too.
var errURL = errors.New("not a URL, or its password is not percent-encoded (%40 for @)")

// A server is how one Redis is reached, as it may be told: without its password.
type server struct {
	address string // host:port, or the socket's path
	user    string // "" is Redis's default user
	options *redis.Options
	open    atomic.Bool // a connection stands, so a request that fails may have been executed
}

// parseServer reads a URL. Only what redis.ParseURL cannot misread is let through: a '#' or an absent host means that
// a password was not encoded, and the rest of it would be taken for an address.
func parseServer(s string) (*server, error) {
	u, err := url.Parse(s)
	if err != nil || strings.Contains(s, "#") || u.Opaque != "" {
		return nil, errURL
	}
	if u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" {
		return nil, errors.New("not a redis://, rediss:// or unix:// URL")
	}
	if (u.Scheme == "unix") != (u.Hostname() == "") {
		return nil, errURL
	}
	if port, err := strconv.Atoi(cmp.Or(u.Port(), "6379")); err != nil || port < 1 || port > 65535 {
		return nil, errURL
	}
	for name := range u.Query() { // what go-redis would take besides is ours to set
		if name != "db" || u.Scheme != "unix" {
			return nil, errors.New("a URL of this form has no such parameter")
		}
	}
	o, err := redis.ParseURL(s)
	if err != nil || o.DB < 0 {
		return nil, errURL
	}
	v := &server{address: o.Addr, user: o.Username, options: o}
	v.tune()
	return v, nil
}

// tune sets what a run needs: one connection, one request for the handshake, nothing sent twice, nothing in the
// background, and deadlines that hold.
func (v *server) tune() {
	o := v.options
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.PoolSize, o.PipelinePoolSize = 2, -1 // a second one is opened only when the first is stuck
	o.ContextTimeoutEnabled = true
	// What is sent fits into the socket's buffer, so only what is awaited has a deadline: each costs a wake-up.
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, requestTimeout, -2
	o.ReadBufferSize, o.WriteBufferSize = 4096, 4096
	o.OnConnect = func(context.Context, *redis.Conn) error {
		v.open.Store(true)
		return nil
	}
}

// connect returns a client. It sends nothing: what is wrong comes with the first request.
func (v *server) connect() redis.UniversalClient {
	logging.Disable()
	return redis.NewClient(v.options)
}

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
		var op *net.OpError
		var untrusted *tls.CertificateVerificationError
		if errors.As(err, &untrusted) {
			return broken
		}
		if !stood || (errors.As(err, &op) && op.Op == "dial") {
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

const rightsHint = "the rule that is enough stands in onceonly(1), REDIS"

// forbidden finds the command that the user may not use, as Redis names it.
func forbidden(err error) (string, bool) {
	_, rest, found := strings.Cut(err.Error(), "run the '")
	name, _, closed := strings.Cut(rest, "'")
	return strings.ToUpper(name), found && closed
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
	case errors.As(err, &said):
		return &exit{status: exitAway, msg: "Redis at " + v.address + ": " + cause(err)}
	}
	return &exit{status: exitAway,
		msg: "Redis at " + v.address + " not reached in " + brief(waited) + ": " + cause(err)}
}
