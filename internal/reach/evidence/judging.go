package evidence

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A judgeFact is a fact about a file that judges a change and that the change touches.
type judgeFact struct{ file, kind, found string }

// scriptText returns the kind and the text of the fact about a script of a command, whose file was changed
// as is says; the kind is "" if there is none. samePart says that the part that counts is as it was, and
// replaced is the file from before in whose place a new script is used.
func scriptText(x script, is change, command string, samePart bool, replaced string) (kind, found string) {
	name := show(x.name)
	switch {
	case is == modified && samePart:
		return "", ""
	case is == modified, is == deleted:
		return CheckChanged, fmt.Sprintf("%s was %s, and %s depends on it", name, is, command)
	case is == created && replaced != "":
		return CheckChanged, fmt.Sprintf("%s was created, and %s uses it instead of %s", name, command, show(replaced))
	case is == created:
		return CheckAdded, fmt.Sprintf("%s was created, and %s depends on it", name, command)
	}
	return "", ""
}

// rules are the files by which a repository proposes its checks and the folder of the keys that it trusts.
const (
	proposedChecks = "parley.yaml"
	trustedKeys    = ".parley/keys"
)

// judgeFiles returns the facts about changed files that judge any change: tests, the proposal of checks,
// and trusted keys.
func judgeFiles(c Changes, kinds map[string]change) (facts []judgeFact) {
	add := func(name, kind, format string, args ...any) {
		facts = append(facts, judgeFact{name, kind, fmt.Sprintf(format, args...)})
	}
	for _, name := range c.names() {
		to, isMoved := c.Moved[name]
		is := kinds[name]
		switch {
		case name == proposedChecks:
			add(name, CheckChanged, "%s was %s, and proposes the checks", show(name), is)
		case name == trustedKeys, strings.HasPrefix(name, trustedKeys+"/"):
			add(name, CheckChanged, "%s was %s, and says which keys are trusted", show(name), is)
		case !isTest(name):
		case is == created && !movedTo(c, name):
			add(name, TestAdded, "%s was added, and is a test", show(name))
		case is == created:
		case isMoved && isTest(to) && idles(name, to):
			add(name, TestChanged, "%s was moved to %s, where it does not run, and is a test", show(name), show(to))
		case isMoved && isTest(to):
			add(name, TestMoved, "%s was moved to %s as it is", show(name), show(to))
		default:
			add(name, TestChanged, "%s was %s, and is a test", show(name), is)
		}
	}
	return facts
}

// A JudgedChange is the change of a commit, with the command lines of the checks that judge it and of
// their setups.
type JudgedChange struct {
	Files   []hub.CommitChange
	Lines   []string
	Counted bool // the checks count tests, so that their numbers say whether some were removed

	// Before and After return the content of a file without and with the change; nil if there is none.
	Before, After func(name string) []byte
}

// Judging returns what a change does to the things that judge it, by the names of its files. A word of a
// reviewer is needed if it changes a file that a check runs, or brings one that the check uses instead of
// another; if it changes the proposal of checks or a trusted key; and if it removes a test, where no check
// counts them. Added and edited tests, and new scripts, are named.
func Judging(j JudgedChange) (out []hub.JudgeFinding) {
	c, kinds := j.changes()
	scripts := j.scripts()
	for _, name := range c.names() {
		for _, x := range scripts[name] {
			samePart := x.part != nil && kinds[name] == modified && x.part(j.Before(name)) == x.part(j.After(name))
			replaced := slices.IndexFunc(x.instead, func(other string) bool { return j.Before(other) != nil })
			instead := ""
			if replaced >= 0 {
				instead = x.instead[replaced]
			}
			kind, found := scriptText(x, kinds[name], "a check", samePart, instead)
			isShadow := kinds[name] == created && x.importer != "" && kinds[x.importer] == ""
			if isShadow {
				kind = CheckChanged
				found = fmt.Sprintf("%s was created, and %s, on which a check depends, imports it", show(name), show(x.importer))
			}
			if kind != "" {
				out = append(out, hub.JudgeFinding{File: name, Found: found, Word: kind == CheckChanged})
				break
			}
		}
	}
	for _, f := range judgeFiles(c, kinds) {
		isRemoved := f.kind == TestChanged && kinds[f.file] == deleted && !j.Counted
		out = append(out, hub.JudgeFinding{File: f.file, Found: f.found, Word: f.kind == CheckChanged || isRemoved})
	}
	return out
}

// changes returns the files of the change by what happened to them.
func (j JudgedChange) changes() (Changes, map[string]change) {
	c := Changes{Moved: map[string]string{}}
	appeared := map[string]string{} // by content
	for _, f := range j.Files {
		switch {
		case f.Was == "":
			c.Created = append(c.Created, f.Path)
			appeared[f.Is] = f.Path
		case f.Is == "":
			c.Deleted = append(c.Deleted, f.Path)
		default:
			c.Modified = append(c.Modified, f.Path)
		}
	}
	for _, f := range j.Files {
		if to, ok := appeared[f.Was]; ok && f.Is == "" {
			c.Moved[f.Path] = to
		}
	}
	return c, newFiles(c).kinds
}

// noFolder is a path that no command names: the files of a commit have no absolute paths.
const noFolder = "/dev/null/commit"

// scripts returns the files that the checks run, without and with the change, by their names.
func (j JudgedChange) scripts() map[string][]script {
	out := map[string][]script{}
	for _, content := range []func(string) []byte{j.Before, j.After} {
		s := newScriptSearch(noFolder, func(name string) []byte {
			b := content(path.Clean(name))
			return b[:min(len(b), maxScript)]
		}, func(string) string { return "" })
		for _, line := range j.Lines {
			s.text(".", line)
		}
		for _, key := range slices.Sorted(maps.Keys(s.found)) {
			x := s.found[key]
			out[x.name] = append(out[x.name], x)
		}
	}
	return out
}
