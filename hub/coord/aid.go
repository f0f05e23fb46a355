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

// A TrustLevel says how well the identity of a peer is known.
type TrustLevel string

// The levels.
const (
	TrustVerified TrustLevel = "verified" // found in the exchange and has a key: full access
	TrustKnown    TrustLevel = "known"    // found in the exchange, no key: may read
	TrustUnknown  TrustLevel = "unknown"  // nothing
)

// TrustLevels lists every level, most trusted first.
var TrustLevels = []TrustLevel{TrustVerified, TrustKnown, TrustUnknown}
