// Package handshake proves the operator's key to a hub, and the hub to the
// operator, without sending the key.
//
// Both sides know the hash of the key. Each sends a random number and then an HMAC
// under the hash over both numbers and the [Channel] between them, which is the
// hub's certificate, or its address on loopback. A program that relays between two
// ports passes on a proof for the other port, which the operator's side refuses
// before it answers. The result is a token that lives for minutes and dies with the
// hub.
package handshake

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Paths of the two requests at a hub.
const (
	ChallengePath = "/operator/challenge" // an Opening gets a Challenge
	TokenPath     = "/operator/token"     // an Answer gets a Grant
)

const (
	tokenPrefix = "parley_op_"
	// TokenLife is how long a token is accepted.
	TokenLife = 10 * time.Minute

	challengeLife = 10 * time.Second
	maxOpen       = 256  // challenges without an answer; a further one replaces the oldest
	maxTokens     = 4096 // tokens at a time; a further one replaces the oldest
)

// A Channel names the way between the two sides as both see it.
type Channel string

// TCP returns the channel to a listener without TLS. It is "" unless the address is
// one of loopback: elsewhere the requests after the handshake could be overheard.
func TCP(listener net.Addr) Channel {
	a, err := netip.ParseAddrPort(listener.String())
	if err != nil || !a.Addr().Unmap().IsLoopback() {
		return ""
	}
	return Channel("tcp " + netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String())
}

// TLS returns the channel to a listener with a certificate.
func TLS(cert *x509.Certificate) Channel {
	sum := sha256.Sum256(cert.Raw)
	return Channel("tls " + hex.EncodeToString(sum[:]))
}

// An Opening is the first message of the operator's side.
type Opening struct {
	Key   string `json:"key"` // see KeyID
	Nonce string `json:"nonce"`
}

// A Challenge answers an Opening. Its proof shows that the hub knows the key's hash.
type Challenge struct {
	Nonce string `json:"nonce"`
	Proof string `json:"proof"`
}

// An Answer shows that the operator's side knows the key.
type Answer struct {
	Nonce string `json:"nonce"` // of the Challenge
	Proof string `json:"proof"`
}

// A Grant is the result.
type Grant struct {
	Token    string `json:"token"`
	ExpiresS int    `json:"expires_s"`
}

// KeyID names a key by its hash without revealing the hash.
func KeyID(hash string) string { return prove(hash, "id")[:16] }

func prove(hash string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(hash))
	mac.Write([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(mac.Sum(nil))
}

// The proofs of the two sides have different labels, so that neither can be sent
// back as the other.
func hubProof(hash string, c Channel, opening, challenge string) string {
	return prove(hash, "hub", string(c), opening, challenge)
}

func operatorProof(hash string, c Channel, opening, challenge string) string {
	return prove(hash, "operator", string(c), opening, challenge)
}

// An Exchange is one handshake at the operator's side.
type Exchange struct {
	hash    string
	Opening Opening
}

// Begin begins a handshake with a key.
func Begin(secret string) Exchange {
	hash := hub.HashSecret(secret)
	return Exchange{hash: hash, Opening: Opening{Key: KeyID(hash), Nonce: rand.Text()}}
}

// Answer answers a challenge that came over a channel. It reports CodeTampering if
// the other side does not know the key or is at the end of another channel.
func (x Exchange) Answer(c Channel, got Challenge) (Answer, error) {
	const op = "handshake.Answer"
	if c == "" {
		return Answer{}, hub.Errorf(hub.CodePolicy, op, "the operator's key can be used only over TLS or on this machine").
			WithHint("start the hub with --tls-cert and --tls-key and call it over https")
	}
	if !hmac.Equal([]byte(got.Proof), []byte(hubProof(x.hash, c, x.Opening.Nonce, got.Nonce))) {
		return Answer{}, hub.Errorf(hub.CodeTampering, op, "the program at this address is not the hub that the operator's key belongs to; the key was not sent").
			WithHint("call the hub directly, without a proxy or a forwarded port in between")
	}
	return Answer{Nonce: got.Nonce, Proof: operatorProof(x.hash, c, x.Opening.Nonce, got.Nonce)}, nil
}

// A Hub is the hub's side: it gives challenges and tokens.
type Hub struct {
	hashes func(ctx context.Context) ([]string, error)
	clock  hub.Clock

	mu     sync.Mutex
	open   map[string]challenge // by the hub's nonce
	tokens map[string]token     // by the token's hash
}

type challenge struct {
	key     string // hash
	channel Channel
	opening string // nonce
	at      hub.Time
}

type token struct {
	key string // hash
	at  hub.Time
}

// NewHub returns the hub's side. hashes returns the hashes of the operators' keys.
func NewHub(hashes func(context.Context) ([]string, error), clock hub.Clock) *Hub {
	return &Hub{hashes: hashes, clock: clock, open: map[string]challenge{}, tokens: map[string]token{}}
}

// Challenge answers the opening of a handshake that came over a channel.
func (h *Hub) Challenge(ctx context.Context, c Channel, o Opening) (Challenge, error) {
	const op = "handshake.Challenge"
	if c == "" {
		return Challenge{}, hub.Errorf(hub.CodePolicy, op, "operators can call only over TLS or on the hub's machine")
	}
	if len(o.Nonce) < 16 || len(o.Nonce) > 128 {
		return Challenge{}, hub.Errorf(hub.CodeInvalid, op, "nonce must be 16 to 128 characters")
	}
	hashes, err := h.hashes(ctx)
	if err != nil {
		return Challenge{}, err
	}
	for _, hash := range hashes {
		if KeyID(hash) != o.Key {
			continue
		}
		now := h.clock.Now()
		nonce := rand.Text()
		h.mu.Lock()
		defer h.mu.Unlock()
		put(h.open, nonce, challenge{hash, c, o.Nonce, now}, maxOpen, now.Add(-challengeLife))
		return Challenge{Nonce: nonce, Proof: hubProof(hash, c, o.Nonce, nonce)}, nil
	}
	return Challenge{}, refused(op)
}

func (c challenge) made() hub.Time { return c.at }
func (t token) made() hub.Time     { return t.at }

// put stores an entry in a map of at most most entries. It removes entries made
// before a time, and the oldest one if the map is full.
func put[T interface{ made() hub.Time }](m map[string]T, key string, value T, most int, before hub.Time) {
	if len(m) >= most {
		oldest, found := "", false
		for k, v := range m {
			if v.made().Before(before.Time) {
				delete(m, k)
			} else if !found || v.made().Before(m[oldest].made().Time) {
				oldest, found = k, true
			}
		}
		if len(m) >= most {
			delete(m, oldest)
		}
	}
	m[key] = value
}

func refused(op string) error {
	return hub.Errorf(hub.CodeUnauthenticated, op, "no operator of this hub has this key")
}

// Grant gives a token for an answer that came over the channel of its challenge. A
// challenge can be answered once.
func (h *Hub) Grant(c Channel, a Answer) (Grant, error) {
	const op = "handshake.Grant"
	now := h.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	asked, ok := h.open[a.Nonce]
	delete(h.open, a.Nonce)
	isOpen := ok && asked.channel == c && !asked.at.Before(now.Add(-challengeLife).Time)
	if !isOpen || !hmac.Equal([]byte(a.Proof), []byte(operatorProof(asked.key, c, asked.opening, a.Nonce))) {
		return Grant{}, refused(op)
	}
	secret := tokenPrefix + rand.Text() + rand.Text()
	put(h.tokens, hub.HashSecret(secret), token{asked.key, now}, maxTokens, now.Add(-TokenLife))
	return Grant{Token: secret, ExpiresS: int(TokenLife / time.Second)}, nil
}

// IsToken reports whether a bearer looks like a token of a handshake.
func IsToken(bearer string) bool { return strings.HasPrefix(bearer, tokenPrefix) }

// KeyHash returns the hash of the key with which a token was obtained. It reports
// CodeUnauthenticated for a token that is unknown or too old.
func (h *Hub) KeyHash(secret string) (string, error) {
	now := h.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.tokens[hub.HashSecret(secret)]
	if !ok || t.at.Before(now.Add(-TokenLife).Time) {
		return "", hub.Errorf(hub.CodeUnauthenticated, "handshake.KeyHash", "the operator's token is no longer valid").
			WithHint("prove the key again; the parley command does this automatically")
	}
	return t.key, nil
}
