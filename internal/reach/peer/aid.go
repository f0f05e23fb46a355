package peer

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// An AID is an agent's identity across hubs, aid://domain/name@version, taken
// apart. String returns it as it was read.
type AID struct {
	Domain  string
	Name    string
	Version string
	text    string
}

// lenientAID is the form that exchanges accept.
var lenientAID = pattern.New(`^aid://([a-zA-Z0-9.-]+)/([a-z0-9-]+)@(\d+\.\d+\.\d+(?:-[^\s+]+)?(?:\+\S+)?)$`)

// The parts of a strict AID: a host name, words joined by single dashes, and a
// semantic version.
var (
	strictDomain  = pattern.New(`^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$`)
	strictName    = pattern.New(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)
	strictVersion = pattern.New(`^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)` +
		`(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
		`(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$`)
)

// maxAID is the longest AID, in bytes.
const maxAID = 512

// ParseAID reads an AID in the form that exchanges accept, which is wider than that
// of the protocol. Where trust depends on it, call Validate as well.
func ParseAID(s string) (AID, error) {
	m := lenientAID().FindStringSubmatch(s)
	if m == nil || len(s) > maxAID {
		return AID{}, fmt.Errorf("%.80q is not an agent id of the form aid://domain/name@1.0.0", s)
	}
	return AID{m[1], m[2], m[3], s}, nil
}

// Validate checks an AID by the letter of the protocol.
func (a AID) Validate() error {
	switch {
	case !strictDomain().MatchString(strings.ToLower(a.Domain)) || len(a.Domain) > 253:
		return fmt.Errorf("%q is not a domain", a.Domain)
	case !strictName().MatchString(a.Name):
		return fmt.Errorf("%q is not a name of lower-case words joined by single dashes", a.Name)
	case !strictVersion().MatchString(a.Version):
		return fmt.Errorf("%q is not a semantic version", a.Version)
	}
	return nil
}

// String returns the AID as it was read.
func (a AID) String() string {
	if a.text != "" {
		return a.text
	}
	return "aid://" + a.Domain + "/" + a.Name + "@" + a.Version
}

// Same reports whether two AIDs are the same agent, perhaps in two versions.
// Case does not count in a domain.
func (a AID) Same(b AID) bool {
	return strings.EqualFold(a.Domain, b.Domain) && a.Name == b.Name
}
