package shape

import (
	"bytes"
	"errors"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// DecodeEnvelope reads one envelope from outside and checks it against the
// published schema. It refuses repeated names at any depth, and in the objects
// that the protocol defines also names that differ only in case.
//
// The payload comes back compacted, otherwise as it was. Unknown members of the
// envelope are kept in Extra, where an envelope that the hub wrote has them; those inside policy, context and its references
// are allowed but dropped. Times are cut to the millisecond.
//
// Failures are reported as CodeInvalid, CodeUnknownType or CodePayloadTooLarge.
func DecodeEnvelope(raw []byte) (hub.Envelope, error) {
	const op = "shape.DecodeEnvelope"
	var e hub.Envelope
	extra, err := strictjson.DecodeOpen(raw, &e)
	if err != nil {
		var at *strictjson.Error
		if errors.As(err, &at) && at.Path == "" {
			err = strictjson.Within("envelope", err)
		}
		return hub.Envelope{}, hub.Errorf(hub.CodeInvalid, op, "%v", err)
	}
	if extra != nil && e.Extra != nil {
		return hub.Envelope{}, hub.Errorf(hub.CodeInvalid, op, "extra: unknown members are allowed in extra or beside it, not both")
	}
	if e.Extra == nil {
		e.Extra = extra
	}
	e.Payload = strictjson.Trust(e.Payload).Compact().Raw()
	if err := e.Validate(); err != nil {
		return hub.Envelope{}, err
	}
	// The schema sees the difference between a member that is empty or null and
	// one that is absent, and how a time is written.
	if err := check("", "envelope", bytes.TrimSpace(raw)); err != nil {
		return hub.Envelope{}, err
	}
	return e, nil
}
