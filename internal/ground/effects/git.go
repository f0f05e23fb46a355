package effects

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/pattern"
)

// A gitCall is a git command after its global options.
type gitCall struct {
	call           // the subcommand is the first argument
	hooksPath bool // core.hooksPath is set for this command
}

// subcommands has the git commands that change or stage files.
var subcommands = map[string]func(*reader, gitCall){
	"checkout": gitCheckout, "switch": gitSwitch, "restore": gitRestore, "reset": gitReset, "stash": gitStash, "clean": gitClean,
	"checkout-index": gitCheckoutIndex, "read-tree": gitReadTree, "pull": gitAutostash, "rebase": gitAutostash, "branch": gitBranch, "update-ref": gitUpdateRef,
	"worktree": gitWorktree, "gc": gitPrune, "prune": gitPrune, "reflog": gitPrune,
	"add": gitAdd, "stage": gitAdd, "commit": gitCommit, "rm": gitRemove, "mv": gitRemove,
}

// git reads the global options of git and then the subcommand.
func (r *reader) git(c call) scope {
	after := c.scope
	g := gitCall{}
	i := 1
	for i < len(c.args) && strings.HasPrefix(c.args[i].text, "-") {
		flag := c.args[i].text
		value := word{}
		if i+1 < len(c.args) {
			value = c.args[i+1]
		}
		switch flag {
		case "-C":
			c.scope.dir = value.target(c.scope).Path
			i++
		case "--work-tree":
			c.scope.dir = value.target(c.scope).Path
			i++
		case "--git-dir":
			r.reaches(treeOf(value.target(c.scope).Path))
			i++
		case "--namespace", "--exec-path", "--super-prefix":
			i++
		case "-c", "--config-env":
			g.hooksPath = g.hooksPath || strings.HasPrefix(strings.ToLower(value.text), "core.hookspath=")
			i++
		default:
			g.hooksPath = g.hooksPath || strings.HasPrefix(strings.ToLower(flag), "-ccore.hookspath=")
			if folder, ok := strings.CutPrefix(flag, "--work-tree="); ok {
				c.scope.dir = c.scope.resolve(folder)
			}
			if folder, ok := strings.CutPrefix(flag, "--git-dir="); ok {
				r.reaches(treeOf(c.scope.resolve(folder)))
			}
		}
		i++
	}
	g.call = c.from(i)
	if !readsOnly(g.args) {
		r.effects.Acts = true
	}
	r.reaches(g.scope.dir)
	if len(g.args) == 0 || !g.args[0].known || g.scope.dir == "" {
		return after
	}
	if read, ok := subcommands[g.args[0].text]; ok {
		read(r, g)
	}
	return after
}

// files says which files of a working tree a git command touches.
type files int

const (
	tracked files = iota
	untracked
	anyFile
)

// add appends a git command with the pathspecs of its operands.
func (r *reader) add(c gitCall, verb Verb, touches files, specs []word) {
	g := Git{Verb: verb, Dir: c.scope.dir, NoVerify: c.hooksPath, Tracked: touches != untracked, Untracked: touches != tracked}
	for _, w := range specs {
		t, exclude := pathspec(w, c.scope)
		switch {
		case t.Path == "":
		case exclude:
			g.Except = append(g.Except, t)
		default:
			g.Paths = append(g.Paths, t)
		}
	}
	if len(specs) > 0 && len(g.Paths)+len(g.Except) == 0 {
		return // its paths are variables
	}
	r.effects.Git = append(r.effects.Git, g)
}

// pathspec returns the files that a pathspec of git names, and whether it excludes them. The
// top of the working tree is not known here: a path from the top matches at every depth.
func pathspec(w word, s scope) (t Target, exclude bool) {
	if !w.known {
		return Target{}, false
	}
	text := w.text
	top := false
	switch {
	case strings.HasPrefix(text, ":("):
		magic, rest, _ := strings.Cut(text[2:], ")")
		for _, m := range strings.Split(magic, ",") {
			exclude = exclude || m == "exclude"
			top = top || m == "top"
		}
		text = rest
	case strings.HasPrefix(text, ":"):
		short := text[1:]
		text = strings.TrimLeft(short, "!^/")
		exclude = strings.ContainsAny(short[:len(short)-len(text)], "!^")
		top = strings.Contains(short[:len(short)-len(text)], "/")
	}

	if top {
		return Target{Path: "*/" + text, Spec: true, Deep: true}, exclude
	}
	t = Target{Path: s.resolve(path.Join(".", text)), Deep: true}
	t.Spec = pattern.HasMeta(text, 0)
	return t, exclude
}

// gitCheckout reads checkout: with paths it discards changes, else it switches.
func gitCheckout(r *reader, c gitCall) {
	flags, operands := c.operands("bB", "orphan", "conflict", "pathspec-from-file")
	after := afterDashes(c)
	switch {
	case has(flags, "bB", "orphan"):
		r.move(c) // a new branch at the commit of now
	case after != nil:
		r.add(c, Discard, tracked, after)
	case has(flags, "f", "force"):
		r.add(c, Discard, tracked, nil)
	case len(operands) > 0:
		r.add(c, Switch, tracked, operands)
		if n := len(r.effects.Git); n > 0 && operands[0].known {
			r.effects.Git[n-1].Ref = operands[0].text
		}
	}
}

// afterDashes returns the arguments after --, nil if there is none.
func afterDashes(c gitCall) []word {
	for i, w := range c.args {
		if w.known && w.text == "--" {
			return c.args[i+1:]
		}
	}
	return nil
}

func gitSwitch(r *reader, c gitCall) {
	flags, operands := c.operands("cC", "create", "force-create", "orphan", "conflict")
	switch {
	case has(flags, "f", "force", "discard-changes"):
		r.add(c, Discard, tracked, nil)
	case has(flags, "cC", "create", "force-create", "orphan"):
		r.move(c)
	case len(operands) > 0:
		r.add(c, Switch, tracked, operands[:1])
		if n := len(r.effects.Git); n > 0 && operands[0].known {
			r.effects.Git[n-1].Ref = operands[0].text
		}
	}
}

// gitRestore reads restore, which leaves the working tree alone with --staged only.
func gitRestore(r *reader, c gitCall) {
	flags, operands := c.operands("s", "source", "conflict", "pathspec-from-file")
	if has(flags, "S", "staged") && !has(flags, "W", "worktree") {
		return
	}
	if len(operands) > 0 {
		r.add(c, Discard, tracked, operands)
	}
}

func gitReset(r *reader, c gitCall) {
	flags, _ := c.operands("", "pathspec-from-file")
	if has(flags, "", "hard", "merge") {
		r.add(c, Discard, tracked, nil)
	}
}

// gitStash reads stash: alone, or as push or save, it takes changes out of the working tree.
func gitStash(r *reader, c gitCall) {
	flags, operands := c.operands("m", "message", "pathspec-from-file")
	if len(operands) > 0 && operands[0].known {
		switch operands[0].text {
		case "push":
			operands = operands[1:]
		case "save":
			operands = nil
		default:
			if afterDashes(c) == nil {
				r.unstash(c, operands[0].text)
				return
			}
		}
	}
	if has(flags, "S", "staged") {
		return
	}
	touches := tracked
	if has(flags, "ua", "include-untracked", "all") {
		touches = anyFile
	}
	r.effects.Git = append(r.effects.Git, Git{Verb: Restash, Dir: c.scope.dir})
	r.add(c, Discard, touches, operands)
}

// unstash reads the subcommands of stash that remove entries; list, show and the like do not.
func (r *reader) unstash(c gitCall, sub string) {
	if sub == "pop" || sub == "drop" || sub == "clear" {
		r.effects.Git = append(r.effects.Git, Git{Verb: Unstash, Dir: c.scope.dir, Ref: sub})
	}
}

// move notes that the head of the working tree moves to a new branch.
func (r *reader) move(c gitCall) {
	r.effects.Git = append(r.effects.Git, Git{Verb: Move, Dir: c.scope.dir})
}

func gitCheckoutIndex(r *reader, c gitCall) {
	flags, operands := c.operands("", "stage", "prefix")
	if has(flags, "f", "force") && !has(flags, "", "prefix") {
		r.add(c, Discard, tracked, operands)
	}
}

func gitReadTree(r *reader, c gitCall) {
	flags, _ := c.operands("", "prefix", "index-output", "exclude-per-directory")
	if has(flags, "u") && has(flags, "m", "reset") {
		r.add(c, Discard, tracked, nil)
	}
}

// gitAutostash reads pull and rebase, which take changes out of the tree for a while on request.
func gitAutostash(r *reader, c gitCall) {
	if flags, _ := c.operands("", "onto", "strategy"); has(flags, "", "autostash") {
		r.add(c, Discard, tracked, nil)
	}
}

func gitBranch(r *reader, c gitCall) {
	flags, operands := c.operands("", "sort", "format")
	if has(flags, "DfMC", "force") {
		r.unbranch(c, operands)
	}
}

func gitUpdateRef(r *reader, c gitCall) {
	_, operands := c.operands("m")
	r.unbranch(c, operands[:min(len(operands), 1)])
}

// unbranch notes branches that are removed or moved.
func (r *reader) unbranch(c gitCall, operands []word) {
	g := Git{Verb: Unbranch, Dir: c.scope.dir}
	for _, w := range operands {
		if w.known {
			g.Refs = append(g.Refs, strings.TrimPrefix(w.text, "refs/heads/"))
		}
	}
	if len(g.Refs) > 0 {
		r.effects.Git = append(r.effects.Git, g)
	}
}

func gitWorktree(r *reader, c gitCall) {
	_, operands := c.operands("")
	if len(operands) < 2 || operands[0].text != "remove" {
		return
	}
	g := Git{Verb: Untree, Dir: c.scope.dir}
	for _, w := range operands[1:] {
		if t := w.target(c.scope); t.Path != "" {
			t.Deep = true
			g.Paths = append(g.Paths, t)
		}
	}
	r.effects.Git = append(r.effects.Git, g)
}

// gitPrune reads gc, prune and reflog, which can remove commits that no branch has.
func gitPrune(r *reader, c gitCall) {
	flags, operands := c.operands("")
	isReflog := c.args[0].text == "reflog"
	isExpire := len(operands) > 0 && (operands[0].text == "expire" || operands[0].text == "delete")
	isMereList := isReflog && !isExpire
	isMereRepack := c.args[0].text == "gc" && !has(flags, "", "prune")
	if isMereList || isMereRepack {
		return
	}
	r.effects.Git = append(r.effects.Git, Git{Verb: Prune, Dir: c.scope.dir})
}

func gitClean(r *reader, c gitCall) {
	flags, operands := c.operands("e", "exclude")
	if has(flags, "n", "dry-run") || !has(flags, "f", "force") {
		return
	}
	r.add(c, Discard, untracked, operands)
}

func gitAdd(r *reader, c gitCall) {
	flags, operands := c.operands("", "chmod", "pathspec-from-file")
	all := has(flags, "Au", "all", "update", "no-ignore-removal")
	if has(flags, "n", "dry-run") || (len(operands) == 0 && !all) {
		return
	}
	touches := anyFile
	if has(flags, "u", "update") {
		touches = tracked
	}
	r.add(c, Stage, touches, operands)
}

// gitCommit reads commit: with -a or paths it stages, and it always commits the index.
func gitCommit(r *reader, c gitCall) {
	flags, operands := c.operands("mFCct", "message", "file", "author", "date", "template", "cleanup", "trailer", "fixup", "squash", "reuse-message", "reedit-message", "pathspec-from-file")
	if has(flags, "", "dry-run") {
		return
	}

	commit := Git{Verb: Commit, Dir: c.scope.dir, NoVerify: c.hooksPath || commitsUnverified(flags)}
	if all := commitsAll(flags); all || len(operands) > 0 {
		if all {
			operands = nil
		}
		r.add(c, Stage, tracked, operands)
	}
	r.effects.Git = append(r.effects.Git, commit)
}

// commitsAll reports whether flags of commit have -a among them, also as -am.
func commitsAll(flags []word) bool { return hasLetter(flags, 'a') || has(flags, "", "all") }

// commitsUnverified reports whether flags of commit leave out its hooks.
func commitsUnverified(flags []word) bool {
	return hasLetter(flags, 'n') || has(flags, "", "no-verify")
}

// hasLetter looks for a letter among joined short flags of commit, up to the first that takes
// a value: -am has a, -ma has not.
func hasLetter(flags []word, letter rune) bool {
	skip := false
	for _, f := range flags {
		if skip || strings.HasPrefix(f.text, "--") || !strings.HasPrefix(f.text, "-") {
			skip = false
			continue
		}
		for i, l := range f.text[1:] {
			if l == letter {
				return true
			}
			if strings.ContainsRune("mFCct", l) {
				skip = i == len(f.text)-2 // its value is the next argument
				break
			}
		}
	}
	return false
}

// gitRemove reads rm and mv, which change the working tree unless they change the index alone.
func gitRemove(r *reader, c gitCall) {
	flags, operands := c.operands("")
	if has(flags, "n", "dry-run", "cached") {
		return
	}
	r.add(c, Discard, tracked, operands)
}

// Pathspec returns the files that a pathspec names in a working tree whose top is "/".
func Pathspec(text string) Target {
	t, _ := pathspec(word{text: text, known: true}, scope{dir: "/"})
	return t
}
