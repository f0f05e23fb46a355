package effects

import (
	"path"
	"slices"
	"strings"
)

// awk reads awk -i inplace, which writes the files that it reads. Its first operand is the program.
func awk(r *reader, c call) scope {
	flags, files := c.operands("Fvfi", "field-separator", "assign", "file", "include")
	isInPlace := slices.ContainsFunc(flags, func(f word) bool {
		return f.text == "inplace" || f.text == "-iinplace" || f.text == "--include=inplace"
	})
	if !isInPlace {
		return c.scope
	}
	if !has(flags, "f", "file") && len(files) > 0 {
		files = files[1:]
	}
	for _, w := range files {
		r.write(w.target(c.scope))
	}
	return c.scope
}

// patch reads patch, whose first operand is the file that it changes.
func patch(r *reader, c call) scope {
	flags, files := c.operands("pidorBDFVYz", "strip", "input", "directory", "output", "reject-file")
	if len(files) > 0 && !has(flags, "", "dry-run") {
		r.write(files[0].target(c.scope))
	}
	return c.scope
}

// format returns the reader of a program that formats the files and folders that it names, if a
// flag says so. Files in folders end in a suffix.
func format(flag, suffix string) func(*reader, call) scope {
	return func(r *reader, c call) scope {
		flags, files := c.operands("rd", "config", "line-length")
		isChecked := has(flags, "", "check", "diff")
		if isChecked || (flag != "" && !has(flags, flag, "write")) {
			return c.scope
		}
		for _, w := range files {
			t := w.target(c.scope)
			isFile := suffix != "" && strings.HasSuffix(t.Path, suffix)
			switch {
			case t.Path == "" || t.Glob || isFile:
			case suffix == "":
				t.Deep = true
			default:
				t.Path += "/*" + suffix
				t.Spec = true
			}
			r.write(t)
		}
		return c.scope
	}
}

// output returns the reader of a program that writes the file that a flag names.
func output(short, long string) func(*reader, call) scope {
	return func(r *reader, c call) scope {
		for i, w := range c.args[1:] {
			value, isJoined := strings.CutPrefix(w.text, "--"+long+"=")
			isFlag := w.text == "--"+long || (strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, short))
			switch {
			case isJoined && w.known:
				r.write(Target{Path: c.scope.resolve(value)})
			case isFlag && i+2 < len(c.args) && c.args[i+2].text != "-":
				r.write(c.args[i+2].target(c.scope))
			}
		}
		return c.scope
	}
}

// synchronize reads rsync, which writes below its last operand.
func synchronize(r *reader, c call) scope {
	flags, operands := c.operands("efT", "exclude", "include", "rsh", "filter")
	if len(operands) < 2 || has(flags, "n", "dry-run") {
		return c.scope
	}
	last := operands[len(operands)-1]
	if strings.Contains(last.text, ":") { // on another machine
		return c.scope
	}
	t := last.target(c.scope)
	t.Deep = true
	r.write(t)
	return c.scope
}

// findTests are the tests of find after which the files that it names are still known.
var findTests = []string{"-type", "-name", "-delete", "-maxdepth", "-mindepth", "-depth", "-print", "f", "d", "l"}

// find reads find with -delete, and the command after -exec.
func find(r *reader, c call) scope {
	rest := c.args[1:]
	n := slices.IndexFunc(rest, func(w word) bool { return strings.HasPrefix(w.text, "-") || w.text == "!" || w.text == "(" })
	if n < 0 {
		return c.scope
	}
	starts, tests := rest[:n], rest[n:]
	if n == 0 {
		starts = []word{{text: ".", known: true}}
	}
	for i, w := range tests {
		if w.text != "-exec" && w.text != "-execdir" {
			continue
		}
		end := slices.IndexFunc(tests[i:], func(w word) bool { return w.text == ";" || w.text == "+" })
		if end < 0 {
			end = len(tests) - i
		}
		inner := c
		inner.args = slices.Clone(tests[i+1 : i+end])
		inner.depth++
		for k := range inner.args {
			inner.args[k].known = inner.args[k].known && !strings.Contains(inner.args[k].text, "{}")
		}
		r.run(inner)
	}

	isDelete := slices.ContainsFunc(tests, func(w word) bool { return w.text == "-delete" })
	if !isDelete {
		return c.scope
	}
	name := ""
	for i, w := range tests {
		isValue := i > 0 && (tests[i-1].text == "-name" || tests[i-1].text == "-maxdepth" || tests[i-1].text == "-mindepth")
		if isValue && tests[i-1].text == "-name" {
			name = w.text
		}
		isKnown := w.known && (isValue || slices.Contains(findTests, w.text))
		if !isKnown {
			return c.scope // the files are not known
		}
	}
	for _, w := range starts {
		t := w.target(c.scope)
		switch {
		case t.Path == "":
		case name == "":
			t.Deep = true
			r.write(t)
		default:
			r.write(Target{Path: path.Join(t.Path, name), Spec: true})
			r.write(Target{Path: path.Join(t.Path, "*", name), Spec: true})
		}
	}
	return c.scope
}
