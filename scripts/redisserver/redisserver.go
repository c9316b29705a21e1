// Package redisserver makes a Redis of our own, for the tests and for what measures.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	patience = 30 * time.Second     // for a server to answer
	pause    = 5 * time.Millisecond // between two looks
)

// Socket is where the server of a folder listens besides.
func Socket(dir string) string { return filepath.Join(dir, "s") }

// Command is a server that listens on a loopback port and on a socket in dir, and keeps nothing on disk, unless more
// arguments say otherwise.
func Command(dir string, port int, args ...string) *exec.Cmd {
	return exec.Command("redis-server", append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--unixsocket", Socket(dir), "--dir", dir, "--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "log")},
		args...)...)
}

// Client is a client of the server of a folder, which sends nothing twice.
func Client(dir string) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: Socket(dir), MaxRetries: -1, Protocol: 2})
}

// Await returns when the server answers; it may ask for a password.
func Await(ctx context.Context, rdb *redis.Client) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		err := rdb.Ping(ctx).Err()
		var said redis.Error
		if err == nil || (errors.As(err, &said) && !strings.HasPrefix(said.Error(), "LOADING")) {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}
