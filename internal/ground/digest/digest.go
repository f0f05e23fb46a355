// Package digest hashes the members of a noun, each preceded by its length, so that no two
// different nouns give the same bytes. The digests of stored nouns are made with it; they are
// tested with the nouns, in hub/digest_test.go.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
)

// A Digest gathers the members of one noun and hashes them in one piece.
type Digest []byte

// New begins the digest of one kind of noun.
func New(kind string) *Digest {
	d := make(Digest, 0, 1024)
	d.Put(kind)
	return &d
}

// Put adds members.
func (d *Digest) Put(members ...string) {
	for _, s := range members {
		*d = append(binary.BigEndian.AppendUint64(*d, uint64(len(s))), s...)
	}
}

// JSON adds v as encoding/json writes it. The nouns hold nothing that it could refuse.
func (d *Digest) JSON(v any) {
	b, _ := json.Marshal(v)
	d.Put(string(b))
}

// Hex returns the SHA-256 of the members in hexadecimal.
func (d *Digest) Hex() string {
	sum := sha256.Sum256(*d)
	return hex.EncodeToString(sum[:])
}
