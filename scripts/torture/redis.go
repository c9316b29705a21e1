//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A node is a redis-server or a Sentinel of our own. We are user admin, hosts are user default, and nodes among
// themselves are user inner, so that each can be refused alone.
type node struct {
	*server
	port  int
	clock *shim // nil: the machine's
	admin *redis.Client
}

const users = `user default on nopass ~* &* +@all
user admin on >admin ~* &* +@all
user inner on >inner ~* &* +@all
`

// newNode writes the configuration; start starts it.
func newNode(dir, name string, port int, sentinel bool, config string) (*node, error) {
	n := &node{port: port}
	file := filepath.Join(dir, name+".conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\ndaemonize no\n%s", port, dir, users)
	args := []string{"redis-server", file}
	if sentinel {
		args = append(args, "--sentinel")
	} else {
		text += "save \"\"\nenable-protected-configs local\nbusy-reply-threshold 50\nloglevel notice\n"
	}
	if err := os.WriteFile(file, []byte(text+config), 0o600); err != nil {
		return nil, err
	}
	n.server = &server{name: name, args: args, dir: dir, last: syscall.SIGKILL}
	n.admin = redis.NewClient(&redis.Options{Addr: n.address(), Username: "admin", Password: "admin", Protocol: 2,
		DialTimeout: time.Second, ReadTimeout: 2 * time.Second, MaxRetries: -1, DisableIdentity: true})
	return n, nil
}

func (n *node) address() string { return "127.0.0.1:" + strconv.Itoa(n.port) }

// start returns when it answers.
func (n *node) start() error {
	if n.clock != nil {
		n.env = n.clock.environment()
	}
	if err := n.server.start(); err != nil {
		return err
	}
	err := await(n.name, 10*time.Second, func() bool {
		return n.admin.Ping(context.Background()).Err() == nil || !n.alive()
	})
	if err != nil || !n.alive() {
		return fmt.Errorf("%s does not start: %s", n.name, n.output())
	}
	return nil
}

// do sends a command of words; what fails is returned.
func (n *node) do(line string) error {
	_, err := n.ask(line)
	return err
}

// ask is do, and the answer.
func (n *node) ask(line string) (any, error) {
	var args []any
	for _, w := range strings.Fields(line) {
		args = append(args, w)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return n.admin.Do(ctx, args...).Result()
}

// info is one line of INFO.
func (n *node) info(name string) string {
	text, _ := n.admin.Info(context.Background()).Result()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

func (n *node) end() {
	n.server.stop()
	n.admin.Close()
}
