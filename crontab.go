package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Crontabs, read as Debian's cron reads them.

// longestCommand is what cron keeps of a command, in bytes; the rest is cut off without a word.
const longestCommand = 999

// cronPath is where cron looks for commands, unless a crontab says otherwise.
const cronPath = "/usr/bin:/bin"

// A crontab is one file, and the lines in it that run something.
type crontab struct {
	file    string
	column  bool // the sixth word of a line is the user
	unended bool // no newline at the end
	lines   []cronLine
}

// A cronLine is one line that runs a command.
type cronLine struct {
	file    string
	number  int
	fields  string // the five, one blank between them, or @daily
	user    string
	command string            // as the shell gets it
	whole   int               // length of the command as it stands in the file
	input   string            // from an unescaped % on: that ends the command, what follows is its standard input
	env     map[string]string // what the lines above have set
}

// pattern is compiled when it is used: a run has no use for it.
func pattern(s string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) })
}

var assignment = pattern(`^[ \t]*("[^"]*"|'[^']*'|[^\s=#"']+)[ \t]*=[ \t]*(.*)$`)

// parseCrontab reads a file. User owns it, or is "" where each line names one.
func parseCrontab(file, text, user string, column bool) *crontab {
	c := &crontab{file: file, column: column, unended: text != "" && !strings.HasSuffix(text, "\n")}
	env := map[string]string{}
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		line = strings.TrimLeft(line, " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		if m := assignment().FindStringSubmatch(line); m != nil {
			env = maps.Clone(env)
			env[unquote(m[1])] = unquote(strings.TrimRight(m[2], " \t"))
			continue
		}
		l := cronLine{file: file, number: n, user: user, env: env}
		l.take(line, column)
		c.lines = append(c.lines, l)
	}
	return c
}

// take takes a line apart: when, who, what.
func (l *cronLine) take(line string, column bool) {
	words := 5
	if line[0] == '@' {
		words = 1
	}
	fields, rest := takeWords(line, words)
	l.fields = strings.Join(fields, " ")
	if column {
		var who []string
		who, rest = takeWords(rest, 1)
		l.user = strings.Join(who, "")
	}
	l.whole = len(rest)
	l.command, l.input = cutPercent(rest)
}

// takeWords cuts n words off the front.
func takeWords(s string, n int) (words []string, rest string) {
	for rest = s; n > 0; n-- {
		rest = strings.TrimLeft(rest, " \t")
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			words = append(words, rest[:end])
		}
		rest = rest[end:]
	}
	return words, strings.TrimLeft(rest, " \t")
}

// cutPercent ends a command at its first %, as cron does; what is written \% is a percent sign.
func cutPercent(s string) (command, input string) {
	var b strings.Builder
	escaped := false
	for i, r := range []byte(s) {
		switch {
		case r == '%' && !escaped:
			return b.String(), s[i:]
		case escaped && r != '%':
			b.WriteByte('\\')
		}
		if escaped = r == '\\' && !escaped; !escaped {
			b.WriteByte(r)
		}
	}
	if escaped {
		b.WriteByte('\\')
	}
	return b.String(), ""
}

var loginName = pattern(`^[a-z_][a-z0-9_-]*\$?$`)

// guessColumn tells by the lines themselves whether a file that lies nowhere in particular has a user in each: it has, if
// a line's second word after the fields is the one that begins a command, and the first looks like a user.
func guessColumn(text string) bool {
	with, without := 0, 0
	for _, l := range parseCrontab("", text, "", false).lines {
		words, _ := takeWords(l.command, 2)
		switch {
		case len(words) < 2 || !loginName().MatchString(words[0]) || beginsCommand(words[0]):
			without++
		case beginsCommand(words[1]):
			with++
		}
	}
	return with > without
}

// beginsCommand says whether a word is one that lines begin with: a path, a variable, a program that runs others.
func beginsCommand(word string) bool {
	return strings.ContainsAny(word, "/=") || runsOthers(word) || slices.Contains(leading, word)
}

// leading are words of the shell that a line may begin with.
var leading = strings.Fields("cd test [ { ! if exec command true : sleep umask . source export set")
