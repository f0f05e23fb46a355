package effects

import (
	"path"
	"slices"
	"strings"
)

// A call is one program with its arguments.
type call struct {
	args     []word // the program first
	document string // the here-document or here-string of its standard input
	scope    scope
	depth    int
}

// name returns the program without its folder.
func (c call) name() string { return path.Base(c.args[0].text) }

// from returns the call of the command that begins at argument i.
func (c call) from(i int) call {
	c.args = c.args[min(i, len(c.args)):]
	return c
}

// programs has the programs whose effects are known. Each returns the scope after it.
var programs map[string]func(*reader, call) scope

func init() { // the programs that start others refer to the table
	programs = map[string]func(*reader, call) scope{
		"cd": changeFolder, "pushd": changeFolder, "popd": leaveFolder,
		"rm": remove, "unlink": remove, "rmdir": remove, "shred": remove,
		"mv": move, "cp": duplicate, "install": duplicate, "ln": duplicate,
		"tee": writeAll, "truncate": truncate, "dd": blocks,
		"sed": inPlace, "perl": inPlace, "awk": awk, "gawk": awk, "patch": patch, "find": find,
		"gofmt": format("w", ".go"), "goimports": format("w", ".go"), "black": format("", ".py"), "rustfmt": format("", ".rs"), "prettier": format("w", ""),
		"curl": output("o", "output"), "wget": output("O", "output-document"), "rsync": synchronize,
		"git": (*reader).git, "apply_patch": applyPatch, "applypatch": applyPatch,

		// Programs that run a command.
		"sh": shell, "bash": shell, "zsh": shell, "dash": shell, "ksh": shell, "eval": evaluate,
		"sudo": prefix("ugCDhpRTrtU"), "doas": prefix("uC"), "env": prefix("uCS"), "command": prefix(""), "exec": prefix("a"), "builtin": prefix(""),
		"nohup": prefix(""), "nice": prefix("n"), "ionice": prefix("cnp"), "setsid": prefix(""), "stdbuf": prefix("ioe"), "time": prefix("fo"),
		"timeout": bounded, "xargs": prefix("EIiLlnPsad"),
	}
}

// run reads one call.
func (r *reader) run(c call) scope {
	if len(c.args) == 0 {
		return c.scope
	}
	if !c.args[0].known || c.depth > maxDepth {
		r.effects.Acts = true
		return c.scope
	}
	r.note(c)
	if program, ok := programs[c.name()]; ok {
		return program(r, c)
	}
	return c.scope
}

// operands splits the arguments into flags and operands. withValue has the letters of short
// flags, and the names of long ones after their dashes, whose value is the next argument.
func (c call) operands(short string, long ...string) (flags, operands []word) {
	rest := c.args[1:]
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		switch {
		case w.known && w.text == "--":
			return flags, append(operands, rest[i+1:]...)
		case !w.known || len(w.text) < 2 || w.text[0] != '-':
			operands = append(operands, w)
			continue
		}

		flags = append(flags, w)
		if takesValue(w.text, short, long) && i+1 < len(rest) {
			i++
			flags = append(flags, rest[i])
		}
	}
	return flags, operands
}

// takesValue reports whether the value of a flag is the next argument.
func takesValue(flag, short string, long []string) bool {
	if name, ok := strings.CutPrefix(flag, "--"); ok {
		return slices.Contains(long, name)
	}
	return strings.IndexByte(short, flag[len(flag)-1]) >= 0 && strings.IndexAny(flag[1:], short) == len(flag)-2
}

// has reports whether one of the flags is given: letters of short ones, also joined, and names
// of long ones, also with a value.
func has(flags []word, short string, long ...string) bool {
	for _, f := range flags {
		if name, ok := strings.CutPrefix(f.text, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			if slices.Contains(long, name) {
				return true
			}
		} else if strings.HasPrefix(f.text, "-") && strings.ContainsAny(f.text[1:], short) {
			return true
		}
	}
	return false
}

func changeFolder(_ *reader, c call) scope {
	_, to := c.operands("")
	if len(to) != 1 || !to[0].known {
		return scope{}
	}
	isElsewhere := to[0].text == "-" || strings.HasPrefix(to[0].text, "~")
	if isElsewhere {
		return scope{}
	}
	return scope{dir: c.scope.resolve(to[0].text)}
}

func leaveFolder(*reader, call) scope { return scope{} }

func remove(r *reader, c call) scope {
	_, files := c.operands("")
	for _, w := range files {
		t := w.target(c.scope)
		t.Deep = true
		r.write(t)
	}
	return c.scope
}

// move removes its sources and writes what duplicate writes.
func move(r *reader, c call) scope {
	_, files := c.operands("St", "suffix", "target-directory")
	for _, w := range files[:max(0, len(files)-1)] {
		t := w.target(c.scope)
		t.Deep = true
		r.write(t)
	}
	return duplicate(r, c)
}

// duplicate writes its last operand, or the names of the others in that folder.
func duplicate(r *reader, c call) scope {
	flags, files := c.operands("StogmO", "suffix", "target-directory", "mode", "owner", "group")
	if len(files) == 0 {
		return c.scope
	}
	last := files[len(files)-1]
	sources := files[:len(files)-1]
	for i, f := range flags {
		if (f.text == "-t" || f.text == "--target-directory") && i+1 < len(flags) {
			last, sources = flags[i+1], files
		}
	}
	if !last.known {
		return c.scope
	}

	deep := has(flags, "rRa", "recursive", "archive") || c.name() == "mv"
	r.write(last.target(c.scope))
	for _, w := range sources {
		if !w.known {
			continue
		}
		inside := word{text: path.Join(last.text, path.Base(w.text)), known: true, glob: w.glob || last.glob}
		t := inside.target(c.scope)
		t.Deep = deep
		r.write(t)
	}
	return c.scope
}

func writeAll(r *reader, c call) scope {
	_, files := c.operands("")
	for _, w := range files {
		r.write(w.target(c.scope))
	}
	return c.scope
}

func truncate(r *reader, c call) scope {
	_, files := c.operands("sr", "size", "reference")
	for _, w := range files {
		r.write(w.target(c.scope))
	}
	return c.scope
}

func blocks(r *reader, c call) scope {
	for _, w := range c.args[1:] {
		if file, ok := strings.CutPrefix(w.text, "of="); ok && w.known {
			r.write(Target{Path: c.scope.resolve(file)})
		}
	}
	return c.scope
}

// inPlace reads sed and perl, which write the files that they read if a flag says so. Without
// -e or -f the first operand of sed is its script.
func inPlace(r *reader, c call) scope {
	flags, files := c.operands("efEl", "expression", "file")
	edits := false
	for _, f := range flags {
		edits = edits || strings.HasPrefix(f.text, "-i") || strings.HasPrefix(f.text, "--in-place") || inPlaceJoined(f.text)
	}
	if !edits {
		return c.scope
	}

	if !has(flags, "ef", "expression", "file") && len(files) > 0 {
		files = files[1:]
	}
	for _, w := range files {
		r.write(w.target(c.scope))
	}
	return c.scope
}

// inPlaceJoined reports whether short flags such as -pi or -ni.bak have an i among them.
func inPlaceJoined(flag string) bool {
	letters, ok := strings.CutPrefix(flag, "-")
	if !ok || strings.HasPrefix(letters, "-") {
		return false
	}
	before, _, found := strings.Cut(letters, "i")
	return found && strings.Trim(before, "nrEszuplaw0") == ""
}

func applyPatch(r *reader, c call) scope {
	text := c.document
	if len(c.args) > 1 && c.args[1].known {
		text = c.args[1].text
	}
	for _, name := range PatchPaths(text) {
		file := c.scope.resolve(name)
		r.write(Target{Path: file})
		if file != "" {
			r.effects.Patched = append(r.effects.Patched, file)
		}
	}
	return c.scope
}

// shell reads the text of sh -c TEXT. A shell without it runs a file or its standard input.
func shell(r *reader, c call) scope {
	for i, w := range c.args[1:] {
		isText := w.known && strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c")
		if isText && i+2 < len(c.args) && c.args[i+2].known {
			r.text(c.args[i+2].text, c.scope, c.depth+1)
			return c.scope
		}
		if !strings.HasPrefix(w.text, "-") {
			r.effects.Acts = true // a file of commands
			return c.scope
		}
	}
	r.effects.Acts = r.effects.Acts || c.document == ""
	r.text(c.document, c.scope, c.depth+1)
	return c.scope
}

func evaluate(r *reader, c call) scope {
	var text []string
	for _, w := range c.args[1:] {
		if !w.known {
			r.effects.Acts = true
			return scope{}
		}
		text = append(text, w.text)
	}
	return r.text(strings.Join(text, " "), c.scope, c.depth+1)
}

// prefix returns the reader of a program that runs the command after its flags and variables.
// withValue has the letters of its flags whose value is the next argument.
func prefix(withValue string) func(*reader, call) scope {
	return func(r *reader, c call) scope {
		outer := c.scope
		i := 1
		for i < len(c.args) {
			text := c.args[i].text
			isFlag := strings.HasPrefix(text, "-") && text != "-"
			isVariable := !isFlag && strings.Contains(text, "=") && c.name() == "env"
			if !isFlag && !isVariable {
				break
			}
			if isFlag && takesValue(text, withValue, nil) {
				i++
				isFolder := (text == "-C" || text == "-D") && c.name() != "xargs"
				if isFolder && i < len(c.args) {
					c.scope.dir = c.args[i].target(c.scope).Path
				}
			}
			if folder, ok := strings.CutPrefix(text, "--chdir="); ok {
				c.scope.dir = c.scope.resolve(folder)
			}
			if isVariable {
				name, value, _ := strings.Cut(text, "=")
				c.scope = r.environment(name, value, c.scope)
			}
			i++
			if text == "--" {
				break
			}
		}
		inner := c.from(i)
		inner.depth++
		after := r.run(inner)
		if after == inner.scope {
			return outer
		}
		return after
	}
}

// bounded reads timeout, whose first operand is a time.
func bounded(r *reader, c call) scope {
	i := 1
	for i < len(c.args) && strings.HasPrefix(c.args[i].text, "-") {
		if takesValue(c.args[i].text, "ks", []string{"kill-after", "signal"}) {
			i++
		}
		i++
	}
	inner := c.from(i + 1)
	inner.depth++
	return r.run(inner)
}

// PatchPaths returns the files that a patch in the form of apply_patch adds, changes, moves or
// deletes, as the patch names them.
func PatchPaths(patch string) []string {
	var out []string
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		for _, mark := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			if name, ok := strings.CutPrefix(line, mark); ok {
				out = append(out, strings.TrimSpace(name))
			}
		}
	}
	return out
}
