package effects

import (
	"path"
	"slices"
	"strings"
)

// reading are the programs that change no file. Those that start others or change files by a flag
// have a function that says whether this call does.
var reading = map[string]func(args []word) bool{
	"ls": always, "cat": always, "head": always, "tail": always, "grep": always, "egrep": always, "fgrep": always, "rg": without("--pre"), "ag": always,
	"wc": always, "stat": always, "file": always, "du": always, "df": always, "pwd": always, "echo": always, "printf": always, "true": always, "false": always, ":": always,
	"test": always, "[": always, "which": always, "type": always, "date": always, "whoami": always, "id": always, "uname": always, "hostname": always,
	"basename": always, "dirname": always, "realpath": always, "readlink": always, "cut": always, "tr": always, "nl": always, "od": always, "hexdump": always,
	"sort": without("-o", "--output"), "uniq": oneFile, "diff": always, "cmp": always, "comm": always, "cd": always, "pushd": always, "popd": always, "export": always,
	"jq": always, "less": always, "more": always, "tree": without("-o"), "sleep": always, "seq": always, "md5sum": always, "sha256sum": always, "exit": always, "set": always,
	"find": without("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"),
	"sed":  sedReads, "git": gitReads,

	// Programs that run a command, which is read by itself.
	"sh": always, "bash": always, "zsh": always, "dash": always, "ksh": always, "eval": always, "env": always, "command": always, "time": always, "timeout": always,
	"nice": always, "nohup": always, "xargs": always, "sudo": always, "builtin": always, "exec": always,
}

func always([]word) bool { return true }

// oneFile reads uniq, which writes its second operand.
func oneFile(args []word) bool { return len(args) <= 2 }

// without returns whether a call has none of some flags, also joined with a value or with other short
// ones.
func without(flags ...string) func(args []word) bool {
	return func(args []word) bool {
		return !slices.ContainsFunc(args, func(w word) bool {
			return slices.ContainsFunc(flags, func(flag string) bool {
				isShort := len(flag) == 2 && len(w.text) > 1 && w.text[0] == '-' && w.text[1] != '-'
				return w.text == flag || strings.HasPrefix(w.text, flag+"=") || (isShort && strings.Contains(w.text, flag[1:]))
			})
		})
	}
}

// gitReading are the commands of git that change neither files nor branches.
var gitReading = []string{
	"status", "log", "diff", "show", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "rev-list", "cat-file", "describe", "shortlog", "for-each-ref", "show-ref",
	"merge-base", "name-rev", "whatchanged", "count-objects", "check-ignore", "check-attr", "var", "help", "version", "ls-remote", "range-diff", "cherry",
}

// gitReads leaves the decision to the reader of git, which knows the subcommand.
func gitReads([]word) bool { return true }

// readsOnly reports whether a command of git, which begins with its subcommand, changes nothing.
func readsOnly(args []word) bool {
	if len(args) == 0 {
		return true
	}
	sub := args[0].text
	isList := func(words ...string) bool { return len(args) > 1 && slices.Contains(words, args[1].text) }
	switch {
	case !args[0].known:
		return false
	case sub == "stash":
		return isList("list", "show")
	case sub == "worktree":
		return isList("list")
	case sub == "branch", sub == "tag", sub == "remote":
		return len(args) == 1 || isList("-v", "-vv", "-a", "-r", "--list", "-l", "--show-current", "--contains")
	case sub == "config":
		return isList("--get", "--list", "-l", "get", "list")
	case sub == "reflog":
		return len(args) == 1 || isList("show")
	}
	return slices.Contains(gitReading, sub) && without("--output", "--ext-diff", "-O")(args)
}

// note notes where a program runs, which paths it names, and whether it may change files.
func (r *reader) note(c call) {
	reads, isKnown := reading[c.name()]
	if !isKnown || !reads(c.args) {
		r.effects.Acts = true
	}
	if isKnown && !r.effects.Acts && c.name() == "git" {
		return // its reader notes the folder
	}
	r.reaches(c.scope.dir)
	for _, w := range c.args[1:] {
		text := w.text
		if _, value, ok := strings.Cut(text, "="); ok && strings.HasPrefix(text, "-") {
			text = value
		}
		isPath := strings.Contains(text, "/") || strings.HasPrefix(text, "..")
		isAddress := strings.Contains(text, "://") || len(text) > maxPathWord
		if w.known && isPath && !isAddress {
			r.reaches(cleanPattern(c.scope.resolve(text)))
		}
	}
}

// maxPathWord bounds the bytes of a word that is taken for a path.
const maxPathWord = 4096

// cleanPattern returns the folder above the first pattern of a path.
func cleanPattern(at string) string {
	for strings.ContainsAny(at, "*?[") {
		at = path.Dir(at)
	}
	return at
}

// sedReads reports whether a call of sed writes no file: neither in place nor by its script.
func sedReads(args []word) bool {
	return without("-i", "--in-place")(args) && !slices.ContainsFunc(args[1:], func(w word) bool {
		return !w.known || (strings.ContainsAny(w.text, "we") && !strings.HasPrefix(w.text, "-"))
	})
}
