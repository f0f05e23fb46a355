package rpc

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// Decode reads the parameters of an operation, or an object in them. No bytes
// stand for an empty object. In every dialect repeated names, and names that
// differ in case only, are refused.
func Decode(op string, d Dialect, raw []byte, into any) error {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if raw[0] != '{' {
		return hub.Errorf(hub.CodeInvalid, op, "params must be an object")
	}
	decode := strictjson.Decode
	if d == Tolerant {
		decode = strictjson.DecodeTolerant
	}
	if err := decode(raw, into); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	return nil
}
