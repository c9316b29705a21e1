package main

import "testing"

// An option that there is not: the hint is the one that was probably meant, of the command at hand; where none is near, where
// the help is.
func TestCaseNearestOption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ command, typed, says, hint string }{
		{"run", "--attempt", "--attempt", "--attempts"},
		{"run", "--attempt=2", "--attempt", "--attempts"},
		{"run", "-attempt", "--attempt", "--attempts"},
		{"run", "--shedule", "--shedule", "--schedule"},
		{"run", "--catchup", "--catchup", "--catch-up"},
		{"run", "--catch-upmax", "--catch-upmax", "--catch-up-max"},
		{"run", "--jbo", "--jbo", "--job"},
		{"run", "--jobs", "--jobs", "--job"},
		{"run", "--retrydelay", "--retrydelay", "--retry-delay"},
		{"run", "--hlep", "--hlep", "--help"},
		{"explain", "--attempt", "--attempt", "--attempts"},
		{"status", "--problem", "--problem", "--problems"},
		{"status", "--jsno", "--jsno", "--json"},
		// What another command has is not meant, however near it is spelt.
		{"status", "--attempt", "--attempt", ""},
		{"status", "--attempts", "--attempts", ""},
		{"run", "--problems", "--problems", ""},
		{"run", "--json", "--json", ""},
		{"status", "--job", "--job", ""},
		// Nothing is near.
		{"run", "--frobnicate", "--frobnicate", ""},
		{"run", "--xy", "--xy", ""},
		{"run", "-z", "-z", ""},
		{"run", "--foo", "--foo", ""},
		{"run", "--ß", "--ß", ""},
	} {
		if c.hint == "" {
			c.hint = "onceonly " + c.command + " --help"
		}
		args := []string{c.command, c.typed, "--", "true"}
		newHost(t, "web-1").run(args...).want(t, exitUsage, "onceonly: no option "+c.says+"\nonceonly: hint: "+c.hint+"\n")
	}
	// Before the command stand no options but --help and --version.
	newHost(t, "web-1").run("--attempt", "2", "run", "--", "true").want(t, exitUsage, "onceonly: no option --attempt\nonceonly: hint: onceonly --help\n")
	newHost(t, "web-1").run("--versoin").want(t, exitUsage, "onceonly: no option --versoin\nonceonly: hint: --version\n")
}

// Words are near if few letters are to be changed, added, left out or swapped.
func TestEdits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		n    int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"job", "job", 0}, {"jbo", "job", 1}, {"obj", "job", 2}, {"jb", "job", 1}, {"joob", "job", 1},
		{"jab", "job", 1}, {"json", "job", 2}, {"abcd", "badc", 2}, {"attempt", "attempts", 1}, {"invocie", "invoice", 1}, {"xy", "tz", 2}} {
		if got := edits(c.a, c.b); got != c.n {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.n)
		}
	}
}
