// Package postgres makes a PostgreSQL of our own, for the tests and for torture.
package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Bin finds the newest server's programs; packages put them outside PATH.
func Bin() (string, error) {
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
	return "", errors.New("no PostgreSQL server: scripts/setup installs it")
}

// Command makes a database cluster below dir, which is there and can be reached by everybody, and returns what starts its
// server, with more settings NAME=VALUE: it listens on a socket in dir, and trusts a superuser of that name. The server
// refuses to run as root, so root runs it as somebody else.
func Command(dir, superuser string, settings ...string) (*exec.Cmd, error) {
	bin, err := Bin()
	if err != nil {
		return nil, err
	}
	as, err := lesser()
	if err == nil && as != nil {
		err = os.Chown(dir, int(as.Uid), int(as.Gid))
	}
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), append([]string{"-D", data}, args...)...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	if out, err := command("initdb", "-U", superuser, "-A", "trust", "--no-sync", "--no-instructions", "-E", "UTF8",
		"--locale=C").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	args := []string{"-k", dir}
	for _, setting := range append([]string{"listen_addresses=", "fsync=off", "autovacuum=off"}, settings...) {
		args = append(args, "-c", setting)
	}
	return command("postgres", args...), nil
}

// lesser is whom root runs the server as; nil for everybody else.
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
	return nil, errors.New("neither a user postgres nor nobody")
}
