package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// manualMigration has lines before and after: at the same time the same command, its last word. What comes after is run.
func manualMigration(t *testing.T, shown []string) {
	if len(shown)%2 != 0 {
		t.Fatalf("not lines before and after: %q", shown)
	}
	for pair := range slices.Chunk(shown, 2) {
		before, was := strings.CutPrefix(pair[0], "- ")
		after, is := strings.CutPrefix(pair[1], "+ ")
		if !was || !is {
			t.Fatalf("not a line before and a line after: %q", pair)
		}
		if a, b := strings.Fields(before)[:5], strings.Fields(after)[:5]; !slices.Equal(a, b) {
			t.Errorf("%q became %q", a, b)
		}
		t.Run(programsOf(t, after)[0], func(t *testing.T) { runCrontab(t, after) })
		renamed := strings.Contains(before, "onceonly ") // from one name to the other
		if a, b := endsWith(t, before), endsWith(t, after); a != b && !renamed {
			t.Errorf("%q became %q", a, b)
		}
		if renamed {
			manualRenamed(t, before, after)
		}
	}
}

func endsWith(t *testing.T, line string) string {
	t.Helper()
	words := wordsOf(t, crontabCommand(t, line))
	return words[len(words)-1]
}

// manualRenamed wants what ran under the line before to be done for the line after.
func manualRenamed(t *testing.T, before, after string) {
	old, renamed := programsOf(t, before)[0], programsOf(t, after)[0]
	r := newRecorder(t, old, renamed)
	for _, c := range []struct{ host, line string }{{"web-1", before}, {"web-2", after}} {
		command := strings.Replace(crontabCommand(t, c.line), " run ", " run --namespace "+namespaceOf(t)+".renamed --date yesterday ", 1)
		silent(t, command, r.host(c.host).shell(r.here(command)))
	}
	if !slices.Equal(r.calls(), []string{old}) {
		t.Errorf("called %q, want %q alone", r.calls(), old)
	}
}

// manualRollout calls what validates a file, with one that is right and one that is not.
func manualRollout(t *testing.T, shown []string) {
	dir, h := t.TempDir(), newHost(t, "web-1")
	files := map[string][2]string{ // by how validate names it
		"%s --offline":          {"0 2 * * * root onceonly run -- /usr/bin/invoice\n", "0 2 * * * root onceonly run -- php mail.php\n"},
		"--offline --config %s": {"ONCEONLY_TZ=Asia/Seoul\n", "ONCEONLY_TZ=Asia/Soul\n"},
	}
	for _, m := range regexp.MustCompile(`(?m)^ +validate: onceonly doctor (.*)$`).FindAllStringSubmatch(strings.Join(shown, "\n"), -1) {
		for status, text := range files[m[1]] {
			name := filepath.Join(dir, ".source")
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if r := h.run(append([]string{"doctor"}, strings.Fields(strings.ReplaceAll(m[1], "%s", name))...)...); r.status != status {
				t.Errorf("%s, with %q: %v, want status %d", m[0], text, r, status)
			}
		}
		delete(files, m[1])
	}
	if len(files) > 0 {
		t.Errorf("nothing is validated so: %q", files)
	}
}
