// Package vault makes secrets, and guards those that a hub must be able to read
// again with one key in a file.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// A Vault guards the secrets that a hub must be able to read again: the keys
// that it sends to its peers, and those that it signs with. All of them come
// from, or are encrypted under, one key in a file that only its owner can read.
// The store alone, without that file, reveals none of them.
type Vault struct {
	seal    cipher.AEAD
	tokens  []byte
	signing ed25519.PrivateKey
	device  ed25519.PrivateKey
	log     ed25519.PrivateKey
}

// KeyPrefix begins every key, so that scanners for leaked secrets find one.
const KeyPrefix = "cacp_sk_live_"

// NewSecret returns the secret of a new key, with 256 random bits.
func NewSecret() string { return KeyPrefix + random() }

// operatorMark follows the prefix in an operator's key. Only keys of windows have a dot, too.
const operatorMark = "operator."

// NewOperatorSecret returns the secret of an operator's key.
func NewOperatorSecret() string { return KeyPrefix + operatorMark + random() }

// IsOperatorSecret reports whether a key is an operator's by its look, so that the
// command line never sends it. Keys that earlier versions made do not have the mark.
func IsOperatorSecret(secret string) bool { return strings.HasPrefix(secret, KeyPrefix+operatorMark) }

// windowMark follows the prefix in the key of a window.
const windowMark = "window."

// NewWindowSecret returns the secret of the key of a window.
func NewWindowSecret() string { return KeyPrefix + windowMark + random() }

// IsWindowSecret reports whether a key is that of a window by its look.
func IsWindowSecret(secret string) bool { return strings.HasPrefix(secret, KeyPrefix+windowMark) }

func random() string {
	var raw [32]byte
	rand.Read(raw[:]) // never fails: the runtime ends the program instead
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// keyBytes is the size of the key in the file.
const keyBytes = 32

// Open reads the key file, or makes one if there is none. It reports
// CodePolicy when others can read the file.
func Open(path string) (*Vault, error) {
	const op = "vault.Open"
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFile(path); err != nil {
			return nil, fmt.Errorf("vault: make the key file: %w", err)
		}
		info, err = os.Stat(path)
	}
	if err != nil {
		return nil, fmt.Errorf("vault: check the key file: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, hub.Errorf(hub.CodePolicy, op, "other users can read %s", path).WithHint("chmod 600 %s; if another user may have read it, exchange keys with every peer again", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("vault: read the key file: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, hub.Errorf(hub.CodeDegraded, op, "%s does not contain a key", path).
			WithHint("restore it from a backup; without it, exchange keys with every peer again")
	}
	return newVault(key)
}

// makeFile writes a new key unless another process wrote one at the same time.
func makeFile(path string) error {
	var key [keyBytes]byte
	rand.Read(key[:]) // never fails: the runtime ends the program instead
	err := durable.CreateFile(path, []byte(hex.EncodeToString(key[:])+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func newVault(key []byte) (*Vault, error) {
	var keys [5][]byte
	for i, purpose := range []string{"seal", "project tokens", "manifest", "device", "log"} {
		var err error
		if keys[i], err = hkdf.Key(sha256.New, key, nil, "parley/1 "+purpose, 32); err != nil {
			return nil, fmt.Errorf("vault: derive a key: %w", err)
		}
	}
	block, err := aes.NewCipher(keys[0])
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return &Vault{seal: seal, tokens: keys[1], signing: ed25519.NewKeyFromSeed(keys[2]), device: ed25519.NewKeyFromSeed(keys[3]), log: ed25519.NewKeyFromSeed(keys[4])}, nil
}

// sealedPrefix names the algorithm of a sealed secret.
const sealedPrefix = "v1."

// Seal encrypts a secret for a place. Only Open with the same place reads it.
func (v *Vault) Seal(secret, place string) string {
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(v.seal.Seal(nil, nil, []byte(secret), []byte(place)))
}

// Open returns the secret that was sealed for a place.
func (v *Vault) Open(sealed, place string) (string, error) {
	text, ok := strings.CutPrefix(sealed, sealedPrefix)
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if ok && err == nil {
		raw, err = v.seal.Open(nil, nil, raw, []byte(place))
	}
	if !ok || err != nil {
		return "", hub.Errorf(hub.CodeDegraded, "vault.Vault.Open", "cannot read a secret for %s with this hub's key file", place).
			WithHint("restore the key file that belongs to this database, or exchange keys with the peer again")
	}
	return string(raw), nil
}

// SigningKey returns the public half of the key that the hub signs with.
func (v *Vault) SigningKey() ed25519.PublicKey { return v.signing.Public().(ed25519.PublicKey) }

// Sign signs a message with that key.
func (v *Vault) Sign(message []byte) []byte { return ed25519.Sign(v.signing, message) }

// DeviceKey returns the key with which the hub shows its identity to a gateway.
func (v *Vault) DeviceKey() ed25519.PrivateKey { return v.device }

// LogKey returns the key with which the hub signs checkpoints of its journal, and proofs.
func (v *Vault) LogKey() ed25519.PrivateKey { return v.log }

// TokenKey returns the key that project tokens are signed with.
func (v *Vault) TokenKey() []byte { return v.tokens }
