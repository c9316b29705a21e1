package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
)

// The manual's examples work: crontab lines, scripts and the file of options.

// TestManualCrontab wants the binary to accept every crontab line of EXAMPLES and of the help, and to find nothing against
// running it.
func TestManualCrontab(t *testing.T) {
	cron := regexp.MustCompile(`(?m)^ *((?:[0-9*/,-]+ +){5})(.*)$`)
	h := newHost(t, "web-1")
	shown := cron.FindAllStringSubmatch(manualLiteral(manualSection(t, "EXAMPLES"))+manualRead(t, "man/help.txt"), -1)
	if len(shown) < 10 {
		t.Errorf("only %d crontab lines found", len(shown))
	}
	for i, m := range shown {
		fields, line := oneSpaced(m[1]), m[2]
		if _, err := parseSchedule(fields); err != nil {
			t.Errorf("%q: %v", m[0], err)
		}
		if strings.Contains(strings.ReplaceAll(line, `\%`, ""), "%") {
			t.Errorf("%q: cron ends the command at %%", m[0])
		}
		_, line, found := strings.Cut(" "+line, " onceonly run ")
		words, err := shellwords.Parse(line)
		if !found || err != nil {
			t.Errorf("%q: no onceonly run, or %v", m[0], err)
			continue
		}
		if at := slices.Index(words, "--schedule"); at >= 0 && words[at+1] != fields {
			t.Errorf("%q: --schedule says otherwise than the line", m[0])
		}
		namespace := fmt.Sprintf("%s.%d", namespaceOf(t), i)
		r := h.run(slices.Concat([]string{"explain", "--namespace", namespace}, words)...)
		if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, ": would run, attempt 1 of ") {
			t.Errorf("%q: %v", m[0], r)
		}
	}
}

// TestManualScripts wants sh to read the scripts of EXAMPLES.
func TestManualScripts(t *testing.T) {
	scripts := regexp.MustCompile(`(?ms)^#!/bin/sh\n.*?^\.Ed$`).FindAllString(manualLiteral(manualSection(t, "EXAMPLES")), -1)
	if len(scripts) == 0 {
		t.Error("no scripts found")
	}
	for _, s := range scripts {
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = strings.NewReader(strings.TrimSuffix(s, ".Ed"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, s)
		}
	}
}

// TestManualConfig wants the program to read the file that FILES shows, and its zone to decide.
func TestManualConfig(t *testing.T) {
	_, text, found := strings.Cut(manualSection(t, "FILES"), ".Bd -literal -offset indent\n")
	text, _, _ = strings.Cut(text, ".Ed\n")
	name := filepath.Join(t.TempDir(), "onceonly.conf")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil || !found {
		t.Fatal(err, found)
	}
	r := newHost(t, "web-1", "ONCEONLY_CONFIG="+name).run("explain", "--", "invoice")
	if r.status != 0 || !strings.Contains(r.stdout, "Asia/Seoul, from "+name) {
		t.Errorf("with the manual's file: %v", r)
	}
}
