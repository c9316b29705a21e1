package main

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"
)

// --version says version, commit and Go: as much of it as the build was told.
func TestVersion(t *testing.T) {
	t.Parallel()
	r := newHost(t, "web-1").run("--version")
	want := regexp.MustCompile(`^onceonly ` + regexp.QuoteMeta(version) + ` \((commit [0-9a-f]{8}( with changes)?, )?` +
		regexp.QuoteMeta(runtime.Version()) + `\)\n$`)
	if r.status != 0 || r.stderr != "" || !want.MatchString(r.stdout) {
		t.Errorf("%v\nwant %s", r, want)
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "1a2b3c4d5e6f70819293a4b5c6d7e8f901234567"}
	for want, settings := range map[string][]debug.BuildSetting{
		"":                               nil,
		"commit 1a2b3c4d, ":              {revision, {Key: "vcs.modified", Value: "false"}},
		"commit 1a2b3c4d with changes, ": {revision, {Key: "vcs.modified", Value: "true"}},
	} {
		if got := commitOf(&debug.BuildInfo{Settings: settings}); got != want {
			t.Errorf("%v: %q, want %q", settings, got, want)
		}
	}
}

// The newest version of CHANGELOG.md is the program's.
func TestVersionChangelog(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`(?m)^## \[?(\d\S*?)\]? - \d{4}-\d\d-\d\d$`).FindStringSubmatch(manualRead(t, "CHANGELOG.md"))
	if m == nil || m[1] != version {
		t.Errorf("CHANGELOG.md begins with %q, the program is %s", m, version)
	}
}
