package main

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"
)

// Which strings of the program can become part of a message is found in its source.

// A messageFinder collects the strings that can become part of a message. It goes by names, not by types: from the calls and
// the literals that make a message back to what stands in them, through local variables, parameters, and the results of
// the program's functions. That finds a few strings too many, and misses none for a type that it cannot see.
type messageFinder struct {
	functions map[string][]*ast.FuncDecl
	values    map[string]ast.Expr // of the package
	calls     map[string][]callIn
	found     map[string]bool
	followed  map[any]bool
}

// A callIn is a call, and the function that it stands in.
type callIn struct {
	*ast.CallExpr
	in *ast.FuncDecl
}

func collectMessages(t *testing.T) []string {
	m := &messageFinder{map[string][]*ast.FuncDecl{}, map[string]ast.Expr{}, map[string][]callIn{}, map[string]bool{}, map[any]bool{}}
	for _, f := range programFiles(t) {
		for _, d := range f.Decls {
			m.declare(d)
		}
	}
	for _, functions := range m.functions {
		for _, f := range functions {
			ast.Inspect(f, func(n ast.Node) bool { return m.source(n, f) })
		}
	}
	for _, v := range m.values {
		ast.Inspect(v, func(n ast.Node) bool { return m.source(n, nil) })
	}
	return slices.Sorted(maps.Keys(m.found))
}

// declare notes a declaration of the package, and the calls in it.
func (m *messageFinder) declare(d ast.Decl) {
	f, _ := d.(*ast.FuncDecl)
	if f != nil {
		m.functions[f.Name.Name] = append(m.functions[f.Name.Name], f)
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			m.calls[called(n)] = append(m.calls[called(n)], callIn{n, f})
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if f == nil && i < len(n.Values) {
					m.values[name.Name] = n.Values[i]
				}
			}
		}
		return true
	})
}

// called is the name of what is called, without its package or receiver.
func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// source follows what makes a message: what is said, an error, an exit, a usage error.
func (m *messageFinder) source(n ast.Node, in *ast.FuncDecl) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if slices.Contains([]string{"say", "normally", "hint", "usage", "New", "Errorf", "remark", "cannotRead"}, called(n)) {
			m.follow(in, n.Args...)
		}
	case *ast.CompositeLit:
		if id, ok := n.Type.(*ast.Ident); ok && (id.Name == "exit" || id.Name == "usageError") {
			m.follow(in, n.Elts...)
		}
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if s, ok := left.(*ast.SelectorExpr); ok && (s.Sel.Name == "msg" || s.Sel.Name == "hint") {
				m.follow(in, n.Rhs...)
			}
		}
	}
	return true
}

// notSaid are functions of whose arguments nothing but the first becomes part of a text.
var notSaid = []string{"TrimPrefix", "TrimSuffix", "TrimRight", "Cut", "ReplaceAll", "HasPrefix", "Getenv", "Format", "As"}

// follow goes through expressions that become part of a message.
func (m *messageFinder) follow(in *ast.FuncDecl, expressions ...ast.Expr) {
	for _, e := range expressions {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && len(fixedWords(s)) > 0 {
					m.found[s] = true
				}
			case *ast.CallExpr:
				if slices.Contains(notSaid, called(n)) {
					return false
				}
				m.results(called(n))
			case *ast.Ident:
				m.variable(n.Name, in)
			case *ast.SelectorExpr:
				_, field := n.X.(*ast.Ident) // what stands in a field was followed where it was put there
				return !field
			case *ast.KeyValueExpr:
				m.follow(in, n.Value)
				return false
			case *ast.IndexExpr:
				m.follow(in, n.X)
				return false
			case *ast.FuncLit:
				return false
			}
			return true
		})
	}
}

// once says whether this has not been followed yet.
func (m *messageFinder) once(what any) bool {
	before := m.followed[what]
	m.followed[what] = true
	return !before
}

// results follows what the program's functions of that name return.
func (m *messageFinder) results(name string) {
	for _, f := range m.functions[name] {
		if !m.once(f) {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok {
				m.follow(f, r.Results...)
			}
			return true
		})
	}
}

// variable follows what is assigned to a name: in its function, by its callers, or in the package.
func (m *messageFinder) variable(name string, in *ast.FuncDecl) {
	if in == nil || !m.once([2]any{in, name}) {
		return
	}
	if v, ok := m.values[name]; ok {
		m.follow(nil, v)
	}
	ast.Inspect(in.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			m.assigned(name, in, n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if id.Name == name && i < len(n.Values) {
					m.follow(in, n.Values[i])
				}
			}
		case *ast.RangeStmt:
			m.assigned(name, in, []ast.Expr{n.Key, n.Value}, []ast.Expr{n.X})
		}
		return true
	})
	at := 0
	for _, p := range in.Type.Params.List {
		for _, id := range p.Names {
			if id.Name == name {
				m.argument(in.Name.Name, at)
			}
			at++
		}
	}
}

func (m *messageFinder) assigned(name string, in *ast.FuncDecl, left, right []ast.Expr) {
	for i, l := range left {
		if id, ok := l.(*ast.Ident); ok && id != nil && id.Name == name {
			m.follow(in, right[min(i, len(right)-1)])
		}
	}
}

// argument follows what callers give.
func (m *messageFinder) argument(function string, at int) {
	for _, c := range m.calls[function] {
		if at < len(c.Args) {
			m.follow(c.in, c.Args[at])
		}
	}
}
