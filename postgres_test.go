package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"onceonly/scripts/postgres"
)

// A PostgreSQL of the tests' own, started by the first that needs it; each test has a database of its own.

// A postgresServer is reached by a socket in its directory.
type postgresServer struct {
	dir string
	cmd *exec.Cmd
}

var (
	sharedPostgres *postgresServer
	errPostgres    error
	startPostgres  sync.Once
)

func stopPostgres() {
	if sharedPostgres != nil {
		sharedPostgres.stop()
	}
}

// stop ends the server by its process ID, and removes what it held.
func (p *postgresServer) stop() {
	p.cmd.Process.Signal(syscall.SIGINT)
	p.cmd.Wait()
	os.RemoveAll(p.dir)
}

func newPostgresServer() (*postgresServer, error) {
	dir, err := os.MkdirTemp("/tmp", "onceonly-pg") // a socket's path is short, and others may enter /tmp
	if err != nil {
		return nil, err
	}
	p := &postgresServer{dir: dir}
	if p.cmd, err = postgres.Command(dir, "onceonly", "max_connections=200", "track_commit_timestamp=on"); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	var said bytes.Buffer
	p.cmd.Stdout, p.cmd.Stderr = &said, &said
	if err := p.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := p.createdb("ready")
		if err == nil {
			return p, nil
		}
		if time.Now().After(deadline) {
			p.stop()
			return nil, fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, said.String())
		}
	}
}

func (p *postgresServer) createdb(name string) error {
	out, err := exec.Command("psql", "-X", "-q", "-h", p.dir, "-U", "onceonly", "-d", "postgres", "-c",
		"CREATE DATABASE "+name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("create database: %w: %s", err, out)
	}
	return nil
}

// A database is one test's.
type database struct {
	t   *testing.T
	env []string // how libpq finds it
}

var databases struct {
	sync.Mutex
	n int
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	_, err := postgres.Bin()
	if _, none := exec.LookPath("psql"); err != nil || none != nil {
		absent(t, "PostgreSQL, with psql (scripts/setup installs it)")
	}
	startPostgres.Do(func() { sharedPostgres, errPostgres = newPostgresServer() })
	if errPostgres != nil {
		t.Fatal(errPostgres)
	}
	databases.Lock()
	databases.n++
	name := "test" + strconv.Itoa(databases.n)
	err = sharedPostgres.createdb(name)
	databases.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return &database{t, []string{"PGHOST=" + sharedPostgres.dir, "PGUSER=onceonly", "PGDATABASE=" + name, "PGCLIENTENCODING=UTF8"}}
}

// do runs SQL by hand, and returns what it prints.
func (d *database) do(sql string) string {
	d.t.Helper()
	cmd := exec.Command("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-")
	cmd.Env, cmd.Stdin = append(os.Environ(), d.env...), strings.NewReader(sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", sql, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// A session is a psql that is told one step after the other, and answers each at once.
type session struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	err  strings.Builder
	cmd  *exec.Cmd
	mark string // what makes it print done, a number of rows, and a state
}

func (d *database) session(env ...string) *session {
	d.t.Helper()
	s := &session{t: d.t, cmd: exec.Command("stdbuf", "-oL", "psql", "-X", "-q", "-A", "-t", "-f", "-"),
		mark: `\echo done :ROW_COUNT :SQLSTATE`}
	s.cmd.Env, s.cmd.Stderr = append(append(os.Environ(), d.env...), env...), &s.err
	in, _ := s.cmd.StdinPipe()
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	d.t.Cleanup(func() {
		in.Close()
		s.cmd.Wait()
	})
	s.do("SELECT;") // before the first statement psql knows of none how it went
	return s
}

// An sqlResult is what came of SQL: how many rows its last statement touched, and the error of the last.
type sqlResult struct {
	rows  int
	state string // 00000 is none
	out   string
}

// send tells psql to do something; await waits until it is done.
func (s *session) send(sql string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, sql+"\n"+s.mark+"\n"); err != nil {
		s.t.Fatalf("psql: %v\n%s", err, s.err.String())
	}
}

func (s *session) await() (r sqlResult) {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("psql: %v", err)
		}
		if strings.HasPrefix(line, "done ") {
			if n, _ := fmt.Sscanf(line, "done %d %s", &r.rows, &r.state); n != 2 {
				s.t.Errorf("psql: %s", line)
			}
			return r
		}
		r.out += line
	}
}

func (s *session) do(sql string) sqlResult {
	s.t.Helper()
	s.send(sql)
	return s.await()
}
