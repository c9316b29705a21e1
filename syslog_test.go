package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Where onceonly speaks. Its syslog is a socket of the test's own: the real program, linked with another path, the name
// of a socket in the folder that it is started in. One test has the real path.

var ofFolder struct {
	sync.Once
	program string
	err     error
}

// logBinary is the program that looks for syslog in its own folder.
func logBinary(t *testing.T) string {
	t.Helper()
	ofFolder.Do(func() {
		ofFolder.program = filepath.Join(filepath.Dir(binary), "onceonly-log")
		ofFolder.err = buildProgram(ofFolder.program, "-ldflags", "-X main.logSocket=log")
	})
	if ofFolder.err != nil {
		t.Fatal(ofFolder.err)
	}
	return ofFolder.program
}

// A logHost is a host with a folder for syslog's socket.
type logHost struct {
	*host
	dir string
}

func newLogHost(t *testing.T, name string, env ...string) *logHost {
	return &logHost{newHost(t, name, env...), t.TempDir()}
}

func (h *logHost) run(args ...string) result {
	h.t.Helper()
	var out, err strings.Builder
	cmd := h.command(args...)
	cmd.Path, cmd.Dir, cmd.Stdout, cmd.Stderr = logBinary(h.t), h.dir, &out, &err
	return result{exitStatus(h.t, cmd.Run()), out.String(), err.String()}
}

// listen is a syslog that keeps what it gets.
func (h *logHost) listen() *net.UnixConn { return h.listenAt("log") }

func (h *logHost) listenAt(name string) *net.UnixConn {
	h.t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(h.dir, name), Net: "unixgram"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c
}

var logHead = regexp.MustCompile(`^<(\d+)>([A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d) onceonly\[(\d+)\]: `)

// heard is what has come so far, without what tells one process and second from another.
func heard(t *testing.T, c *net.UnixConn) (lines []string) {
	t.Helper()
	buffer := make([]byte, 1<<16)
	for {
		n, err := readNow(c, buffer) // what a process has sent before it ended is here
		if err != nil {
			return lines
		}
		line := string(buffer[:n])
		m := logHead.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a line for syslog: %q", line)
		}
		at, err := time.ParseInLocation(time.Stamp, m[2], time.UTC)
		if now := time.Now().UTC(); err != nil || m[2] != at.Format(time.Stamp) ||
			now.Sub(at.AddDate(now.Year(), 0, 0)).Abs() > time.Hour {
			t.Errorf("time %q, it is %v", m[2], now)
		}
		lines = append(lines, "<"+m[1]+">"+line[len(m[0]):])
	}
}

func readNow(c *net.UnixConn, buffer []byte) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { n, _, failed = unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT) })
	if err == nil {
		err = failed
	}
	return n, err
}

func wantHeard(t *testing.T, what string, c *net.UnixConn, patterns ...string) {
	t.Helper()
	lines := heard(t, c)
	if !regexp.MustCompile(`^` + strings.Join(patterns, "\n") + `$`).MatchString(strings.Join(lines, "\n")) {
		t.Errorf("%s: syslog got %q\nwant %q", what, lines, patterns)
	}
}

// TestLogPlaces: who speaks where. Syslog gets what is normal, too, and each line with its priority; stderr gets what it
// always gets, or nothing.
func TestLogPlaces(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"", "stderr", "syslog", "both"} {
		t.Run("at "+place, func(t *testing.T) {
			t.Parallel()
			h := newLogHost(t, "web-1")
			if place != "" {
				h.env = append(h.env, "ONCEONLY_LOG="+place)
			}
			c := h.listen()
			const clock = `(\d\d-\d\d )?\d\d:\d\d:\d\d`
			told := func(what string, status int, normal bool, args []string, patterns ...string) {
				t.Helper()
				r := h.run(args...)
				var stderr, syslog []string
				for _, p := range patterns {
					stderr = append(stderr, "onceonly: "+p+"\n")
					syslog = append(syslog, map[bool]string{true: "<78>", false: "<76>"}[normal]+p)
				}
				if place == "syslog" || normal && args[1] != "-v" {
					stderr = nil
				}
				r.wantMatch(t, status, strings.Join(stderr, ""))
				if place != "syslog" && place != "both" {
					syslog = nil
				}
				wantHeard(t, what, c, syslog...)
			}
			told("runs", 0, false, caseRun("j", "", "true"))
			told("done", 0, true, caseRun("j", "", "true"), `j 2024-02-29: not run: done on web-1 at `+clock+` \(\d+s\)`)
			told("done, -v", 0, true, append([]string{"run", "-v"}, caseRun("j", "", "true")[1:]...),
				`j 2024-02-29: not run: done on web-1 at `+clock+` \(\d+s\)`)
			told("fails", 3, false, caseRun("f", "", "sh", "-c", "exit 3"))
			failed := []string{`f 2024-02-29: not run: failed on web-1 at ` + clock + ` \(exit 3\), no attempt left`,
				`hint: onceonly resolve f --date 2024-02-29 --done or --reopen, --reason TEXT`}
			told("failed", 75, false, caseRun("f", "", "sh", "-c", "exit 3"), failed...)
			told("failed, told", 75, true, caseRun("f", "", "sh", "-c", "exit 3"), failed...)
			told("absent", 127, false, caseRun("a", "", "/no/such"), `a 2024-02-29: /no/such: no such file or directory`)
			told("usage", 64, false, caseRun("a", "--lease 5", "true"), `--lease "5": a number needs a unit`, `hint: 5s`)
			told("no option", 64, false, caseRun("a", "--no-such", "true"), `no option --no-such`, `hint: .*`)
			told("shell", 64, false, []string{"run", "a | b"}, `"a \| b": "\|" at character 3 needs a shell`, `hint: .*`)
		})
	}
}

// TestLogPlaceGiven: --log beats the environment, and that the file, also where other words are wrong.
func TestLogPlaceGiven(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "onceonly.conf")
	for _, c := range []struct{ file, env, option, heard string }{
		{"both", "", "", "both"},
		{"both", "stderr", "", "stderr"},
		{"stderr", "syslog", "", "syslog"},
		{"syslog", "stderr", "both", "both"},
		{"", "", "syslog", "syslog"},
		{"", "", "nowhere", "stderr"},
		{"syslog", "", "nowhere", "stderr"},
		{"nowhere", "", "", "both"}, // the file cannot be read: it may say anything
		{"nowhere", "", "syslog", "syslog"},
		{"nowhere", "stderr", "", "stderr"},
	} {
		h := newLogHost(t, "web-1", "ONCEONLY_CONFIG="+file)
		l := h.listen()
		text := ""
		if c.file != "" {
			text = "ONCEONLY_LOG=" + c.file + "\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.env != "" {
			h.env = append(h.env, "ONCEONLY_LOG="+c.env)
		}
		options := "--attempts none"
		if c.option != "" {
			options = "--log " + c.option + " " + options
		}
		r := h.run(caseRun("j", options, "true")...)
		got := map[[2]bool]string{{true, false}: "stderr", {false, true}: "syslog", {true, true}: "both"}[[2]bool{
			r.stderr != "", len(heard(t, l)) > 0}]
		if r.status != 64 || got != c.heard {
			t.Errorf("%+v: heard at %q; %v", c, got, r)
		}
	}
	newHost(t, "web-1").run(caseRun("j", "--log mail", "true")...).want(t, 64,
		"onceonly: --log \"mail\": not stderr or syslog or both\n")
}

// A syslog that is not there, is full, hangs, or is no syslog changes nothing but that stderr gets what it was to have.
func TestLogUnwilling(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(h *logHost){
		"absent": func(h *logHost) {},
		"a file": func(h *logHost) { caseTouch(h.t, filepath.Join(h.dir, "log"), "") },
		"left behind": func(h *logHost) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.dir, "log"), Net: "unix"})
			if err != nil {
				h.t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		},
		"full": func(h *logHost) {
			h.listen()
			fill(h.t, filepath.Join(h.dir, "log"), unix.SOCK_DGRAM)
		},
		"hangs": func(h *logHost) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			name := filepath.Join(h.dir, "log")
			if err != nil || unix.Bind(fd, &unix.SockaddrUnix{Name: name}) != nil || unix.Listen(fd, 0) != nil {
				h.t.Fatal(err)
			}
			h.t.Cleanup(func() { unix.Close(fd) })
			fill(h.t, name, unix.SOCK_STREAM)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, place := range []string{"syslog", "both"} {
				h := newLogHost(t, "web-1", "ONCEONLY_LOG="+place)
				spoil(h)
				line := caseRun(place, "--attempts 2 --retry-delay 1ms", "sh", "-c", "echo out; exit $((2 - ONCEONLY_ATTEMPT))")
				h.run(line...).wantOut(t, "out\nout\n")
				silent(t, "done", h.run(line...))
				h.run(caseRun(place+"-absent", "", "/no/such")...).want(t, 127,
					"onceonly: "+place+"-absent 2024-02-29: /no/such: no such file or directory\n")
			}
		})
	}
}

// fill makes a socket that nobody reads take no more.
func fill(t *testing.T, name string, kind int) {
	t.Helper()
	for range 100_000 {
		fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		if err == nil && kind == unix.SOCK_DGRAM {
			for err == nil {
				_, err = unix.Write(fd, []byte("full"))
			}
			if err != unix.EAGAIN {
				t.Fatal(err)
			}
		}
		if err == unix.EAGAIN {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("never full")
}

// TestLogStream: some listen by a stream, where a NUL ends a message.
func TestLogStream(t *testing.T) {
	t.Parallel()
	h := newLogHost(t, "web-1", "ONCEONLY_LOG=syslog")
	l, err := net.Listen("unix", filepath.Join(h.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h.run(caseRun("j", "", "/no/such")...).want(t, 127, "")
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1000)
	n, _ := c.Read(buffer)
	if !regexp.MustCompile(`^<76>.{15} onceonly\[\d+\]: j 2024-02-29: /no/such: no such file or directory\x00$`).Match(buffer[:n]) {
		t.Errorf("syslog got %q", buffer[:n])
	}
}

// A syslog that is started anew while a command runs hears what comes then.
func TestLogStartedAnew(t *testing.T) {
	t.Parallel()
	h := newLogHost(t, "web-1", "ONCEONLY_LOG=syslog")
	before, after := h.listen(), h.listenAt("new")
	h.run(caseRun("j", "", "sh", "-c", "exit 3")...).want(t, 3, "")
	h.run(caseRun("j", "", "sh", "-c", "exit 3")...).want(t, 75, "")
	wantHeard(t, "before", before, `<76>j 2024-02-29: not run: failed .*`, `<76>hint: .*`)
	h.run(caseRun("k", "--attempts 2 --retry-delay 1ms", "sh", "-c", `[ "$ONCEONLY_ATTEMPT" = 2 ] || { mv new log; exit 3; }`)...).
		want(t, 0, "")
	wantHeard(t, "the old one", before)
	wantHeard(t, "the new one", after, `<78>k 2024-02-29: attempt 2 of 2: attempt 1 failed on web-1 \(exit 3\)`)
}

// TestLogRealPath runs the program that people get, with a /dev/log of its own.
func TestLogRealPath(t *testing.T) {
	t.Parallel()
	if exec.Command("unshare", "-m", "true").Run() != nil {
		t.Skip("a /dev of one's own needs rights that are not here")
	}
	dir := t.TempDir()
	h := &logHost{newHost(t, "web-1"), dir}
	c := h.listen()
	const private = `set -e; mkdir dev; mount -t tmpfs none dev; for f in null log; do : >dev/$f; done
		mount --bind /dev/null dev/null; mount --bind log dev/log; mount --rbind dev /dev; exec "$@"`
	cmd := exec.Command("unshare", "-m", "sh", "-c", private, "sh", binary, "run", "--log", "both", "--job", "j", "--date", caseDay,
		"--", "/no/such")
	cmd.Dir, cmd.Env = dir, h.env
	out, err := cmd.CombinedOutput()
	const text = "j 2024-02-29: /no/such: no such file or directory"
	if exitStatus(t, err) != 127 || string(out) != "onceonly: "+text+"\n" {
		t.Errorf("status %v, %q", err, out)
	}
	wantHeard(t, "/dev/log", c, "<76>"+text)
}
