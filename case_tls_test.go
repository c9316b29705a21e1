//go:build !race

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"onceonly/scripts/ports"
)

// TLS: whom onceonly trusts, who it is, whom it expects.

// A tlsFolder holds an authority of its own, and what it signed.
type tlsFolder struct {
	t   *testing.T
	dir string
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

func newTLSFolder(t *testing.T) *tlsFolder {
	t.Helper()
	f := &tlsFolder{t: t, dir: t.TempDir()}
	f.ca, f.key = f.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return f
}

func (f *tlsFolder) path(name string) string { return filepath.Join(f.dir, name) }

// sign writes NAME.pem and NAME.key. The first is signed by itself.
func (f *tlsFolder) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	by, byKey := f.ca, f.key
	if by == nil {
		by, byKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
	if err != nil {
		f.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		f.t.Fatal(err)
	}
	caseTouch(f.t, f.path(name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	caseTouch(f.t, f.path(name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		f.t.Fatal(err)
	}
	return signed, key
}

// server starts a Redis with a certificate for redis.test and, unless bare, for its address; it returns its TLS port.
func (f *tlsFolder) server(clients string, bare bool, args ...string) (*redisServer, int) {
	f.t.Helper()
	c := &x509.Certificate{DNSNames: []string{"redis.test"}}
	if !bare {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	f.sign("server", c)
	port, err := ports.Free()
	if err != nil {
		f.t.Fatal(err)
	}
	return newRedis(f.t, append([]string{"--tls-port", strconv.Itoa(port), "--tls-cert-file", f.path("server.pem"),
		"--tls-key-file", f.path("server.key"), "--tls-ca-cert-file", f.path("ca.pem"), "--tls-auth-clients", clients}, args...)...), port
}

// A Redis with a private authority that asks for a client's certificate; what is wrong is told in one line, and at once
// where waiting does not help. (SH-33)
func TestCaseTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFolder(t)
	_, port := f.server("yes", false)
	f.sign("cron", &x509.Certificate{})
	f.sign("other", &x509.Certificate{})
	base := "rediss://127.0.0.1:" + strconv.Itoa(port) + "/0"
	ca, own := "?ca="+f.path("ca.pem"), "&cert="+f.path("cron.pem")+"&key="+f.path("cron.key")
	both := f.path("both.pem")
	caseTouch(t, both, manualRead(t, f.path("cron.pem"))+manualRead(t, f.path("cron.key")))
	caseTouch(t, f.path("empty"), "")
	for i, c := range []struct {
		query  string
		status int
		says   string
	}{
		{ca + own, 0, ""},
		{ca + "&cert=" + both, 0, ""},
		{ca + own + "&server_name=redis.test", 0, ""},
		{ca, 69, ""}, // the server says that it requires a certificate, or closes before that is read
		{"?" + own[1:], 69, "unknown authority"},
		{ca + own + "&server_name=other.test", 69, "not other.test"},
		{"?ca=" + f.path("absent"), 78, f.path("absent") + ": no such file or directory"},
		{"?ca=" + f.path("empty"), 78, f.path("empty") + ": no certificate"},
		{ca + "&cert=" + f.path("absent"), 78, f.path("absent") + ": no such file or directory"},
		{ca + "&cert=" + f.path("cron.pem") + "&key=" + f.path("other.key"), 78, "private key does not match public key"},
		{ca + "&" + ca[1:], 64, "no such parameter"},
		{"?skip_verify=true", 64, "no such parameter"},
	} {
		h := newHost(t, "web-1", "ONCEONLY_REDIS="+base+c.query)
		r := h.run(caseRun("j"+strconv.Itoa(i), "--redis-wait 1s", "true")...)
		if r.status != c.status || r.stdout != "" || !strings.Contains(r.stderr, c.says) || (c.status == 0) != (r.stderr == "") {
			t.Errorf("%s: %v\nwant %d, %q", c.query, r, c.status, c.says)
		}
		if c.status == 0 {
			if r := h.run("status", "--json"); r.status != 0 || r.stderr != "" {
				t.Errorf("status %s: %v", c.query, r)
			}
		}
	}
}

// Where the certificate does not have the address, the name to expect is given. (SH-33)
func TestCaseTLSServerName(t *testing.T) {
	t.Parallel()
	f := newTLSFolder(t)
	_, port := f.server("no", true)
	url := "ONCEONLY_REDIS=rediss://127.0.0.1:" + strconv.Itoa(port) + "?ca=" + f.path("ca.pem")
	newHost(t, "web-1", url+"&server_name=redis.test").run(caseRun("j", "", "true")...).want(t, 0, "")
	if r := newHost(t, "web-1", url).run(caseRun("j", "", "true")...); r.status != 69 {
		t.Errorf("%v", r)
	}
}

// A cluster over TLS: each of its nodes is checked.
func TestCaseTLSCluster(t *testing.T) {
	t.Parallel()
	f := newTLSFolder(t)
	r, port := f.server("no", false, "--cluster-enabled", "yes", "--tls-cluster", "yes",
		"--cluster-announce-ip", "127.0.0.1")
	clusterUp(t, r)
	url := "ONCEONLY_REDIS=rediss+cluster://127.0.0.1:" + strconv.Itoa(port) + "?ca=" + f.path("ca.pem")
	newHost(t, "web-1", url).run(caseRun("j", "", "true")...).want(t, 0, "")
	if r := newHost(t, "web-1", url+"&server_name=other.test").run(caseRun("k", "--redis-wait 1s", "true")...); r.status != 69 {
		t.Errorf("%v", r)
	}
}
