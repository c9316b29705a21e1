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

// What scripts/dist builds of the last commit: twice the same; the .deb, installed, is an onceonly that works, and goes when
// it is removed, and so does the .rpm.
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
	packages := t.TempDir()
	for name, text := range first {
		caseTouch(t, filepath.Join(packages, name), string(text))
	}
	deb := filepath.Join(packages, "onceonly_"+version+"-1_"+runtime.GOARCH+".deb")
	rpms, _ := filepath.Glob(filepath.Join(packages, "*.rpm"))
	t.Run("deb", func(t *testing.T) { distDeb(t, deb) })
	t.Run("rpm", func(t *testing.T) { distRPM(t, rpms[0]) })
}

// distDeb installs the .deb below a folder, where dpkg has a list of packages of its own. What it recommends is not there.
func distDeb(t *testing.T, deb string) {
	root := t.TempDir()
	dpkg := func(args ...string) string {
		return distRun(t, "dpkg", append([]string{"--root=" + root, "--log=/dev/null"}, args...)...)
	}
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, list := range []string{"status", "available"} {
		caseTouch(t, filepath.Join(root, "var/lib/dpkg", list), "")
	}
	dpkg("-i", deb)
	if said := dpkg("-s", "onceonly"); !strings.Contains(said, "\nStatus: install ok installed\n") {
		t.Errorf("dpkg -s: %q", said)
	}
	if changed := dpkg("-V", "onceonly"); changed != "" {
		t.Errorf("dpkg -V: %q", changed)
	}
	distWorks(t, root)
	distFiles(t, root, "zsh/vendor-completions", "doc/onceonly/copyright")
	dpkg("-r", "onceonly")
	distGone(t, root)
}

// distRPM does the same with the .rpm. A system whose packages are others has a list of no rpm, so that all it needs lacks.
func distRPM(t *testing.T, file string) {
	if _, err := exec.LookPath("rpm"); err != nil {
		absent(t, "rpm")
	}
	root := t.TempDir()
	rpm := func(args ...string) string { return distRun(t, "rpm", append([]string{"--root", root}, args...)...) }
	rpm("--initdb")
	rpm("-i", "--nodeps", file)
	rpm("-V", "onceonly")
	distWorks(t, root)
	distFiles(t, root, "zsh/site-functions", "licenses/onceonly/LICENSE")
	rpm("-e", "onceonly")
	distGone(t, root)
}

// distRun returns what a program says on stdout, run by root or by somebody who takes himself for root, and wants it to
// succeed.
func distRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	var said strings.Builder
	words := append([]string{name}, args...)
	if os.Getuid() != 0 {
		words = append([]string{"unshare", "--map-root-user"}, words...)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, said.String())
	}
	return string(out)
}

// distGone wants nothing of a package to be left.
func distGone(t *testing.T, root string) {
	filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(name), "onceonly") && !strings.Contains(name, "/lib/dpkg/") {
			t.Errorf("left: %s", name)
		}
		return err
	})
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

// distFiles are what a package has besides; where two of them lie is the package's choice.
func distFiles(t *testing.T, root, zsh, copyright string) {
	for _, name := range []string{"man/man1/onceonly.1.gz", "man/man7/onceonly-fencing.7.gz", "doc/onceonly/changelog.gz"} {
		if out, err := exec.Command("gzip", "--test", filepath.Join(root, "usr/share", name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for name, has := range map[string]string{copyright: "---- github.com/redis/go-redis/v9 ",
		"bash-completion/completions/onceonly": "complete -F", zsh + "/_onceonly": "#compdef onceonly\n",
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
