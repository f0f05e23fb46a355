package coord

import "strings"

// An AID names an agent across hubs: aid://domain/name@version, or, for peers
// that have no better, a plain name.
type AID string

// Split returns the domain of an AID in lower case and the name in it. Both are
// empty for a plain name, and for a text that is no AID.
func (a AID) Split() (domain, name string) {
	rest, ok := strings.CutPrefix(string(a), "aid://")
	domain, rest, cut := strings.Cut(rest, "/")
	name, _, versioned := strings.Cut(rest, "@")
	other := func(r rune) bool { // ASCII alone: two domains that look alike differ
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-'
	}
	hasParts := ok && cut && versioned && domain != "" && name != ""
	if !hasParts || strings.ContainsFunc(domain, other) {
		return "", ""
	}
	return strings.ToLower(domain), name
}

// Same reports whether two AIDs name one agent, perhaps in two versions.
func (a AID) Same(b AID) bool {
	domain, name := a.Split()
	other, second := b.Split()
	return a == b || (domain != "" && domain == other && name == second)
}

// An Access says what a caller or a peer may do, before its grants narrow it. The store
// keeps the protocol's words.
type Access string

// The levels.
const (
	AccessFull Access = "verified" // it has a key: everything that its grants permit
	AccessRead Access = "known"    // the operator approved it without a key: it may read
	AccessNone Access = "unknown"  // nothing
)
