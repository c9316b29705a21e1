package main

import (
	"fmt"
	"io"
	"strings"
)

// How the findings are printed: for people, the level in the first column so that grep finds it; for programs as JSON.

const doctorIndent = 15 // where a text begins, and goes on

const mark = "|" // keeps the last column's width

// print writes all that was found. It returns 1 if something fails.
func (d *doctor) print(w io.Writer) *exit {
	text := d.table(screenOf(w))
	if d.json {
		text = d.forPrograms()
	}
	if e := show(w, "doctor", text); e != nil {
		return e
	}
	if d.count(failure) > 0 {
		return &exit{status: exitNo}
	}
	return nil
}

func (d *doctor) count(level string) (n int) {
	for _, f := range d.findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// table is the form for people.
func (d *doctor) table(s screen) string {
	var b strings.Builder
	fmt.Fprintf(&b, "onceonly %s on %s, %s\n\n", version, whoAsks(d.host).Host, d.now.Format("Mon 2006-01-02 15:04:05 -07:00"))
	files := map[string][]finding{}
	for _, f := range d.findings {
		files[f.File] = append(files[f.File], f)
	}
	for _, f := range files[""] {
		s.rows(&b, []finding{f})
	}
	for _, c := range d.crontabs {
		if found := files[c.file]; len(found) > 0 {
			fmt.Fprintf(&b, "\n%s\n", c.file)
			s.rows(&b, found)
			delete(files, c.file)
		}
	}
	for _, u := range d.unread {
		b.WriteString(oneLine(fmt.Sprintf("not read: %s (%s)", u.What, u.Why)) + "\n")
	}
	fmt.Fprintf(&b, "\n%s, %s\n", count(d.count(failure), "failure"), count(d.count(warning), "warning"))
	return b.String()
}

// rows sets findings below each other. A text may be broken into lines, a hint never: it is there to be copied.
func (s screen) rows(b *strings.Builder, found []finding) {
	var cells [][]string
	for _, f := range found {
		row := []string{oneLine(f.Job), f.Fields, f.Every, mark}
		if f.Line == 0 {
			row = []string{"", "", "", mark}
		}
		cells = append(cells, row)
	}
	for i, columns := range layout("llll", cells) {
		f := found[i]
		columns = strings.TrimSuffix(columns, "  "+mark)
		head := fmt.Sprintf("%-4s  %-8s ", f.Level, f.Subject) // wrap adds a blank
		if f.Line > 0 {
			head += columns + "  "
		}
		text := wrap(append([]string{head[:len(head)-1]}, strings.Fields(oneLine(f.Text))...), 1, doctorIndent)
		if f.Level == failure {
			text = s.paint(failure, red) + strings.TrimPrefix(text, failure)
		}
		b.WriteString(text)
		if f.Hint != "" {
			b.WriteString(strings.Repeat(" ", doctorIndent) + "hint: " + oneLine(f.Hint) + "\n")
		}
	}
}

// forPrograms is the form for programs.
func (d *doctor) forPrograms() string {
	return document(struct {
		Version  string    `json:"version"`
		Host     string    `json:"host"`
		AsOf     string    `json:"as_of"`
		Failures int       `json:"failures"`
		Warnings int       `json:"warnings"`
		Findings []finding `json:"findings"`
		NotRead  []unread  `json:"not_read"`
	}{version, whoAsks(d.host).Host, d.now.Format("2006-01-02T15:04:05.000Z07:00"), d.count(failure), d.count(warning),
		append([]finding{}, d.findings...), append([]unread{}, d.unread...)})
}
