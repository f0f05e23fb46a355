package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// algCosignature is the number of the algorithm of cosignatures, C2SP tlog-cosignature v1.
const algCosignature = 4

// signaturePrefix begins a line with a signature.
const signaturePrefix = "\u2014 "

// cosigner returns the first bytes of a cosignature by this key.
func (k Key) cosigner() []byte {
	h := sha256.New()
	h.Write([]byte(k.Name + "\n"))
	h.Write([]byte{algCosignature})
	h.Write(k.public)
	return h.Sum(nil)[:4]
}

// cosigned returns the bytes that a cosignature signs.
func cosigned(text string, at uint64) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text)
}

// Cosign returns the line with which a witness says that it saw a checkpoint of another log.
func (s *Signer) Cosign(signed string, at time.Time) (string, error) {
	text, _, ok := strings.Cut(signed, "\n\n")
	if !ok {
		return "", errors.New("the checkpoint is not a note")
	}
	seconds := uint64(at.Unix())
	sig := binary.BigEndian.AppendUint64(s.Key.cosigner(), seconds)
	sig = append(sig, ed25519.Sign(s.private, cosigned(text+"\n", seconds))...)
	return signaturePrefix + s.Key.Name + " " + base64.StdEncoding.EncodeToString(sig) + "\n", nil
}

// Cosigned returns when this key cosigned a checkpoint; ok is false if it did not.
func (k Key) Cosigned(signed string) (at time.Time, ok bool) {
	text, lines, _ := strings.Cut(signed, "\n\n")
	for line := range strings.Lines(lines) {
		encoded, isOf := strings.CutPrefix(strings.TrimSuffix(line, "\n"), signaturePrefix+k.Name+" ")
		sig, err := base64.StdEncoding.DecodeString(encoded)
		isWhole := isOf && err == nil && len(sig) == 4+8+ed25519.SignatureSize
		if !isWhole || !bytes.Equal(sig[:4], k.cosigner()) {
			continue
		}
		seconds := binary.BigEndian.Uint64(sig[4:12])
		if ed25519.Verify(k.public, cosigned(text+"\n", seconds), sig[12:]) {
			return time.Unix(int64(seconds), 0).UTC(), true
		}
	}
	return time.Time{}, false
}

// Own returns a checkpoint of this key's log without the signatures of others.
func (k Key) Own(signed string) string {
	text, lines, _ := strings.Cut(signed, "\n\n")
	out := text + "\n\n"
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, signaturePrefix+k.Name+" ") {
			out += line
		}
	}
	return out
}

// SplitNotes returns the signed notes of a text, which follow one another with an empty line between.
func SplitNotes(text string) (notes []string) {
	parts := strings.Split(text, "\n\n")
	for i := 0; i+1 < len(parts); i += 2 {
		notes = append(notes, parts[i]+"\n\n"+strings.TrimSuffix(parts[i+1], "\n")+"\n")
	}
	return notes
}
