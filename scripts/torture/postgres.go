//go:build linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"onceonly/scripts/postgres"
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

// newJudge makes and starts one below dir.
func newJudge(dir string) (*judge, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	cmd, err := postgres.Command(dir, "torture", "synchronous_commit=off", "full_page_writes=off", "max_connections=300",
		"shared_buffers=64MB")
	if err != nil {
		return nil, err
	}
	j := &judge{socket: dir, server: &server{name: "postgres", dir: dir, args: cmd.Args, as: cmd.SysProcAttr.Credential,
		last: syscall.SIGINT}}
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
