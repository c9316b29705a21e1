package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Where the metrics go: to standard output, or whole into a file, so that who reads it in between sees the one before.

// collected is the file's mode. The collector is another user.
const collected = 0o644

// printMetrics writes the metrics, also where the ledger could not be read: they say that.
func (a *statusAsk) printMetrics(w io.Writer, jobs []*jobState, m *machine) error {
	text := a.metricsOf(jobs, m)
	if a.output == "" {
		return orNil(show(w, "status", text))
	}
	name, err := replaceable(a.output)
	if err != nil {
		return wrong("output", place{"--output", a.output}, err)
	}
	if err := writeWhole(name, []byte(text), collected); err != nil {
		return &exit{status: exitUnrecorded, msg: "status: " + a.output + ": " + cause(err)}
	}
	return nil
}

// replaceable is the file that a name leads to. What is there and no file, a device or a pipe, would be lost.
func replaceable(name string) (string, error) {
	to, err := filepath.EvalSymlinks(name)
	if err != nil { // nothing is there, or writing it will say what is wrong
		return name, nil
	}
	info, err := os.Stat(to)
	if err == nil && info.Mode()&fs.ModeType != 0 {
		return "", &usageError{msg: "not a file"}
	}
	return to, nil
}
