//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Completion, in the shells themselves: what they are given, and what they make of it at a key.

type completeCase struct {
	typed string
	want  []string
}

// completeCases are what is typed, and what bash, zsh and fish offer for its last word.
var completeCases = []completeCase{
	{"onceonly sta", []string{"status"}},
	{"onceonly --v", []string{"--version"}},
	{"onceonly status ", []string{"a b", "etl", "etl:x=1", "청구서"}},
	{"onceonly status e", []string{"etl", "etl:x=1"}},
	{"onceonly status etl ", nil},
	{"onceonly status --json e", []string{"etl", "etl:x=1"}},
	{"onceonly status etl --pro", []string{"--problems"}},
	{"onceonly status --ex", []string{"--exit-code"}},
	{"onceonly stop e", []string{"etl", "etl:x=1"}},
	{"onceonly run --over", []string{"--overlap"}},
	{"onceonly run --overlap ", []string{"skip", "wait"}},
	{"onceonly run --overlap w", []string{"wait"}},
	{"onceonly run --overlap skip --catch-up ", []string{"each", "merge", "none"}},
	{"onceonly run -j e", []string{"etl", "etl:x=1"}},
	{"onceonly explain --job a", []string{"a b"}},
	{"onceonly run --date y", []string{"yesterday"}},
	{"onceonly status --namespace nowhere e", nil},
	{"onceonly status --redis redis://127.0.0.1:1/0 e", nil},
	{"onceonly status --redis nonsense e", nil},
	{"onceonly completion ", []string{"bash", "fish", "zsh"}},
	{"onceonly nonsense ", nil},
	{"onceonly status --output only-", []string{"only-here.prom"}},
	{"onceonly doctor only-", []string{"only-here.prom"}},
	{"onceonly doctor --config only-", []string{"only-here.prom"}},
	{"onceonly stop --date y", []string{"yesterday"}},
	{"onceonly resolve --date y", []string{"yesterday"}},
	{"onceonly wait --date y", []string{"yesterday"}},
	{"onceonly run --job x -- cat only-", []string{"only-here.prom"}},
}

// completeHost has some jobs, and a file in its folder.
func completeHost(t *testing.T) (*host, string) {
	t.Helper()
	h := newHost(t, "web-1")
	for _, job := range []string{"etl", "a b", "etl:x=1", "청구서"} {
		h.run("run", "--job", job, "--", "true").want(t, 0, "")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "only-here.prom"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "HOME="+dir, "LC_ALL=C.UTF-8", "TERM=dumb", "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	return h, dir
}

// drive runs a shell's own script, with what is typed as $1 where the shell takes it so.
func drive(t *testing.T, h *host, dir, shell string, args ...string) []string {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		absent(t, shell)
	}
	var out, said strings.Builder
	cmd := exec.Command(shell, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, slices.Clone(h.env), &out, &said
	if err := cmd.Run(); err != nil || said.Len() > 0 {
		t.Errorf("%s %q: %v %s", shell, args, err, said.String())
	}
	found := strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' })
	slices.Sort(found)
	return found
}

// In bash the function is called as bash calls it: with the words that bash parts the line into.
const driveBash = `source <(onceonly completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
_onceonly
for word in "${COMPREPLY[@]}"; do eval "printf '%s\n' $word"; done`

// bashWords are a line's words as bash parts them: at =, : and blanks.
func bashWords(line string) []string {
	words := []string{""}
	for _, r := range line {
		last := &words[len(words)-1]
		switch {
		case r == ' ' && *last != "":
			words = append(words, "")
		case r == ' ':
		case strings.ContainsRune("=:", r) != (*last != "" && strings.ContainsAny(*last, "=:")) && *last != "":
			words = append(words, string(r))
		default:
			*last += string(r)
		}
	}
	return words
}

func TestCompletionBash(t *testing.T) {
	t.Parallel()
	h, dir := completeHost(t)
	cases := append(slices.Clone(completeCases), []completeCase{
		{"onceonly status etl:", []string{"x=1"}}, // what stands before is not replaced
		{"onceonly status etl:x=", []string{"1"}},
		{"onceonly run --overlap=", []string{"skip", "wait"}},
		{"onceonly run --overlap=s", []string{"skip"}},
		{"onceonly run --job=e", []string{"etl", "etl:x=1"}},
		{`onceonly status a\ `, []string{"a b"}},
	}...)
	for _, c := range cases {
		words := bashWords(c.typed)
		if strings.HasSuffix(c.typed, `\ `) {
			words = []string{"onceonly", "status", `a\ `}
		}
		got := drive(t, h, dir, "bash", append([]string{"--norc", "-c", driveBash, "bash", c.typed}, words...)...)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.typed, got, c.want)
		}
	}
}

// atKeys types at a terminal, in a shell that is told what to source: one key, and the word is there, quoted as the shell needs
// it. What is completed is not run, but shown word by word, by a function of the same name.
func atKeys(t *testing.T, shell, settings, source string, cases map[string]string) {
	t.Helper()
	h, dir := completeHost(t)
	name := strings.Fields(shell)[0]
	if _, err := exec.LookPath(name); err != nil {
		absent(t, name)
	}
	for typed, want := range cases {
		t.Run(fmt.Sprintf("%q", typed), func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t, "sh", "-c", fmt.Sprintf(`cd %s && export PATH="%s" ONCEONLY_NAMESPACE=%s PS1='$ ' %s && exec %s`,
				dir, filepath.Dir(binary)+":$PATH", namespaceOf(h.t), settings, shell))
			tty.expect("$ ")
			tty.typed(source + `; onceonly() { [ "$1" = complete ] && command onceonly "$@" || { printf '<%s>' "$@"; echo over; }; }; echo rea''dy` + "\n")
			tty.expect("ready\r\n")
			tty.typed("onceonly " + typed + "\n")
			tty.expect(want + "over\r\n")
			tty.typed("exit\n")
			tty.wait()
		})
	}
}

func TestCompletionBashKeys(t *testing.T) {
	t.Parallel()
	atKeys(t, "bash --norc --noprofile -i", "HISTFILE=", "source <(onceonly completion bash)", map[string]string{
		"sta\t": "<status>", "status a\t": "<status><a b>", "status 'a\t": "<status><a b>",
		"status \"a\t": "<status><a b>", "run --overlap=w\t": "<run><--overlap=wait>", "status etl:x\t": "<status><etl:x=1>",
		"status --output only\t": "<status><--output><only-here.prom>", "run -- cat only\t": "<run><--><cat><only-here.prom>"})
}

func TestCompletionFish(t *testing.T) {
	t.Parallel()
	h, dir := completeHost(t)
	cases := append(slices.Clone(completeCases), []completeCase{
		{"onceonly run --overlap=s", []string{"--overlap=skip"}},
		{`onceonly status a\ `, []string{"a b"}},
	}...)
	for _, c := range cases {
		got := drive(t, h, dir, "fish", "--no-config", "-c", "onceonly completion fish | source; complete -C $argv[1]", c.typed)
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], "\t") // what follows is a description
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.typed, got, c.want)
		}
	}
}

// In zsh completion lives in the line editor: compadd is watched, and the line is handed over as the editor would.
const driveZsh = `compdef() { : }
source <(onceonly completion zsh)
compadd() { local -a list; if [[ $1 = -a ]]; then list=("${(@P)2}"); else list=("$@"); fi
	for word in $list; do [[ $word = ${(Q)PREFIX}* ]] && print -r -- $word; done; return 0 }
_files() { print -rl -- ${(Q)PREFIX}*(N) }
_normal() { _files }
words=("${@:2}") CURRENT=$(($# - 1)) PREFIX=${words[-1]}
_onceonly`

func TestCompletionZsh(t *testing.T) {
	t.Parallel()
	h, dir := completeHost(t)
	cases := append(slices.Clone(completeCases), completeCase{"onceonly run --overlap=s", []string{"--overlap=skip"}})
	for _, c := range cases {
		got := drive(t, h, dir, "zsh", append([]string{"-f", "-c", driveZsh, "zsh", c.typed}, strings.Split(c.typed, " ")...)...)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.typed, got, c.want)
		}
	}
}

func TestCompletionZshKeys(t *testing.T) {
	t.Parallel()
	atKeys(t, "zsh -f -i", "TERM=dumb LC_ALL=C.UTF-8", "autoload -Uz compinit; compinit -u -D; source <(onceonly completion zsh)",
		map[string]string{"sta\t": "<status>", "status a\t": "<status><a b>", "run --overlap=w\t": "<run><--overlap=wait>",
			"status --output only\t": "<status><--output><only-here.prom>", "run -- cat only\t": "<run><--><cat><only-here.prom>"})
}

// Every command, option and word is offered, and nothing that the program does not take.
func TestCompletionIsWhole(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	commands := app(nil, &out, &voice{}).Commands
	ask := func(words ...string) []string {
		out.Reset()
		complete(commands, words, &out)
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")[1:]
	}
	for _, c := range commands {
		if !slices.Contains(ask(""), c.Name) {
			t.Errorf("%s is not offered", c.Name)
		}
		offered := ask(c.Name, "-")
		for _, f := range c.Flags {
			if !slices.Contains(offered, dashes(f.Names()[0])) {
				t.Errorf("%s does not offer %s", c.Name, f.Names()[0])
			}
		}
		if want := len(c.Flags) + 1; len(offered) != want { // and --help
			t.Errorf("%s offers %d options, want %d: %q", c.Name, len(offered), want, offered)
		}
		for _, o := range optionsOf(c.Name) {
			for _, w := range o.words {
				if got := ask(c.Name, "--"+o.name, ""); !slices.Contains(got, w) {
					t.Errorf("%s --%s offers %q, not %s", c.Name, o.name, got, w)
				}
				if err := o.set(initial(), w); err != nil {
					t.Errorf("--%s %s: %v", o.name, w, err)
				}
			}
		}
	}
}

// After -- an option is none, and the words from the command on are the command's, whose completion is the shell's matter.
func TestCompletionOfCommand(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"run --job x -- -": "command 4", "run --job x -- ls -": "command 4", "run ls --js": "command 1",
		"run -x ": "command 2", "status -- --js": "words", "explain --job=x tar ": "command 2"} {
		var out strings.Builder
		complete(app(nil, &out, &voice{}).Commands, strings.Split(typed, " "), &out)
		if got := strings.TrimSuffix(out.String(), "\n"); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}

// A configuration that cannot be read, or a Redis that wants a password, is no matter of the line that is being typed: not
// a byte, and above all no password. What is wrong with the call itself is said. (SH-23)
func TestCompletionSilent(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1", "ONCEONLY_REDIS=redis://cron:s3cret@127.0.0.1:1/0")
	for _, args := range [][]string{{"complete"}, {"complete", "status", ""}, {"complete", "status", "--redis", "redis://u:s3cret@%", ""}} {
		if got := h.run(args...); got.status != 0 || got.stderr != "" || strings.Contains(got.stdout, "s3cret") {
			t.Errorf("%q: %v", args, got)
		}
	}
	h.env = append(h.env, "ONCEONLY_CONFIG=/nowhere/onceonly.conf")
	if got := h.run("complete", "status", ""); got.status != 0 || got.stderr != "" || got.stdout != "words\n" {
		t.Errorf("without configuration: %v", got)
	}
	if got := h.run("completion", "bash"); got.status != 0 || got.stderr != "" || !strings.HasSuffix(got.stdout, "\ncomplete -F _onceonly onceonly\n") {
		t.Errorf("at login, without configuration: %v", got)
	}
	h.run("completion").want(t, exitUsage, "onceonly: completion: no shell\nonceonly: hint: onceonly completion bash, zsh or fish\n")
	h.run("completion", "tcsh").want(t, exitUsage, "onceonly: completion: \"tcsh\" is not bash, zsh or fish\n")
	h.run("completion", "bash", "zsh").want(t, exitUsage, "onceonly: completion: \"zsh\" left over\n")
}
