package effects

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// statements reads statements that one shell runs one after the other, and returns its scope
// after them.
func (r *reader) statements(list []*syntax.Stmt, s scope, depth int) scope {
	for _, stmt := range list {
		after := r.statement(stmt, s, depth)
		if !stmt.Background && !stmt.Coprocess {
			s = after
		}
	}
	return s
}

// statement reads the redirections of a statement and its command.
func (r *reader) statement(stmt *syntax.Stmt, s scope, depth int) scope {
	if stmt == nil {
		return s
	}
	document := ""
	for _, redirect := range stmt.Redirs {
		if text, ok := r.documents[redirect]; ok {
			document = text
		}
		if writes[redirect.Op] {
			for _, w := range r.words([]*syntax.Word{redirect.Word}) {
				r.write(w.target(s))
			}
		}
	}
	if stmt.Cmd == nil {
		return s
	}
	return r.command(stmt.Cmd, s, document, depth)
}

// writes has the redirections that write to a file.
var writes = map[syntax.RedirOperator]bool{
	syntax.RdrOut: true, syntax.AppOut: true, syntax.RdrClob: true, syntax.RdrAll: true, syntax.AppAll: true, syntax.RdrInOut: true,
}

// command reads one command. Compound commands are read as if every branch ran, each once.
func (r *reader) command(cmd syntax.Command, s scope, document string, depth int) scope {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return r.call(c, s, document, depth)
	case *syntax.BinaryCmd:
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll { // each side is a shell of its own
			r.statement(c.X, s, depth)
			r.statement(c.Y, s, depth)
			return s
		}
		return r.statement(c.Y, r.statement(c.X, s, depth), depth)
	case *syntax.Subshell:
		r.statements(c.Stmts, s, depth)
		return s
	case *syntax.Block:
		return r.statements(c.Stmts, s, depth)
	case *syntax.TimeClause:
		return r.statement(c.Stmt, s, depth)
	}
	return r.compound(cmd, s, depth)
}

// compound reads conditions, loops and functions.
func (r *reader) compound(cmd syntax.Command, s scope, depth int) scope {
	switch c := cmd.(type) {
	case *syntax.IfClause:
		for clause := c; clause != nil; clause = clause.Else {
			s = r.statements(clause.Cond, s, depth)
			s = r.statements(clause.Then, s, depth)
		}
	case *syntax.WhileClause:
		s = r.statements(c.Cond, s, depth)
		s = r.statements(c.Do, s, depth)
	case *syntax.ForClause:
		s = r.loop(c, s, depth)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			s = r.statements(item.Stmts, s, depth)
		}
	case *syntax.FuncDecl:
		r.statement(c.Body, s, depth)
	}
	return s
}

// maxRounds bounds the words of a loop that are read one by one.
const maxRounds = 32

// loop reads a loop once for each literal word of its list, and once if the list is not known.
func (r *reader) loop(c *syntax.ForClause, s scope, depth int) scope {
	list, isList := c.Loop.(*syntax.WordIter)
	if !isList || len(list.Items) == 0 {
		return r.statements(c.Do, s, depth)
	}
	for _, w := range r.words(list.Items)[:min(len(list.Items), maxRounds)] {
		delete(r.vars, list.Name.Value)
		if w.known && !w.glob {
			r.vars[list.Name.Value] = w.text
		}
		s = r.statements(c.Do, s, depth)
	}
	delete(r.vars, list.Name.Value)
	return s
}

// assign notes the variables of a command that have a literal value, and returns the scope in which
// the command runs: git takes its folders from the environment, too.
func (r *reader) assign(list []*syntax.Assign, s scope) scope {
	for _, a := range list {
		if a.Name == nil {
			continue
		}
		value, known := "", a.Value == nil
		if a.Value != nil {
			value, known = r.literal(a.Value)
		}
		delete(r.vars, a.Name.Value)
		if known && !a.Append && a.Index == nil {
			r.vars[a.Name.Value] = value
			s = r.environment(a.Name.Value, value, s)
		}
	}
	return s
}

// environment returns the scope with a variable that names a folder of git.
func (r *reader) environment(name, value string, s scope) scope {
	switch name {
	case "GIT_WORK_TREE":
		s.dir = s.resolve(value)
		r.reaches(s.dir)
	case "GIT_DIR":
		r.reaches(treeOf(s.resolve(value)))
	}
	return s
}

// treeOf returns the working tree of a folder of git.
func treeOf(gitDir string) string {
	if path.Base(gitDir) == ".git" {
		return path.Dir(gitDir)
	}
	return gitDir
}

// call reads a simple command: the commands inside its words first, then the program.
func (r *reader) call(c *syntax.CallExpr, s scope, document string, depth int) scope {
	for _, w := range c.Args {
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst:
				r.statements(n.Stmts, s, depth)
				return false
			case *syntax.ProcSubst:
				r.statements(n.Stmts, s, depth)
				return false
			}
			return true
		})
	}

	inner := r.assign(c.Assigns, s)
	args := r.words(c.Args)
	if len(args) == 0 {
		return s
	}
	if !args[0].known {
		r.effects.Acts = true
		r.reaches(s.dir)
		return s
	}
	after := r.run(call{args: args, document: document, scope: inner, depth: depth})
	if after == inner {
		return s
	}
	return after
}

// A word is one argument after the shell has removed quotes and expanded braces.
type word struct {
	text  string
	known bool // false if it has a variable or the output of a command
	glob  bool // it has a pattern outside of quotes
}

// target returns the files that the word names in a scope.
func (w word) target(s scope) Target {
	if !w.known {
		return Target{}
	}
	return Target{Path: s.resolve(w.text), Glob: w.glob}
}

// words returns the arguments that words of the text become.
func (r *reader) words(list []*syntax.Word) []word {
	var out []word
	for _, w := range list {
		if bracesOf(w) > maxBraces {
			out = append(out, word{})
			continue
		}
		syntax.SplitBraces(w)
		for one, err := range expand.BracesSeq(nil, w) {
			if err != nil || len(out) >= maxWords || r.expanded > maxExpanded {
				return out
			}
			text, known := r.literal(one)
			r.expanded += len(text)
			out = append(out, word{text: text, known: known, glob: hasPattern(one)})
		}
	}
	return out
}

// bracesOf returns the number of opening braces in a word.
func bracesOf(w *syntax.Word) (n int) {
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			n += strings.Count(lit.Value, "{")
		}
	}
	return n
}

// literal returns the text of a word without its quotes, and whether all of it is known.
func (r *reader) literal(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var b strings.Builder
	known := true
	for _, part := range w.Parts {
		known = r.literalPart(&b, part) && known
	}
	return b.String(), known
}

func (r *reader) literalPart(b *strings.Builder, part syntax.WordPart) bool {
	switch p := part.(type) {
	case *syntax.Lit:
		b.WriteString(unescaped(p.Value))
	case *syntax.SglQuoted:
		b.WriteString(p.Value)
		return !p.Dollar // $'...' has escapes of its own
	case *syntax.DblQuoted:
		known := true
		for _, inner := range p.Parts {
			known = r.literalPart(b, inner) && known
		}
		return known
	case *syntax.ParamExp:
		isPlain := p.Short || (p.Exp == nil && p.Repl == nil && p.Slice == nil && p.Index == nil && !p.Length && !p.Excl)
		value, isKnown := r.vars[p.Param.Value]
		b.WriteString(value)
		return isPlain && isKnown
	default:
		return false
	}
	return true
}

// unescaped removes the backslashes of a text outside of single quotes.
func unescaped(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// hasPattern reports whether a word has a pattern outside of quotes.
func hasPattern(w *syntax.Word) bool {
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok && pattern.HasMeta(lit.Value, 0) {
			return true
		}
	}
	return false
}
