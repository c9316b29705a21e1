package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// What scripts/dist builds of the last commit: twice the same, and the .deb, unpacked, is an onceonly that works.
func TestDist(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		absent(t, "dpkg")
	}
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		absent(t, "a checkout of git")
	}
	t.Parallel()
	target := "linux/" + runtime.GOARCH
	first, second := distBuild(t, target), distBuild(t, target)
	for name, text := range first {
		if !bytes.Equal(text, second[name]) {
			t.Errorf("two builds differ: %s", name)
		}
	}
	if len(first) != 4 || len(second) != 4 { // the binary, .deb, .rpm, SHA256SUMS
		t.Errorf("%d and %d files", len(first), len(second))
	}
	deb, root := filepath.Join(t.TempDir(), "onceonly.deb"), t.TempDir()
	if err := os.WriteFile(deb, first["onceonly_"+version+"-1_"+runtime.GOARCH+".deb"], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dpkg", "-x", deb, root).CombinedOutput(); err != nil {
		t.Fatalf("dpkg -x: %v\n%s", err, out)
	}
	distWorks(t, root)
	distFiles(t, root)
}

// distBuild returns the files of a build, by name. Its sums are right.
func distBuild(t *testing.T, target string) map[string][]byte {
	t.Helper()
	dir, files := t.TempDir(), map[string][]byte{}
	if out, err := exec.Command("scripts/dist", dir, target).CombinedOutput(); err != nil {
		t.Fatalf("scripts/dist: %v\n%s", err, out)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 3 {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		files[filepath.Base(name)] = []byte(manualRead(t, name))
	}
	return files
}

// distWorks calls the package's program: it knows its commit, and runs a command once.
func distWorks(t *testing.T, root string) {
	program := filepath.Join(root, "usr/bin/onceonly")
	out, err := exec.Command(program, "--version").Output()
	commit, _ := exec.Command("git", "rev-parse", "HEAD").Output()
	if want := " (commit " + string(commit)[:8] + ", go1."; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("--version: %v, %q, want %q", err, out, want)
	}
	r := newRecorder(t, "invoice")
	for _, web := range []string{"web-1", "web-2"} {
		line := program + " run --date yesterday -- " + filepath.Join(r.dir, "invoice")
		silent(t, line, r.host(web).shell(line))
	}
	if calls := r.calls(); len(calls) != 1 {
		t.Errorf("called %q", calls)
	}
}

// distFiles are what a package has besides.
func distFiles(t *testing.T, root string) {
	for _, name := range []string{"man/man1/onceonly.1.gz", "man/man7/onceonly-fencing.7.gz", "doc/onceonly/changelog.gz"} {
		if out, err := exec.Command("gzip", "--test", filepath.Join(root, "usr/share", name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for name, has := range map[string]string{"doc/onceonly/copyright": "---- github.com/redis/go-redis/v9 ",
		"bash-completion/completions/onceonly": "complete -F", "zsh/vendor-completions/_onceonly": "#compdef onceonly\n",
		"fish/vendor_completions.d/onceonly.fish": "complete -c onceonly"} {
		if text := manualRead(t, filepath.Join(root, "usr/share", name)); !strings.Contains(text, has) {
			t.Errorf("%s has no %q", name, has)
		}
	}
	if info, err := os.Stat(filepath.Join(root, systemState)); err != nil {
		t.Error(err)
	} else if info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the state directory: %v", info.Mode())
	}
	distExample(t, filepath.Join(root, "usr/share/doc/onceonly/onceonly.conf.example"))
}

// distExample wants the example to change nothing as it is, and each of its options to be right.
func distExample(t *testing.T, name string) {
	text := manualRead(t, name)
	on := regexp.MustCompile(`(?m)^#(ONCEONLY_)`).ReplaceAllString(text, "$1")
	for says, text := range map[string]string{" 0 options": text, " 5 options": on} {
		file := filepath.Join(t.TempDir(), "onceonly.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := newHost(t, "web-1").run("doctor", "--offline", "--config", file); !strings.Contains(r.stdout, file) || !strings.Contains(r.stdout, says) {
			t.Errorf("with the example: %v, want %q", r, says)
		}
	}
}
