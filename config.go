package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The file of options: one NAME=value per line, the same names as in the environment.

const configFile = "/etc/onceonly.conf"

// readConfig reads the file of options. That it is absent is fine, unless ONCEONLY_CONFIG names it.
func readConfig(environ func(string) (string, bool)) (map[string]place, error) {
	name, named := environ("ONCEONLY_CONFIG")
	if !named {
		name = configFile
	}
	at := place{"ONCEONLY_CONFIG", name}
	switch {
	case name == "":
		return nil, wrong("config", at, errEmpty)
	case isURL(name):
		return nil, wrong("config", at, errMisplaced)
	}
	text, err := readFile(name)
	if errors.Is(err, os.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(name, err)
	}
	return parseConfig(bytes.NewReader(text), name)
}

const mostFile = 1 << 20 // bytes of a file that is read whole; all the certificates of Debian are a quarter of that

// readFile reads a file that somebody has named, so it may be any: one that never ends is an error.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err == nil && len(text) > mostFile {
		err = errors.New("longer than 1 MB")
	}
	return text, err
}

// unreadable is 78: a host whose file cannot be read would take part with other settings than the rest.
func unreadable(name string, err error) error {
	e := &exit{status: exitDisagree, msg: name + ": " + cause(err)}
	if errors.Is(err, os.ErrPermission) {
		e.hint = "chgrp onceonly, chmod 640, and put the job's user into that group"
	}
	return e
}

// mayName says whether a word could be an option's name in the file.
func mayName(word string) bool {
	return strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// parseConfig reads NAME=value lines. One pair of quotes around a value is removed, nothing is expanded.
func parseConfig(f io.Reader, name string) (map[string]place, error) {
	known, values := inFile(), map[string]place{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		at := place{fmt.Sprintf("%s:%d", name, n), unquote(strings.TrimSpace(value))}
		if key = strings.TrimSpace(key); !ok || !mayName(key) { // a part of a URL would show its password
			return nil, usage(at.name+": not a line of the form NAME=value", "")
		}
		at.name += ": " + key
		i := slices.IndexFunc(known, func(o *option) bool { return o.variable() == key })
		if i < 0 {
			return nil, usage(fmt.Sprintf("%s:%d: no option %s", name, n, key), nearest(key, variables(known)))
		}
		if err := apply(known[i], initial(), at); err != nil {
			return nil, err
		}
		values[key] = at
	}
	if err := lines.Err(); err != nil {
		return nil, unreadable(name, err)
	}
	return values, nil
}

func variables(options []*option) []string {
	var names []string
	for _, o := range options {
		names = append(names, o.variable())
	}
	return names
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// nearest is the name that was probably meant, or "": at most a third of the letters may be wrong.
func nearest(name string, known []string) string {
	best, distance := "", min(3, (len(name)+1)/3)+1
	for _, k := range known {
		if d := edits(name, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// edits counts the letters to change, add, leave out, or swap with the next one between two words.
func edits(a, b string) int {
	row, above := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], above[j-1]+1)
			}
		}
		above, row = row, next
	}
	return row[len(b)]
}
