package evidence

import (
	"context"
	"fmt"
	"strings"
)

// The commands of the user, as events and findings name them.
const (
	fieldBuild  = "BUILD"
	fieldVerify = "VERIFY"
)

// Facts are the facts that a report is compared with.
type Facts struct {
	Changes *Changes // nil if the files could not be compared
	Verify  *Outcome // nil if there was no such command
	Build   *Outcome // likewise

	// Commands are facts about VERIFY and BUILD that say how far their outcome
	// proves something.
	Commands []CommandFact

	// AllowTestChanges says that the task is to change tests or the files that the
	// commands run.
	AllowTestChanges bool
}

// A CommandFact is a fact about a command of the user.
type CommandFact struct {
	Kind  string // of the finding
	Field string // VERIFY or BUILD
	Found string
}

// commandFacts returns the facts about the files that decide about a command: the scripts
// that it runs and, for VERIFY, the tests.
func (b *Base) commandFacts(ctx context.Context, field, line string, c Changes) []CommandFact {
	var facts []CommandFact
	kinds := newFiles(c).kinds
	for _, x := range b.scripts(line) {
		if kind, found := b.scriptFact(ctx, field, x, kinds[x.name]); kind != "" {
			facts = append(facts, CommandFact{kind, field, found})
		}
	}
	if field == fieldVerify {
		for _, f := range judgeFiles(c, kinds) {
			facts = append(facts, CommandFact{f.kind, fieldVerify, f.found})
		}
	}
	return facts
}

// scriptFact returns the kind and the text of the fact about a script of a command, whose
// file was changed as is says. The kind is "" if there is none.
func (b *Base) scriptFact(ctx context.Context, field string, x script, is change) (kind, found string) {
	samePart := is == modified && b.samePart(ctx, x)
	if kind, found = scriptText(x, is, field, samePart, b.replaces(x)); kind != "" {
		return kind, found
	}
	if s := b.state(x.name, b.last); s.Ignored && s.Touched && !s.Folder {
		return CheckAdded, fmt.Sprintf("%s is ignored by git and was written since the work began, and %s depends on it", show(x.name), field)
	}
	return "", ""
}

// movedTo reports whether a created file is a deleted one under another name.
func movedTo(c Changes, name string) bool {
	for _, to := range c.Moved {
		if to == name {
			return true
		}
	}
	return false
}

// samePart reports whether the part of a modified script that counts is as it was.
func (b *Base) samePart(ctx context.Context, x script) bool {
	if x.part == nil {
		return false
	}
	was, ok := b.before(ctx, x.name)
	now, err := readSmall(b.root, x.name, maxKept)
	return ok && err == nil && x.part(was) == x.part(now)
}

// replaces returns a file from before the work in whose place a new script is used, "" if
// there is none.
func (b *Base) replaces(x script) string {
	for _, name := range x.instead {
		if _, ok := b.first.files[name]; ok {
			return name
		}
	}
	return ""
}

// driftFacts returns the facts about the files that changed while a command ran. A file
// that the command made is no such fact.
func driftFacts(field string, c Changes) []CommandFact {
	var facts []CommandFact
	kind := ChangedByVerify
	if field == fieldBuild {
		kind = ChangedByBuild
	}
	for _, name := range c.Modified {
		facts = append(facts, CommandFact{kind, field, fmt.Sprintf("%s was modified while %s ran", show(name), field)})
	}
	for _, name := range c.Deleted {
		facts = append(facts, CommandFact{kind, field, fmt.Sprintf("%s was deleted while %s ran", show(name), field)})
	}
	if n := len(c.Rewritten); n > 0 {
		var some []string
		for _, name := range c.Rewritten[:min(n, maxNames)] {
			some = append(some, show(name))
		}
		found := fmt.Sprintf("%d files were rewritten with the same content while %s ran, such as %s", n, field, strings.Join(some, ", "))
		facts = append(facts, CommandFact{Rewritten, field, found})
	}
	return facts
}
