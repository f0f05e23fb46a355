package coord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// ContentHash returns the SHA-256, in hexadecimal, of the canonical form of a
// JSON value by RFC 8785: two programs that write one value differently have
// one hash. Text that is not JSON is hashed as it is.
func ContentHash(raw json.RawMessage) string {
	canonical, err := strictjson.Canonical(raw)
	if err != nil {
		canonical = raw
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
