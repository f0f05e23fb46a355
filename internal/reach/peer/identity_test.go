package peer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/peers"
)

// A domain is a host with a certificate and entries of DNS.
type domain struct {
	*httptest.Server
	roots   *x509.CertPool
	entries func() ([]string, error)
	asked   int // names that were looked up
}

// newDomain serves a host over TLS.
func newDomain(t *testing.T, host string, serve http.HandlerFunc) *domain {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	d := &domain{Server: httptest.NewUnstartedServer(serve), roots: x509.NewCertPool(), entries: noEntry}
	d.roots.AddCert(cert)
	d.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	d.StartTLS()
	t.Cleanup(d.Close)
	return d
}

func noEntry() ([]string, error) { return nil, &net.DNSError{IsNotFound: true} }

func (d *domain) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	d.asked++
	return addrs("127.0.0.1"), nil
}

func (d *domain) LookupTXT(context.Context, string) ([]string, error) { return d.entries() }

// client returns options of a client for which every TLS address is that of the domain.
func (d *domain) client() peer.ClientOptions {
	return peer.ClientOptions{Guard: loopback, Resolver: d, Roots: d.roots, Timeout: 5 * time.Second, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasSuffix(addr, ":443") {
			addr = d.Listener.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
}

func TestIdentify(t *testing.T) {
	const aid = "aid://beta.example/hub@1.0.0"
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, strange, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(public)
	fingerprint := "sha256:" + hex.EncodeToString(hash[:])
	signer := func(key ed25519.PrivateKey) func([]byte) []byte {
		return func(text []byte) []byte { return ed25519.Sign(key, text) }
	}
	signed := func(self peer.Self, key ed25519.PrivateKey) string {
		m, err := self.Manifest(public, hub.AtMilli(0), false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.Sign(signer(key))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	self := peer.Self{AID: aid, URL: "https://beta.example", Repo: "café", Role: "backend"}
	good := signed(self, private)
	moved := self
	moved.URL = "https://other.example"
	other := self
	other.AID = "aid://beta.example/hub@2.0.0"

	// What the guide's json.dumps(sort_keys=True, separators=(",", ":")) writes, and RFC 8785.
	const guide = `{"aid":"aid://beta.example/hub@1.0.0","invocation":{"protocols":[{"endpoint":"https://beta.example","type":"cacp"}]},"name":"\u00e9\ud83d\ude00\u007f<","security":{"signingKeys":{"current":"KEY"}},"weight":1.50}`
	const rfc = `{"aid":"aid://beta.example/hub@1.0.0","invocation":{"protocols":[{"endpoint":"https://beta.example","type":"cacp"}]},"name":"é😀` + "\x7f" + `<","security":{"signingKeys":{"current":"KEY"}},"weight":1.5}`
	with := func(form, keyText string) string {
		form = strings.Replace(form, "KEY", keyText, 1)
		sum := base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(form)))
		return strings.Replace(form, `{"aid"`, `{"signature":"`+sum+`", "aid"`, 1)
	}
	raw := "ed25519:" + base64.StdEncoding.EncodeToString(public)
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	spki := base64.StdEncoding.EncodeToString(der)

	const p, f, a, u = federation.ProofPassed, federation.ProofFailed, federation.ProofAbsent, federation.ProofUnchecked
	for _, test := range []struct {
		name     string
		manifest string
		entries  func() ([]string, error)
		want     [3]federation.ProofState
		reason   string
	}{
		{"a signed manifest", good, nil, [3]federation.ProofState{p, p, a}, ""},
		{"and an entry that names its key", good, txt("v=spf1", "adp=v2;key="+fingerprint+";registry=https://x"), [3]federation.ProofState{p, p, p}, ""},
		{"an entry that names another key", good, txt("adp=v2;key=sha256:00"), [3]federation.ProofState{p, p, f}, "names another key"},
		{"entries about other things", good, txt("adp=v1;key=sha256:00", "hello"), [3]federation.ProofState{p, p, a}, ""},
		{"DNS that does not answer", good, func() ([]string, error) { return nil, &net.DNSError{Err: "timeout", IsTimeout: true} }, [3]federation.ProofState{p, p, f}, "timeout"},
		{"no manifest", "", nil, [3]federation.ProofState{f, u, u}, "status 404"},
		{"no JSON", "<html>", nil, [3]federation.ProofState{f, u, u}, "malformed"},
		{"a member twice", `{"aid":"x","aid":"` + aid + `"}`, nil, [3]federation.ProofState{f, u, u}, "malformed"},
		{"the manifest of another agent", signed(other, private), nil, [3]federation.ProofState{f, p, a}, "names"},
		{"the manifest of another endpoint", signed(moved, private), nil, [3]federation.ProofState{f, p, a}, "https://other.example"},
		{"a manifest that was changed", strings.Replace(good, "coordinate", "coordinato", 1), nil, [3]federation.ProofState{p, f, a}, "does not match"},
		{"the signature of another key", signed(self, strange), nil, [3]federation.ProofState{p, f, a}, "does not match"},
		{"no signature", strings.Replace(good, `"signature"`, `"signed"`, 1), nil, [3]federation.ProofState{p, f, a}, "not signed"},
		{"a key of another kind", strings.Replace(good, `"ed25519:`, `"rsa:`, 1), nil, [3]federation.ProofState{p, f, u}, "no Ed25519 key"},
		{"the form of the guide", with(guide, raw), nil, [3]federation.ProofState{p, p, a}, ""},
		{"the form of RFC 8785", with(rfc, raw), nil, [3]federation.ProofState{p, p, a}, ""},
		{"a key as SPKI", with(guide, "ed25519:"+spki), nil, [3]federation.ProofState{p, p, a}, ""},
		{"a key in base64 twice", with(guide, "ed25519:"+base64.StdEncoding.EncodeToString([]byte(spki))), nil, [3]federation.ProofState{p, p, a}, ""},
		{"a raw key in base64 twice", with(guide, "ed25519:"+base64.StdEncoding.EncodeToString([]byte(raw[8:]))), nil, [3]federation.ProofState{p, p, a}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDomain(t, "beta.example", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/.well-known/agents/hub-1.0.0.json" || test.manifest == "" {
					http.NotFound(w, r)
					return
				}
				io.WriteString(w, test.manifest)
			})
			if test.entries != nil {
				d.entries = test.entries
			}
			o := d.client()
			c := peer.NewClient(&o)
			defer c.Close()
			got := c.Identify(t.Context(), aid, "https://beta.example")
			if states := [3]federation.ProofState{got.Manifest.State, got.Signature.State, got.DNS.State}; states != test.want {
				t.Errorf("got %+v, want %v", got, test.want)
			}
			if reasons := got.Manifest.Reason + got.Signature.Reason + got.DNS.Reason; (reasons == "") != (test.reason == "") || !strings.Contains(reasons, test.reason) {
				t.Errorf("got %q, want %q", reasons, test.reason)
			}
			if got.Signature.State == p && got.Key != fingerprint {
				t.Errorf("got key %s, want %s", got.Key, fingerprint)
			}
		})
	}
	t.Run("no domain is asked about an address without TLS, and none for a plain name", func(t *testing.T) {
		d := newDomain(t, "beta.example", http.NotFound)
		o := d.client()
		c := peer.NewClient(&o)
		defer c.Close()
		for endpoint, id := range map[string]string{"http://beta.example": aid, "https://beta.example": "agent-beta"} {
			if got := c.Identify(t.Context(), coord.AID(id), endpoint); got.Manifest.State != f || d.asked > 0 {
				t.Errorf("%s at %s: got %+v after %d questions", id, endpoint, got, d.asked)
			}
		}
	})
}

func txt(entries ...string) func() ([]string, error) {
	return func() ([]string, error) { return entries, nil }
}

func TestTrust(t *testing.T) {
	for _, test := range []struct {
		name   string
		listed string
		keyed  bool // the manifest's agent takes the key of this hub
		want   federation.Trust
	}{
		{"a peer whose three proofs this hub checked is verified", "", true, federation.TrustVerified},
		{"one that an exchange verified as well", federation.ListedVerified, true, federation.TrustVerified},
		{"one that the exchange marks unverified is known", federation.ListedUnverified, true, federation.TrustKnown},
		{"one to which this hub sends no key is known", "", false, federation.TrustKnown},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newNode(t, "beta", nil)
			d := newDomain(t, "beta.example", func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/.well-known/agents/") {
					b.serve(w, r)
					return
				}
				m, err := peer.Self{AID: string(b.aid), URL: "https://beta.example"}.Manifest(b.vault.SigningKey(), hub.AtMilli(0), false)
				if err == nil {
					var s peer.SignedManifest
					s, err = m.Sign(b.vault.Sign)
					json.NewEncoder(w).Encode(s)
				}
				if err != nil {
					t.Error(err)
				}
			})
			a := newNodeWith(t, "alpha", nil, d.client())
			_, forA, err := b.peers.AddPeer(t.Context(), operator, peers.NewPeer{AID: a.aid, Endpoint: a.server.URL})
			if err != nil {
				t.Fatal(err)
			}
			n := peers.NewPeer{AID: b.aid, Endpoint: "https://beta.example", Listed: test.listed}
			if test.keyed {
				n.Key = forA
			}
			if _, _, err := a.peers.AddPeer(t.Context(), operator, n); err != nil {
				t.Fatal(err)
			}
			listed := func() federation.PeerStatus {
				got, err := coordination.ListPeers.Do(t.Context(), &coordination.Services{Peers: a.peers, Network: network{a.syncer}}, operator, coordination.None{})
				if err != nil || len(got.Peers) != 1 {
					t.Fatalf("got %+v, %v", got, err)
				}
				return got.Peers[0]
			}
			if got := listed(); got.Trust != federation.TrustKnown || got.Identity.Manifest.State != federation.ProofUnchecked {
				t.Errorf("before the check: got %+v", got)
			}
			a.start()
			if test.keyed {
				eventually(t, "the id is checked", []*node{a, b}, func() bool { return !listed().Identity.At.IsZero() })
			} else {
				eventually(t, "the call without a key fails", []*node{a, b}, func() bool { return listed().Fault != "" })
			}
			if got := listed(); got.Trust != test.want || got.Identity.Listed != test.listed {
				t.Errorf("got %+v", got)
			}
			if !test.keyed {
				return
			}

			// Another endpoint is another proof.
			if _, err := a.peers.RegisterPeer(t.Context(), operator, peers.NewPeer{AID: b.aid, Endpoint: "https://127.0.0.1:1"}); err != nil {
				t.Fatal(err)
			}
			if got := listed(); got.Trust != federation.TrustKnown || got.Identity.Manifest.State != federation.ProofUnchecked {
				t.Errorf("after a move: got %+v", got)
			}
		})
	}
}
