package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What README.md shows is true, and little enough to be read: every line of its blocks of code is run, or read as its reader in life would. A block
// says what it is; one that no test knows fails.
func TestReadme(t *testing.T) {
	if n := strings.Count(manualRead(t, "README.md"), "\n"); n > 150 {
		t.Errorf("README.md has %d lines", n)
	}
	blocks := readmeBlocks(t)
	checks := map[string]func(*testing.T, []string){"sh": readmeShell, "crontab": readmeCrontab, "diff": readmeDiff,
		"ini": readmeConfig, "console": readmeStatus}
	if len(blocks) != len(checks) {
		t.Errorf("README.md shows %d kinds of blocks, want %d", len(blocks), len(checks))
	}
	for kind, shown := range blocks {
		check := checks[kind]
		if check == nil {
			t.Errorf("no test for a block of kind %q: %q", kind, shown)
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			check(t, shown)
		})
	}
}

var codeBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// otherBlock begins a block of code in another way.
var otherBlock = regexp.MustCompile("(?m)^(```|~~~| {4}|\t).*$")

// readmeBlocks are the lines of code in README.md by the kind of their block.
func readmeBlocks(t *testing.T) map[string][]string {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	if m := otherBlock.FindString(codeBlock.ReplaceAllString(string(text), "")); m != "" {
		t.Errorf("README.md has a block of code that this test does not read: %q", m)
	}
	for _, m := range codeBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(m[2]) {
			blocks[m[1]] = append(blocks[m[1]], strings.TrimRight(line, "\n"))
		}
	}
	return blocks
}

// readmeShell runs what is typed by hand. make installs into a folder of the test's; demo has a test of its own, and of
// test, which would run this one, only the name is known to be right.
func readmeShell(t *testing.T, shown []string) {
	var typed []string
	for _, line := range shown {
		if strings.HasPrefix(line, "onceonly ") {
			typed = append(typed, line)
			continue
		}
		for command := range strings.SplitSeq(line, "&&") {
			switch words := wordsOf(t, strings.TrimPrefix(strings.TrimSpace(command), "sudo ")); {
			case slices.Equal(words, []string{"make"}):
				runMake(t)
			case slices.Equal(words, []string{"make", "install"}):
				makeInstall(t)
			case slices.Equal(words, []string{"make", "demo"}) || slices.Equal(words, []string{"make", "test"}):
				runMake(t, "-n", words[1])
			default:
				t.Errorf("no command that this test knows: %q", line)
			}
		}
	}
	runByHand(t, typed)
}

func runMake(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("make", args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // those of a make that runs this test
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("make %q: %v\n%s", args, err, out)
	}
}

func makeInstall(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	runMake(t, "install", "DESTDIR="+dir)
	if out, err := exec.Command(filepath.Join(dir, "usr/bin/onceonly"), "--version").CombinedOutput(); err != nil {
		t.Errorf("the installed onceonly: %v\n%s", err, out)
	}
	for _, page := range []string{"man1/onceonly.1", "man7/onceonly-fencing.7"} {
		if _, err := os.Stat(filepath.Join(dir, "usr/share/man", page)); err != nil {
			t.Errorf("the installed manual: %v", err)
		}
	}
	installedCompletion(t, dir)
}

// installedCompletion wants each shell's script where it looks, and that to be what the program prints.
func installedCompletion(t *testing.T, dir string) {
	t.Helper()
	looks := map[string]string{"bash": "bash-completion/completions/onceonly", "fish": "fish/vendor_completions.d/onceonly.fish",
		"zsh": "zsh/site-functions/_onceonly"}
	if _, err := os.Stat("/etc/debian_version"); err == nil {
		looks["zsh"] = "zsh/vendor-completions/_onceonly"
	}
	for shell, name := range looks {
		want := newHost(t, "web-1").run("completion", shell)
		if got := manualRead(t, filepath.Join(dir, "usr/share", name)); want.status != 0 || got != want.stdout {
			t.Errorf("%s is not what onceonly completion %s prints", name, shell)
		}
	}
	for shell, ask := range map[string][]string{"zsh": {"-fc", "print -l $fpath"}, "fish": {"-c", `string join \n $fish_complete_path`}} {
		if out, err := exec.Command(shell, ask...).Output(); err == nil &&
			!slices.Contains(strings.Fields(string(out)), filepath.Dir(filepath.Join("/usr/share", looks[shell]))) {
			t.Errorf("%s does not look for %s: %s", shell, looks[shell], out)
		}
	}
}

func readmeCrontab(t *testing.T, shown []string) {
	for _, line := range shown {
		t.Run(programsOf(t, line)[0], func(t *testing.T) { runCrontab(t, line) })
	}
}

// readmeDiff is a line before and after: the same line, with onceonly in front of the command.
func readmeDiff(t *testing.T, shown []string) {
	if len(shown) != 2 || shown[0][:2] != "- " || shown[1][:2] != "+ " {
		t.Fatalf("not a line before and a line after: %q", shown)
	}
	before, after := crontabCommand(t, shown[0][2:]), crontabCommand(t, shown[1][2:])
	if after != "onceonly run -- "+before {
		t.Errorf("%q became %q", before, after)
	}
	readmeCrontab(t, []string{shown[1][2:]})
}

// readmeConfig reads the file as onceonly does: its zone decides, and an option beats its Redis.
func readmeConfig(t *testing.T, shown []string) {
	name := filepath.Join(t.TempDir(), "onceonly.conf")
	if err := os.WriteFile(name, []byte(strings.Join(shown, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "web-1", "ONCEONLY_CONFIG="+name)
	r := h.run("explain", "--redis", shared.url(), "--", "/usr/bin/invoice")
	zone := regexp.MustCompile(`(?m)^zone +Asia/Seoul, from ` + name)
	if r.status != 0 || r.stderr != "" || !zone.MatchString(r.stdout) {
		t.Errorf("with the README's file: %v", r)
	}
}

// readmeStatus makes a ledger of two jobs that ended as the README shows, and compares all that does not depend on when
// and where.
func readmeStatus(t *testing.T, shown []string) {
	if shown[0] != "$ onceonly status" {
		t.Fatalf("not what this test makes: %q", shown[0])
	}
	h := newHost(t, "web-2")
	h.run("run", "--job", "invoice", "--", "true").want(t, 0, "")
	makeUncertain(t, "web-1", "backup")
	r := h.run("status")
	got := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	if r.status != 0 || r.stderr != "" || len(got) != len(shown)-1 {
		t.Fatalf("onceonly status: %v\nwant %d lines as in README.md", r, len(shown)-1)
	}
	for i, want := range shown[1:] {
		if a, b := shape(got[i]), shape(want); a != b {
			t.Errorf("got  %s\nwant %s, as in README.md:\n%s\n%s", a, b, got[i], want)
		}
	}
}

// makeUncertain kills an onceonly while its command runs, and returns when its lease is over.
func makeUncertain(t *testing.T, host, job string) {
	t.Helper()
	begun := filepath.Join(t.TempDir(), "begun")
	cmd := newHost(t, host).command("run", "--lease", "1s", "--job", job, "--", "sh", "-c", `>"$0"; exec sleep 60`, begun)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, host+" runs "+job, func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	cmd.Process.Kill()
	cmd.Wait()
	lock := (&ledger{namespace: namespaceOf(t)}).keys(job)[0]
	eventually(t, "the lease of "+job+" is over", func() bool {
		return shared.rdb.Exists(context.Background(), lock).Val() == 0
	})
}

// shape is a row of a table without dates, durations and the slots before the newest.
func shape(row string) string {
	row = regexp.MustCompile(`\d{4}-\d\d-\d\d`).ReplaceAllString(row, "DATE")
	row = regexp.MustCompile(`\b(\d+[dhms])+\b`).ReplaceAllString(row, "TIME")
	row = regexp.MustCompile(`[-.+? ]*([.?])$`).ReplaceAllString(row, " $1")
	return strings.Join(strings.Fields(row), " ")
}
