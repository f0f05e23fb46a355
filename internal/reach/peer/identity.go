package peer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// ManifestPath returns the path of the agent's manifest on the domain of its id.
func (a AID) ManifestPath() string {
	return "/.well-known/agents/" + a.Name + "-" + a.Version + ".json"
}

// maxManifest bounds a manifest, in bytes.
const maxManifest = 256 << 10

// Identify checks the id of the agent at an endpoint: the manifest on the id's own domain,
// the signature of that manifest, and the DNS entry of the domain where there is one. A
// check that cannot be made has failed. No domain is asked about an endpoint without TLS,
// because nothing could prove the agent there.
func (c *Client) Identify(ctx context.Context, id coord.AID, endpoint string) federation.Identity {
	unchecked := federation.Proof{State: federation.ProofUnchecked}
	out := federation.Identity{Endpoint: endpoint, Signature: unchecked, DNS: unchecked}

	aid, err := ParseAID(string(id))
	if err == nil {
		err = aid.Validate()
	}
	if err == nil && !strings.HasPrefix(endpoint, "https://") {
		err = fmt.Errorf("%s is no https address", endpoint)
	}
	var raw json.RawMessage
	if err == nil {
		raw, err = c.manifest(ctx, aid)
	}
	if err != nil {
		out.Manifest = failed("%v", err)
		return out
	}

	var stated struct{ AID, Signature string }
	json.Unmarshal(raw, &stated) // a member of another type is as absent
	found, _ := listing{Manifest: raw}.found()
	switch {
	case stated.AID != string(id):
		out.Manifest = failed("it names %.100q", stated.AID)
	case found.Endpoint != endpoint:
		out.Manifest = failed("it names the endpoint %.200q", found.Endpoint)
	default:
		out.Manifest.State = federation.ProofPassed
	}

	key, err := manifestKey(found.Key)
	if err != nil {
		out.Signature = failed("%v", err)
		return out
	}
	hash := sha256.Sum256(key)
	out.Key = "sha256:" + hex.EncodeToString(hash[:])
	out.Signature = checkSignature(key, raw, stated.Signature)
	out.DNS = c.checkDNS(ctx, strings.ToLower(aid.Domain), out.Key)
	return out
}

func failed(format string, args ...any) federation.Proof {
	return federation.Proof{State: federation.ProofFailed, Reason: shorten.Line(fmt.Sprintf(format, args...), 300)}
}

// manifest fetches the manifest of an agent from the domain of its id.
func (c *Client) manifest(ctx context.Context, aid AID) (json.RawMessage, error) {
	place := "https://" + strings.ToLower(aid.Domain) + aid.ManifestPath()
	a, err := c.do(ctx, call{method: http.MethodGet, url: place})
	switch {
	case err != nil:
		return nil, err
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("%s answered with status %d", place, a.Status)
	case len(a.Body) > maxManifest:
		return nil, fmt.Errorf("%s has more than %d bytes", place, maxManifest)
	}
	v, err := strictjson.ParseObject(a.Body)
	if err != nil {
		return nil, fmt.Errorf("%s is malformed: %w", place, err)
	}
	return v.Raw(), nil
}

// manifestKey reads an Ed25519 key in the forms that manifests have: its 32 bytes or its
// 44 of SPKI, in base64 once or twice.
func manifestKey(text string) (ed25519.PublicKey, error) {
	const spki = 44
	encoded, named := strings.CutPrefix(text, "ed25519:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if len(raw) > spki {
		raw, err = base64.StdEncoding.DecodeString(string(raw))
	}
	if len(raw) == spki {
		// The base64 of 32 bytes has 44 characters as well.
		if inner, again := base64.StdEncoding.DecodeString(string(raw)); again == nil {
			raw = inner
		} else {
			raw = raw[spki-ed25519.PublicKeySize:]
		}
	}
	if !named || err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("the manifest names no Ed25519 key")
	}
	return raw, nil
}

// checkSignature checks the signature of a manifest over its canonical form: that of the
// protocol's guide, or that of RFC 8785.
func checkSignature(key ed25519.PublicKey, manifest json.RawMessage, text string) federation.Proof {
	if text == "" {
		return failed("the manifest is not signed")
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "ed25519:"))
	if err != nil {
		return failed("the signature is not base64")
	}
	signed, err := unsigned(manifest)
	if err != nil {
		return failed("%v", err)
	}
	other, err := strictjson.Canonical(signed)
	if ed25519.Verify(key, asciiJSON(signed), signature) || (err == nil && ed25519.Verify(key, other, signature)) {
		return federation.Proof{State: federation.ProofPassed}
	}
	return failed("the signature does not match the manifest")
}

// unsigned returns a manifest without its signature: names sorted, no blanks, numbers as
// they were written.
func unsigned(manifest json.RawMessage) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(manifest))
	dec.UseNumber()
	var members map[string]any
	if err := dec.Decode(&members); err != nil {
		return nil, err
	}
	delete(members, "signature")
	return strictjson.Encode(members)
}

// asciiJSON escapes every character outside of ASCII. In JSON they stand in strings only.
func asciiJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r < 0x7f {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// checkDNS checks the entry _adp.DOMAIN against the hash of the key that signed. An entry
// that cannot be read has failed, because it may name another key.
func (c *Client) checkDNS(ctx context.Context, domain, key string) federation.Proof {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	entries, err := c.resolver.LookupTXT(ctx, "_adp."+domain)
	var missing *net.DNSError
	switch {
	case errors.As(err, &missing) && missing.IsNotFound:
		return federation.Proof{State: federation.ProofAbsent}
	case err != nil:
		return failed("_adp.%s: %v", domain, err)
	}

	found := federation.Proof{State: federation.ProofAbsent}
	for _, entry := range entries {
		members := strings.FieldsFunc(entry, func(r rune) bool { return r == ';' || r == ' ' })
		if len(members) == 0 || members[0] != "adp=v2" {
			continue
		}
		for _, m := range members {
			switch value, isKey := strings.CutPrefix(m, "key="); {
			case isKey && strings.EqualFold(value, key):
				return federation.Proof{State: federation.ProofPassed}
			case isKey:
				found = failed("_adp.%s names another key", domain)
			}
		}
	}
	return found
}

// A SignedManifest is a manifest with the signature of the agent.
type SignedManifest struct {
	Manifest
	Signature string `json:"signature"`
}

// Sign signs a manifest for the domain of its agent.
func (m Manifest) Sign(sign func(message []byte) []byte) (SignedManifest, error) {
	raw, err := strictjson.Encode(m)
	if err == nil {
		raw, err = unsigned(raw)
	}
	if err != nil {
		return SignedManifest{}, fmt.Errorf("peer: sign a manifest: %w", err)
	}
	return SignedManifest{m, base64.StdEncoding.EncodeToString(sign(asciiJSON(raw)))}, nil
}

// identifyEvery is the time between two checks of the id of a peer.
const identifyEvery = 24 * time.Hour

// identify checks the id of the peer once a day, after a comparison, and records what it found.
func (w *worker) identify(ctx context.Context) error {
	if w.compared.IsZero() || w.clock().Sub(w.identified) < identifyEvery {
		return nil
	}
	got := w.client.Identify(ctx, w.aid, w.endpoint)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	got.Keyed = w.native && w.remote.key != "" // it compared with this hub
	got.At = coord.InstantAt(w.clock())

	err := w.update(ctx, func(tx hub.Tx, p hub.Peer, _ hub.Outbox) error {
		was, err := federation.ReadIdentity(tx, p)
		if err != nil || p.Endpoint != w.endpoint {
			return err
		}
		got.Listed = was.Listed
		if trust := federation.TrustIn(p, got); trust != federation.TrustIn(p, was) {
			facts := map[string]any{"trust": trust, "manifest": got.Manifest.State, "signature": got.Signature.State, "dns": got.DNS.State}
			if err := w.note(tx, actions.PeerIdentified, facts); err != nil {
				return err
			}
		}
		return hub.WriteMeta(tx, federation.IdentityKey(w.aid), got)
	})
	if err != nil {
		return fmt.Errorf("peer: record the identity of %s: %w", w.aid, err)
	}
	w.identified = w.clock()
	return nil
}
