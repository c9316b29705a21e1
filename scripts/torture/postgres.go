//go:build linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgreSQL is the judge: outside all faults, it keeps what commands did, in the order in which it was done.

//go:embed schema.sql
var schema string

// A judge is a PostgreSQL of our own, reached by a socket in its directory.
type judge struct {
	server *server
	socket string // the directory
	conn   *pgx.Conn
}

// url is for pgx.
func (j *judge) url() string { return "host=" + j.socket + " user=torture dbname=postgres" }

// newJudge makes and starts one below dir. The server refuses to run as root, so root runs it as somebody else.
func newJudge(dir string) (*judge, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	j := &judge{socket: dir}
	as, err := lesser()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "torture", "-A", "trust", "--no-sync",
		"--no-instructions", "-E", "UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	j.server = &server{name: "postgres", dir: dir, as: as, last: syscall.SIGINT, args: []string{
		filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=300",
		"-c", "shared_buffers=64MB", "-c", "autovacuum=off"}}
	return j, j.begin()
}

func (j *judge) begin() error {
	if err := j.server.start(); err != nil {
		return err
	}
	err := await("PostgreSQL", 30*time.Second, func() (up bool) {
		var err error
		j.conn, err = pgx.Connect(context.Background(), j.url())
		return err == nil || !j.server.alive()
	})
	if err == nil && j.conn != nil {
		_, err = j.conn.Exec(context.Background(), schema)
		return err
	}
	return fmt.Errorf("PostgreSQL does not start: %s", j.server.output())
}

func (j *judge) stop() {
	if j.conn != nil {
		j.conn.Close(context.Background())
	}
	j.server.stop()
}

// version is what the report says of it.
func (j *judge) version() (v string) {
	j.conn.QueryRow(context.Background(), "SHOW server_version").Scan(&v)
	return v
}

// postgresBin finds the newest server; packages put it outside PATH.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
		"/opt/homebrew/opt/postgresql*/bin"} {
		dirs, _ := filepath.Glob(pattern)
		slices.Reverse(dirs)
		for _, dir := range dirs {
			if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
				return dir, nil
			}
		}
	}
	return "", fmt.Errorf("no PostgreSQL server: scripts/setup installs it")
}

// lesser is whom root runs the judge as; nil for everybody else.
func lesser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("neither a user postgres nor nobody")
}
