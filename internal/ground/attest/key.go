// Package attest has the formats in which a hub proves something to strangers: checkpoints of a
// Merkle tree as C2SP signed notes, its tiles, and in-toto statements in DSSE envelopes. It knows no
// store and no noun of a hub, and is the one owner of the libraries of these formats. One Ed25519 key
// signs both: a note begins with the name of its log, and the bytes that DSSE signs with "DSSEv1 ".
package attest

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"golang.org/x/mod/sumdb/note"
)

// algEd25519 is the number of the algorithm in the keys of signed notes.
const algEd25519 = 1

// A Key is the public half of the key of a log.
type Key struct {
	Name string // of the log; the origin of its checkpoints
	Text string // as a signed note has it: NAME+HASH+KEY

	public   ed25519.PublicKey
	verifier note.Verifier
}

// NewKey returns the public key of the log with a name.
func NewKey(name string, public ed25519.PublicKey) (Key, error) {
	text, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		return Key{}, fmt.Errorf("attest: key of %q: %w", name, err)
	}
	return ParseKey(text)
}

// ParseKey reads a public key in the form of signed notes.
func ParseKey(text string) (Key, error) {
	verifier, err := note.NewVerifier(text)
	if err != nil {
		return Key{}, fmt.Errorf("attest: %.80q is not a public key: %w", text, err)
	}
	_, rest, _ := strings.Cut(text, "+")
	_, encoded, _ := strings.Cut(rest, "+") // base64 may have a plus of its own
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algEd25519 {
		return Key{}, fmt.Errorf("attest: %.80q is not an Ed25519 key", text)
	}
	return Key{verifier.Name(), text, ed25519.PublicKey(raw[1:]), verifier}, nil
}

// ParseKeys reads a file of public keys: one on a line, with empty lines and comments after #.
func ParseKeys(text string) (all []Key, err error) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		k, err := ParseKey(line)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// ID returns the id of the key in envelopes: the SHA-256 of its bytes in hexadecimal.
func (k Key) ID() string {
	sum := sha256.Sum256(k.public)
	return hex.EncodeToString(sum[:])
}

// Public returns the bytes of the key.
func (k Key) Public() ed25519.PublicKey { return k.public }

// Is reports whether both are the same key of the same log.
func (k Key) Is(other Key) bool { return k.Text != "" && k.Text == other.Text }

// A Signer signs the checkpoints and statements of one log.
type Signer struct {
	Key     Key
	private ed25519.PrivateKey
	note    note.Signer
}

// NewSigner returns the signer of the log with a name.
func NewSigner(name string, private ed25519.PrivateKey) (*Signer, error) {
	key, err := NewKey(name, private.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	secret := append([]byte{algEd25519}, private.Seed()...)
	signer, err := note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, key.verifier.KeyHash(), base64.StdEncoding.EncodeToString(secret)))
	if err != nil {
		return nil, fmt.Errorf("attest: key of %q: %w", name, err)
	}
	return &Signer{key, private, signer}, nil
}

// A dsseSigner signs envelopes.
type dsseSigner struct{ s *Signer }

func (d dsseSigner) Sign(_ context.Context, data []byte) ([]byte, error) {
	return ed25519.Sign(d.s.private, data), nil
}

func (d dsseSigner) KeyID() (string, error) { return d.s.Key.ID(), nil }

// PayloadType is the type of the payload of every envelope.
const PayloadType = "application/vnd.in-toto+json"

// An Envelope is a signed statement.
type Envelope = dsse.Envelope

// Seal returns the envelope of a statement.
func (s *Signer) Seal(statement []byte) (Envelope, error) {
	signer, err := dsse.NewEnvelopeSigner(dsseSigner{s})
	if err != nil {
		return Envelope{}, err
	}
	e, err := signer.SignPayload(context.Background(), PayloadType, statement)
	if err != nil {
		return Envelope{}, fmt.Errorf("attest: %w", err)
	}
	return *e, nil
}

// Open returns the statement in an envelope. It accepts one signature, by this key, and one spelling
// of each member, so that no two envelopes have the same meaning.
func (k Key) Open(e Envelope) ([]byte, error) {
	switch {
	case e.PayloadType != PayloadType:
		return nil, fmt.Errorf("its payload is of type %.60q, not %s", e.PayloadType, PayloadType)
	case len(e.Signatures) != 1:
		return nil, fmt.Errorf("it has %d signatures instead of one", len(e.Signatures))
	case e.Signatures[0].KeyID != k.ID():
		return nil, fmt.Errorf("it is signed with another key, %.16q", e.Signatures[0].KeyID)
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(e.Payload)
	if err != nil || base64.StdEncoding.EncodeToString(payload) != e.Payload {
		return nil, errors.New("its payload is not base64")
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(e.Signatures[0].Sig)
	if err != nil || base64.StdEncoding.EncodeToString(sig) != e.Signatures[0].Sig {
		return nil, errors.New("its signature is not base64")
	}
	if !ed25519.Verify(k.public, dsse.PAE(e.PayloadType, payload), sig) {
		return nil, errors.New("its signature is not of this key")
	}
	return payload, nil
}

// RecordDigest returns the digest of a record as the journal has it: the SHA-256, in hexadecimal, of
// each text preceded by its length in eight bytes.
func RecordDigest(texts ...string) string {
	h := sha256.New()
	var length [8]byte
	for _, s := range texts {
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		h.Write(length[:])
		h.Write([]byte(s))
	}
	return hex.EncodeToString(h.Sum(nil))
}
