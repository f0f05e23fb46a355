package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// ContentHash returns the SHA-256, in hexadecimal, of the canonical form of a
// JSON value by RFC 8785: two programs that write one value differently have
// one hash. What is not JSON is hashed as it is.
func ContentHash(raw json.RawMessage) string {
	v := append(jsontext.Value(nil), raw...)
	if err := v.Canonicalize(); err != nil {
		v = append(v[:0], raw...)
	}
	sum := sha256.Sum256(v)
	return hex.EncodeToString(sum[:])
}
