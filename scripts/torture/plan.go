//go:build linux

package main

import (
	"slices"
	"strings"
	"time"
)

// Which scene comes next.

// plan is the next scene's, nil if there is none.
func (t *torture) plan() *plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	title, more := t.next(t.planned)
	if !more {
		return nil
	}
	t.planned++
	p := &plan{kind: t.topology(title), nemeses: strings.Split(title, "+"), lasts: 12 * time.Second, program: t.program,
		brief: t.brief, mood: pick(t.random, "", "", quarrelsome, tedious, brisk)}
	switch {
	case t.brief:
		p.lasts = 6 * time.Second
	case p.kind == sentinel:
		p.lasts = 20 * time.Second
	}
	if slices.Contains(p.nemeses, "N11") {
		p.old = t.old
	}
	return p
}

// next is the title of the n-th scene: each nemesis alone, and then pairs by lot.
func (t *torture) next(n int) (string, bool) {
	if len(t.only) > 0 {
		return t.only[n%len(t.only)], true
	}
	var singles []string
	for _, x := range nemeses {
		if x.name != "N8" || t.stage.shim != nil {
			singles = append(singles, x.name)
		}
	}
	if n < len(singles) {
		return singles[n], true
	}
	for !t.brief {
		a, b := pick(t.random, singles...), pick(t.random, singles...)
		if a < b && len(t.possible(a+"+"+b)) > 0 {
			return a + "+" + b, true
		}
	}
	return "", false
}

// possible are the topologies that all nemeses of a title can have.
func (t *torture) possible(title string) (all []string) {
	for _, kind := range kinds {
		fits := true
		for _, name := range strings.Split(title, "+") {
			n := nemesisNamed(name)
			fits = fits && n != nil && (n.kinds == nil || slices.Contains(n.kinds, kind))
		}
		if fits {
			all = append(all, kind)
		}
	}
	return all
}

func (t *torture) topology(title string) string {
	all := t.possible(title)
	switch {
	case t.kind != "":
		return t.kind
	case len(all) == 0:
		return alone
	case t.brief && len(all) == len(kinds): // Sentinels take their time; N6 has them
		return pick(t.random, alone, appended, cluster)
	}
	return pick(t.random, all...)
}
