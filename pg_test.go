package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// --pg: any client of PostgreSQL that uses libpq carries job, token and run ID, whatever the job's name is.

// pgNames are names that need care: blanks, quotes, backslashes, other letters, what looks like an option or a setting.
var pgNames = []string{"invoice", "two words", " ", "  a  ", `it's`, `say "x"`, `back\slash`, `\`, `a\ b\\`, `\'`, "청구서 발송", "é\u00e0", "😀",
	"a=b", "a -c b=c", "{job}", "100%", "$HOME", "`x`", "a;b", "x-", strings.Repeat(`\ `, 100)}

const pgAsks = `SELECT current_setting('onceonly.resource'), current_setting('onceonly.token'), current_setting('onceonly.run_id')`

// TestPGNames asks a real server, through psql, what it was told.
func TestPGNames(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	h := newHost(t, "web-1", d.env...)
	ask := filepath.Join(t.TempDir(), "ask")
	script := "psql -X -A -t -F '|' -c \"" + pgAsks + `" && printf '%s|%s|%s\n' "$ONCEONLY_JOB" "$ONCEONLY_FENCING_TOKEN" "$ONCEONLY_RUN_ID"` + "\n"
	if err := os.WriteFile(ask, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range pgNames {
		r := h.run("run", "--pg", "--job", name, "--", "sh", ask)
		got := strings.Split(r.stdout, "\n")
		if r.status != 0 || r.stderr != "" || len(got) != 3 || got[0] != got[1] || !strings.HasPrefix(got[0], name+"|") {
			t.Errorf("job %q: %v", name, r)
		}
	}
}

// TestPGOptions: what PGOPTIONS said before goes on to count, but for what an outer onceonly said; and it is left alone
// unless --pg is given, by an option, in the environment or in the file.
func TestPGOptions(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	show := `psql -X -A -t -c "SELECT current_setting('work_mem'), current_setting('search_path'),
		coalesce(current_setting('onceonly.resource', true), 'none')"`
	for i, c := range []struct {
		env     []string
		options string
		want    string
	}{
		{nil, "--pg", `4MB|"$user", public|NAME`},
		{nil, "", `4MB|"$user", public|none`},
		{[]string{"ONCEONLY_PG=yes"}, "", `4MB|"$user", public|NAME`},
		{[]string{"ONCEONLY_PG=no"}, "", `4MB|"$user", public|none`},
		{[]string{"PGOPTIONS=-c work_mem=7MB"}, "--pg", `7MB|"$user", public|NAME`},
		{[]string{"PGOPTIONS=-c work_mem=7MB"}, "", `7MB|"$user", public|none`},
		{[]string{`PGOPTIONS=-c work_mem=7MB  -c search_path="a\ b" `}, "--pg", `7MB|"a b"|NAME`},
		{[]string{"PGOPTIONS=-c onceonly.resource=outer -c onceonly.token=1"}, "--pg", `4MB|"$user", public|NAME`},
		{[]string{"PGOPTIONS="}, "--pg", `4MB|"$user", public|NAME`},
	} {
		name := fmt.Sprint("job ", i)
		h := newHost(t, "web-1", append(d.env, c.env...)...)
		want := strings.Replace(c.want, "NAME", name, 1)
		r := h.run(append([]string{"run", "--job", name}, append(strings.Fields(c.options), "--", "sh", "-c", show)...)...)
		if r.status != 0 || r.stderr != "" || r.stdout != want+"\n" {
			t.Errorf("%q %s: %v\nwant %s", c.env, c.options, r, want)
		}
	}
}

// TestPGOptionsNested: of a onceonly within a onceonly the inner one counts.
func TestPGOptionsNested(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	h := newHost(t, "web-1", append(d.env, "ONCEONLY_PG=yes")...)
	ask := `psql -X -A -t -c "SELECT current_setting('onceonly.resource'), current_setting('onceonly.token')"`
	r := h.run("run", "--job", "outer", "--", binary, "run", "--job", "inner", "--", "sh", "-c",
		ask+` && echo "$ONCEONLY_JOB|$ONCEONLY_FENCING_TOKEN"`)
	got := strings.Split(r.stdout, "\n")
	if r.status != 0 || len(got) != 3 || got[0] != got[1] || !strings.HasPrefix(got[0], "inner|") {
		t.Errorf("%v", r)
	}
}

// TestPGChangesNothingElse: without --pg the variable is not made, with it no other is.
func TestPGChangesNothingElse(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	names := func(options ...string) string {
		r := h.run(append(append([]string{"run", "--job", "env" + strings.Join(options, "")}, options...), "--", "sh", "-c",
			"env | sed 's/=.*//' | sort | tr '\\n' ' '")...)
		if r.status != 0 || r.stderr != "" {
			t.Fatal(r)
		}
		return r.stdout
	}
	without, with := names(), names("--pg")
	if strings.Contains(without, "PGOPTIONS") || strings.Replace(with, "PGOPTIONS ", "", 1) != without {
		t.Errorf("without %s\nwith    %s", without, with)
	}
}
