package acpv1

import (
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/internal/wire"
)

// An Unknown is a variant of a union that this version does not define. If its tag
// begins with _ it belongs to an implementation; otherwise it belongs to a future
// version of the protocol and is never to be taken for an extension.
type Unknown struct {
	Tag string

	// Raw is the whole object as it came, discriminator included. Where the
	// union shares its object with other members, those are written from their
	// own fields and the rest from here.
	Raw json.RawMessage
}

// IsExtension reports whether the variant belongs to an implementation.
func (u *Unknown) IsExtension() bool { return strings.HasPrefix(u.Tag, "_") }

// Member returns the value of a member, and whether there is one.
func (u *Unknown) Member(name string) (json.RawMessage, bool) {
	s := wire.NewScanner(u.Raw)
	o := s.Object()
	for o.Next() {
		found := string(o.Name()) == name
		value := s.Raw()
		if found && !s.Failed() {
			return value, true
		}
	}
	return nil, false
}

// NewUnknown returns a variant with a tag of an implementation's own, which must
// begin with _, and further members. discriminator is the name of the member that
// holds the tag in the union at hand.
func NewUnknown(discriminator, tag string, members Members[json.RawMessage]) (*Unknown, error) {
	if !strings.HasPrefix(tag, "_") {
		return nil, &Problem{Path: "/" + discriminator, Value: tag, Reason: "is not for extensions: their values begin with _"}
	}
	e := wire.NewEncoder()
	e.Begin()
	e.Tag(discriminator, tag)
	for _, m := range members {
		e.Extra(m.Name, m.Value)
	}
	e.Close()
	raw, p := e.End()
	if p != nil {
		return nil, (*Problem)(p)
	}
	return &Unknown{Tag: tag, Raw: raw}, nil
}
