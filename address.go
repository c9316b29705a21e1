package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Where the ledger is: one Redis, a master that Sentinels know, or a cluster.

// errURL never carries the value: it may hold a password, and what a parser says of it may too.
var errURL = errors.New("not a URL, or its password is not percent-encoded (%40 for @)")

var errParameter = errors.New("a URL of this form has no such parameter")

// errUser: go-redis would go on as Redis's default user.
var errUser = errors.New("a user without a password")

var errScheme = errors.New("not a URL of the form redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")

// schemes are those that name several hosts, and the plain one of the same transport.
var schemes = map[string]string{"redis+sentinel": "redis", "rediss+sentinel": "rediss", "redis+cluster": "redis",
	"rediss+cluster": "rediss"}

// parameters are what each scheme takes after the '?'.
var parameters = map[string][]string{"unix": {"db"}, "rediss": inTLS, "rediss+cluster": inTLS, "redis+sentinel": ofSentinels,
	"rediss+sentinel": slices.Concat(inTLS, ofSentinels)}

var (
	inTLS       = []string{"ca", "cert", "key", "server_name"}
	ofSentinels = []string{"sentinel_user", "sentinel_password"}
)

// A server is how Redis is reached, as it may be told: without its password.
type server struct {
	address string // host:port or the socket's path; several, and the master's name, where there are
	user    string // "" is Redis's default user
	options *redis.Options
	hosts   []string    // of Sentinels or cluster nodes
	master  string      // by Sentinel
	given   url.Values  // what stands after the '?'
	open    atomic.Bool // a connection stands, so a request that fails may have been executed
}

// parseServer reads a URL. Only what a parser cannot misread is let through: a '#' or an absent host means that a
// password was not encoded, and the rest of it would be taken for an address.
func parseServer(s string) (*server, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	plain, several := schemes[scheme]
	if !ok || (!several && scheme != "redis" && scheme != "rediss" && scheme != "unix") {
		return nil, errScheme
	}
	v := &server{}
	if several {
		if rest, ok = v.takeHosts(rest, strings.HasSuffix(scheme, "sentinel")); !ok {
			return nil, errURL
		}
		s = plain + "://" + rest
	}
	u, err := url.Parse(s)
	if err != nil || strings.Contains(s, "#") || (scheme == "unix") != (u.Hostname() == "") {
		return nil, errURL
	}
	if port, err := strconv.Atoi(cmp.Or(u.Port(), "6379")); err != nil || port < 1 || port > 65535 {
		return nil, errURL
	}
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errURL
	}
	for name := range given { // what go-redis would take besides is ours to set
		if len(given[name]) > 1 || !slices.Contains(parameters[scheme], name) {
			return nil, errParameter
		}
	}
	u.RawQuery = ""
	if given.Has("db") {
		u.RawQuery = "db=" + url.QueryEscape(given.Get("db"))
	}
	if v.options, err = redis.ParseURL(u.String()); err != nil || v.options.DB < 0 || (v.hosts != nil && v.master == "" && v.options.DB != 0) {
		return nil, errURL
	}
	if v.options.Username != "" && v.options.Password == "" || given.Get("sentinel_user") != "" && given.Get("sentinel_password") == "" {
		return nil, errUser
	}
	v.given = given
	v.user, v.address = v.options.Username, v.options.Addr
	if several {
		v.address = strings.TrimPrefix(v.master+" by Sentinel ", " by Sentinel ") + strings.Join(v.hosts, ",")
	}
	v.tune()
	return v, nil
}

// secure sets what TLS needs: whom to trust, who we are, whom to expect.
func (v *server) secure() error {
	c, given := v.options.TLSConfig, v.given
	if c == nil {
		return nil
	}
	if v.hosts != nil { // each is expected to have its own name
		c.ServerName = ""
	}
	c.ServerName = cmp.Or(given.Get("server_name"), c.ServerName)
	if name := given.Get("ca"); name != "" {
		text, err := readFile(name)
		if err != nil {
			return unreadable(name, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return &exit{status: exitDisagree, msg: name + ": no certificate"}
		}
	}
	cert, key := given.Get("cert"), cmp.Or(given.Get("key"), given.Get("cert"))
	if key == "" {
		return nil
	}
	var texts [2][]byte
	for i, name := range []string{cmp.Or(cert, key), key} {
		text, err := readFile(name)
		if err != nil {
			return unreadable(name, err)
		}
		texts[i] = text
	}
	own, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return &exit{status: exitDisagree, msg: key + ": " + strings.TrimPrefix(err.Error(), "tls: ")}
	}
	c.Certificates = []tls.Certificate{own}
	return nil
}

// takeHosts takes the list of hosts, and the name of the master, out of a URL, and leaves one of the plain form.
func (v *server) takeHosts(rest string, sentinel bool) (string, bool) {
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndex(rest[:end], "@") + 1
	port := ":6379"
	if sentinel {
		port = ":26379"
	}
	for _, host := range strings.Split(rest[at:end], ",") {
		if u, err := url.Parse("redis://" + host); err != nil || u.Hostname() == "" || u.Host != host {
			return "", false
		} else if u.Port() == "" {
			host += port
		}
		v.hosts = append(v.hosts, host)
	}
	path := rest[end:]
	if sentinel {
		name, after, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		name, query, asked := strings.Cut(name, "?")
		if v.master = name; name == "" {
			return "", false
		}
		if path = "/" + after; asked {
			path = "?" + query
		}
	}
	return rest[:at] + v.hosts[0] + path, true
}

// tune sets what a run needs: one connection, one request for the handshake, nothing sent twice, nothing in the
// background, and deadlines that hold.
//
// The handshake stays also where neither password nor database needs it. Until it is answered nothing is sent that may be
// executed. Answered here in the server's place it saves a round trip, but what is sent to a Redis that is frozen is
// executed when it thaws, for hosts that have long given up; and as that may be so, they could not give up before a lease
// is over.
func (v *server) tune() {
	o := v.options
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.PoolSize, o.PipelinePoolSize = 2, -1 // a second one is opened only when the first is stuck
	o.ContextTimeoutEnabled = true
	// What is sent fits into the socket's buffer, so only what is awaited has a deadline: each costs a wake-up.
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, requestTimeout, -2
	o.ReadBufferSize, o.WriteBufferSize = 4096, 16384 // a script goes out whole, and Redis is woken once
	o.OnConnect = func(context.Context, *redis.Conn) error {
		v.open.Store(true)
		return nil
	}
}

// connect returns a client. It sends nothing: what is wrong comes with the first request.
func (v *server) connect() redis.UniversalClient {
	logging.Disable()
	switch {
	case v.master != "":
		return greeted(redis.NewFailoverClient(v.failover()))
	case v.hosts != nil:
		return redis.NewClusterClient(v.cluster())
	}
	return greeted(redis.NewClient(v.options))
}

// failover asks the Sentinels who the master is, without credentials unless they have some of their own.
func (v *server) failover() *redis.FailoverOptions {
	o := v.options
	return &redis.FailoverOptions{MasterName: v.master, SentinelAddrs: v.hosts,
		SentinelUsername: v.given.Get("sentinel_user"),
		SentinelPassword: v.given.Get("sentinel_password"), Username: o.Username, Password: o.Password,
		DB: o.DB, Protocol: o.Protocol, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: o.PoolSize,
		PipelinePoolSize: -1, ContextTimeoutEnabled: true, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout,
		WriteTimeout: o.WriteTimeout, ReadBufferSize: o.ReadBufferSize, WriteBufferSize: o.WriteBufferSize,
		TLSConfig: o.TLSConfig, OnConnect: o.OnConnect}
}

// cluster finds the node that has the job's keys.
func (v *server) cluster() *redis.ClusterOptions {
	o := v.options
	return &redis.ClusterOptions{Addrs: v.hosts, Username: o.Username, Password: o.Password, Protocol: o.Protocol,
		DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: o.PoolSize, PipelinePoolSize: -1,
		ContextTimeoutEnabled: true, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		ReadBufferSize: o.ReadBufferSize, WriteBufferSize: o.WriteBufferSize, TLSConfig: o.TLSConfig, OnConnect: o.OnConnect,
		NewClient:              func(o *redis.Options) *redis.Client { return greeted(redis.NewClient(o)) },
		DisableRoutingPolicies: true, MaintNotificationsConfig: o.MaintNotificationsConfig}
}
