package cli

import (
	"slices"
	"strings"
)

// The instruction stands on a line of its own between two comments. The first
// lists for whom it is there, because CLIs share files like AGENTS.md: it stays
// until the last of them is gone.
const (
	noteOpen  = "<!-- parley: "
	noteEnd   = " -->"
	noteClose = "<!-- /parley -->"
)

// A note is the marked instruction in a document.
type note struct {
	start, end int // its lines, without the last line's end
	opened     int // the end of its first line's text
	users      []string
}

// notes finds the marked instructions.
func notes(doc []byte) (found []note, err error) {
	var open *note
	at := 0
	for line := range strings.Lines(strings.ReplaceAll(string(doc), "\r", "\n")) {
		text := strings.TrimRight(line, " \t\n")
		isOpen := strings.HasPrefix(text, noteOpen) && strings.HasSuffix(text, noteEnd)
		switch {
		case isOpen && open != nil:
			return nil, &flaw{open.start, "this marker is not closed: " + noteClose + " is missing"}
		case isOpen && len(found) == maxParts:
			return nil, &flaw{at, "too many marked instructions to edit"}
		case isOpen:
			list := strings.TrimSuffix(strings.TrimPrefix(text, noteOpen), noteEnd)
			open = &note{start: at, opened: at + len(text), users: strings.Fields(list)}
		case text == noteClose && open == nil:
			return nil, &flaw{at, "this closing marker has no opening marker"}
		case text == noteClose:
			open.end = at + len(text)
			found = append(found, *open)
			open = nil
		}
		at += len(line)
	}
	if open != nil {
		return nil, &flaw{open.start, "this marker is not closed: " + noteClose + " is missing"}
	}
	return found, nil
}

func noteHead(users []string) string { return noteOpen + strings.Join(users, " ") + noteEnd }

func noteText(nl, line string, users []string) string {
	return strings.Join([]string{noteHead(users), line, noteClose}, nl)
}

// putNote adds the instruction for one user, or brings it up to date.
func putNote(doc []byte, user, line string) ([]byte, error) {
	found, err := notes(doc)
	if err != nil {
		return nil, err
	}
	nl := newline(doc)
	if len(found) == 0 {
		return appendBlock(doc, noteText(nl, line, []string{user})), nil
	}
	n := found[0]
	for _, other := range found {
		if slices.Contains(other.users, user) {
			n = other
			break
		}
	}
	users := n.users
	if !slices.Contains(users, user) {
		users = append(users, user)
	}
	return splice(doc, n.start, n.end, noteText(nl, line, users)), nil
}

// dropNote takes one user off the instruction, and the instruction out if that
// was the last.
func dropNote(doc []byte, user string) ([]byte, error) {
	found, err := notes(doc)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(found) {
		others := slices.DeleteFunc(slices.Clone(n.users), func(u string) bool { return u == user })
		switch {
		case len(others) == len(n.users):
		case len(others) == 0:
			doc = cutBlock(doc, n.start, n.end)
		default:
			doc = splice(doc, n.start, n.opened, noteHead(others))
		}
	}
	return doc, nil
}

// hasNote reports whether the instruction is there for the user.
func hasNote(doc []byte, user string) (bool, error) {
	found, err := notes(doc)
	return slices.ContainsFunc(found, func(n note) bool { return slices.Contains(n.users, user) }), err
}
