package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// Words: help, options, arguments. What a script can show stands in testdata/script/words_*.txtar.

var _ = caseHelper("case:args", helpArgs)

// helpArgs writes its arguments into a file, each ended by a NUL.
func helpArgs(args []string) int {
	if err := os.WriteFile(args[0], []byte(strings.Join(args[1:], "\x00")+"\x00"), 0o600); err != nil {
		return 1
	}
	return 0
}

// Arguments arrive as they are: no shell, no expansion, nothing dropped. (SH-54)
func TestCaseArguments(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "args")
	args := []string{"a b", "", "$HOME", "*", `'"\`, "\t", "a\nb", "ü😀", "\xff\xfe", "--", "-x", "--job", "-", "a|b", "`date`", "$(date)", "{date}",
		"%F", "~", "#", "!", strings.Repeat("x", 100_000), ""}
	for _, options := range []string{"", "-x"} {
		got := newHost(t, "web-1").run(caseRun("args"+options, options, append([]string{caseSelf(t), "case:args", name}, args...)...)...)
		got.want(t, 0, "")
		want := slices.Clone(args)
		if options == "-x" {
			want[slices.Index(want, "{date}")] = caseDay
		}
		text, _ := os.ReadFile(name)
		if string(text) != strings.Join(want, "\x00")+"\x00" {
			t.Errorf("with %q the command got %q", options, text)
		}
	}
	// argv[0] is the name as it was typed.
	r := newHost(t, "web-1").run(caseRun("zero", "", "sh", "-c", "echo $0")...)
	r.want(t, 0, "")
	if r.stdout != "sh\n" {
		t.Errorf("argv[0] is %q", r.stdout)
	}
}

// Help and version go to stdout with status 0, at most 80 columns wide and without tabs.
func TestCaseHelp(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1", "ONCEONLY_REDIS=redis://127.0.0.1:1")
	calls := [][]string{{"--help"}, {"-h"}, {"--version"}}
	for _, c := range app(nil, io.Discard, &voice{w: io.Discard}).Commands {
		calls = append(calls, []string{c.Name, "--help"}, []string{c.Name, "-h"})
	}
	for _, words := range calls {
		r := h.run(words...)
		r.want(t, 0, "")
		if r.stdout == "" || !strings.HasSuffix(r.stdout, "\n") || strings.Contains(r.stdout, "\t") {
			t.Errorf("%q: stdout %q", words, r.stdout)
		}
		for line := range strings.Lines(r.stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q: %d columns: %s", words, n, line)
			}
		}
	}
}

// Every option that a command has stands in its help, or in the general one; every option in its help is one that it has.
func TestCaseHelpIsComplete(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	option := regexp.MustCompile(`(?:^|[\s,[(])(--?[a-z][a-z-]*)`)
	names := func(text string) (found []string) {
		for _, m := range option.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		return found
	}
	general := names(h.run("--help").stdout)
	for _, c := range app(nil, io.Discard, &voice{w: io.Discard}).Commands {
		shown := names(h.run(c.Name, "--help").stdout)
		var has []string
		for _, f := range append(slices.Clone(c.Flags), cli.HelpFlag) {
			for _, name := range f.Names() {
				has = append(has, dashes(name))
			}
		}
		for _, name := range has {
			if !slices.Contains(shown, name) && (c.Name == "run" || !slices.Contains(general, name)) && name != "--help" && name != "-h" {
				t.Errorf("%s --help does not show %s", c.Name, name)
			}
		}
		for _, name := range shown {
			if !slices.Contains(has, name) {
				t.Errorf("%s --help shows %s, which it does not have", c.Name, name)
			}
		}
	}
}

// The examples in the help are lines for a crontab: what cron makes of them, a shell and onceonly understand. (SH-53)
func TestCaseHelpExamples(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	line := regexp.MustCompile(`(?m)^ *\S+ \S+ \* \* \* +(onceonly run .*)$`)
	found := line.FindAllStringSubmatch(h.run("--help").stdout+h.run("run", "--help").stdout, -1)
	if len(found) == 0 {
		t.Fatal("no example")
	}
	for _, m := range found {
		if strings.Contains(m[1], "%") {
			t.Errorf("cron cuts %q at the percent sign", m[1])
		}
		cmd := exec.Command("/bin/sh", "-c", strings.Replace(m[1], "onceonly run", "onceonly explain", 1))
		cmd.Env = h.env
		if r := caseStart(t, cmd).wait(); r.status != 0 {
			t.Errorf("%q: %v", m[1], r)
		}
	}
}

// A user who may not read the file of options, or the file of the URL, is told so, and nothing runs.
func TestCaseUnreadableFile(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "case") // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, conf, empty := filepath.Join(dir, "onceonly"), filepath.Join(dir, "onceonly.conf"), filepath.Join(dir, "empty")
	copyFile(t, binary, program)
	caseTouch(t, conf, "ONCEONLY_REDIS="+shared.url()+"\n")
	caseTouch(t, empty, "")
	os.Chmod(empty, 0o644)
	os.Chmod(dir, 0o755)
	if os.Getuid() != 0 {
		os.Chmod(conf, 0)
	}
	as := func(env string, args ...string) result {
		cmd := exec.Command(program, args...)
		cmd.Env = append(newHost(t, "web-1").env, env)
		cmd.Dir = "/"
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		}
		return caseStart(t, cmd).wait()
	}
	as("ONCEONLY_CONFIG="+conf, caseRun("j", "", "true")...).want(t, 78, "onceonly: "+conf+": permission denied\n"+
		"onceonly: hint: chgrp onceonly, chmod 640, and put the job's user into that group\n")
	as("ONCEONLY_CONFIG="+conf, "status").wantMatch(t, 78, "onceonly: "+conf+": permission denied\n(onceonly: hint: .*\n)?")
	as("ONCEONLY_CONFIG="+empty, caseRun("j", "--redis-file "+conf, "true")...).wantMatch(t, 78, "onceonly: "+
		"(--redis-file )?"+conf+": permission denied\n(onceonly: hint: .*\n)?")
	as("ONCEONLY_CONFIG="+empty, caseRun("j", "", "true")...).want(t, 0, "")
}
