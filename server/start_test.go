package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// certificate makes a certificate for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "parley test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, pool
}

// wantRefused fails unless a hub with these options does not start.
func wantRefused(t *testing.T, o server.Options, code hub.Code, text string) {
	t.Helper()
	s, err := server.New(t.Context(), o)
	if err == nil {
		s.Close()
		t.Fatalf("start: got a hub, want %s", code)
	}
	wantCode(t, err, code)
	var e *hub.Error
	if errors.As(err, &e) && e.Hint == "" && code != hub.CodeInvalid {
		t.Errorf("%v: there is no hint", err)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error: got %q, want it to say %q", err, text)
	}
}

func TestStart(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	cert, key, pool := certificate(t)

	for _, tt := range []struct {
		name string
		o    server.Options
		code hub.Code
		text string
	}{
		{"without a home", server.Options{}, hub.CodeInvalid, "home"},
		{"on an address that is none", server.Options{Addr: "localhost"}, hub.CodeInvalid, "not an address"},
		{"beyond loopback without TLS", server.Options{Addr: "0.0.0.0:0"}, hub.CodePolicy, "TLS"},
		{"on every address without TLS", server.Options{Addr: ":0"}, hub.CodePolicy, "TLS"},
		{"on a name that is not loopback without TLS", server.Options{Addr: "hub.example:0"}, hub.CodePolicy, "TLS"},
		{"that takes webhooks on an address that is none", server.Options{InAddr: "7421"}, hub.CodeInvalid, "not an address"},
		{"that takes webhooks beyond loopback without TLS", server.Options{InAddr: "0.0.0.0:0"}, hub.CodePolicy, "TLS"},
		{"with a certificate and no key", server.Options{TLSCert: cert}, hub.CodeInvalid, "must be given together"},
		{"with a key and no certificate", server.Options{TLSKey: key}, hub.CodeInvalid, "must be given together"},
		{"with a certificate that is none", server.Options{TLSCert: key, TLSKey: key}, hub.CodeInvalid, "certificate"},
		{"beyond loopback with unsafe limits", server.Options{Addr: "0.0.0.0:0", TLSCert: cert, TLSKey: key, Limits: server.Limits{Unsafe: true}}, hub.CodePolicy, "loopback"},
		{"with a limit that is looser than the protocol", server.Options{Limits: server.Limits{DirectPerMinute: 11}}, hub.CodeInvalid, "direct_per_minute"},
	} {
		t.Run("a hub "+tt.name+" is refused", func(t *testing.T) {
			if tt.o.Home == "" && tt.name != "without a home" {
				tt.o.Home = t.TempDir()
			}
			if tt.o.Addr == "" {
				tt.o.Addr = "127.0.0.1:0"
			}
			wantRefused(t, tt.o, tt.code, tt.text)
		})
	}
	t.Run("TLS is spoken with the given certificate, and nothing else", func(t *testing.T) {
		o := quiet()
		o.Addr, o.TLSCert, o.TLSKey = "0.0.0.0:0", cert, key
		r := start(t, o)
		if !strings.HasPrefix(r.url, "https://127.0.0.1:") {
			t.Fatalf("url: got %s, want https", r.url)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		defer transport.CloseIdleConnections()
		c := rpc.NewClient(r.url, r.operator, "", &http.Client{Transport: transport})
		must(rpc.Call(t.Context(), c, api.Whoami, api.None{}))(t)
		if _, err := rpc.Call(t.Context(), rpc.NewClient(strings.Replace(r.url, "https", "http", 1), r.operator, "", r.http), api.Whoami, api.None{}); err == nil {
			t.Error("plain HTTP was answered")
		}
		if _, err := rpc.Call(t.Context(), r.as(r.operator), api.Whoami, api.None{}); err == nil {
			t.Error("a client that does not know the certificate was satisfied")
		}
		t.Run("beyond loopback the metrics are for those with a key", func(t *testing.T) {
			r.http.Transport = transport
			if a := r.do(t, "GET", "/metrics", "", nil); a.status != http.StatusUnauthorized {
				t.Errorf("status without a key: got %d, want 401", a.status)
			}
			if a := r.do(t, "GET", "/metrics", r.operator, nil); a.status != http.StatusOK {
				t.Errorf("status with a key: got %d, want 200", a.status)
			}
		})
	})
	t.Run("beyond loopback without TLS is possible for who says why", func(t *testing.T) {
		o := quiet()
		o.Addr, o.NoTLSBecause = "0.0.0.0:0", "a proxy in front of it speaks TLS"
		r := start(t, o)
		must(rpc.Call(t.Context(), r.as(r.operator), api.Whoami, api.None{}))(t)
	})
	t.Run("a second hub on one home is refused and names the process", func(t *testing.T) {
		r := start(t, quiet())
		wantRefused(t, server.Options{Home: r.home, Addr: "127.0.0.1:0"}, hub.CodeConflict, "process "+strconv.Itoa(os.Getpid()))
		must(rpc.Call(t.Context(), r.as(r.operator), api.Whoami, api.None{}))(t) // the first one works on
	})
	t.Run("a home whose database is gone is refused and left alone", func(t *testing.T) {
		r := start(t, quiet())
		r.stop()
		if err := os.Remove(filepath.Join(r.home, "hub.db")); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, server.Options{Home: r.home, Addr: "127.0.0.1:0"}, hub.CodeDegraded, "hub.db is missing")
		if _, err := os.Stat(filepath.Join(r.home, "hub.db")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("hub.db: got %v, want that it is not made anew", err)
		}
	})
	for _, tt := range []struct {
		name  string
		spoil func([]byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"something else", func([]byte) []byte { return []byte(strings.Repeat("no database ", 1000)) }},
		{"cut off", func(b []byte) []byte { return b[:len(b)/2] }},
		{"scribbled over", func(b []byte) []byte { copy(b[100:], strings.Repeat("\xff", 4000)); return b }},
	} {
		t.Run("R3-115 a database that is "+tt.name+" is refused with what to do and left as it is", func(t *testing.T) {
			r := start(t, quiet())
			r.add(t, "alice")
			r.stop()
			path := filepath.Join(r.home, "hub.db")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			spoilt := tt.spoil(raw)
			if err := os.WriteFile(path, spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, server.Options{Home: r.home, Addr: "127.0.0.1:0"}, hub.CodeDegraded, "damaged")
			after, err := os.ReadFile(path)
			if err != nil || string(after) != string(spoilt) {
				t.Errorf("hub.db: it was changed (%v)", err)
			}
		})
	}
	t.Run("a port that is in use is refused, nothing is recorded and the home is free", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		first := start(t, quiet())
		first.stop()
		wantRefused(t, server.Options{Home: first.home, Addr: l.Addr().String()}, hub.CodeConflict, "cannot listen")
		o := quiet()
		o.Home = first.home
		r := start(t, o)
		starts := 0
		for _, e := range r.journal(t, 0) {
			if strings.Contains(e, "|hub.started|") {
				starts++
			}
		}
		if starts != 2 {
			t.Errorf("hub.started: got %d entries, want 2, for the hubs that did start", starts)
		}
	})
	t.Run("the home and what is in it is for its owner alone", func(t *testing.T) {
		home := filepath.Join(t.TempDir(), "home")
		o := quiet()
		o.Home = home
		r := start(t, o)
		r.add(t, "alice")
		for _, name := range []string{"", "hub.db", "hub.lock", "url", server.OperatorKeyFile} {
			info, err := os.Stat(filepath.Join(home, name))
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%q: got %v (%v), want nothing for others", name, info, err)
			}
		}
	})
	t.Run("R3-084 R3-127 every optional capability is off unless it is asked for", func(t *testing.T) {
		r := start(t, quiet())
		caps := must(rpc.Call(t.Context(), r.as(r.operator), api.Whoami, api.None{}))(t).Capabilities
		for _, name := range []string{"session", "channel", "wake", "workq"} {
			if c, ok := caps[name]; !ok || c.Enabled || c.State != hub.Unverified {
				t.Errorf("%s: got %+v (%v), want it unverified and off", name, c, ok)
			}
		}
		if c := caps["inbox"]; !c.Enabled || c.State != hub.Verified {
			t.Errorf("inbox: got %+v, want it verified and on", c)
		}
	})
	t.Run("R3-046 a type whose feature is off is refused, and one that only the hub writes", func(t *testing.T) {
		o := quiet()
		o.Without = []hub.Feature{hub.FeatureNegotiation, hub.FeatureDisagreement}
		r := start(t, o)
		keys := r.add(t, "alice", "bob")
		for _, typ := range []string{"task.offer", "position.state", "team.join"} {
			r.call(t, keys[0], "acp/send", `{"to":["bob"],"type":"`+typ+`","payload":{}}`).wantError(t, -32602, hub.CodeReservedType)
		}
		if _, err := server.New(t.Context(), server.Options{Home: t.TempDir(), Addr: "127.0.0.1:0", Without: []hub.Feature{"sleep"}}); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("an unknown feature: got %v", err)
		}
	})
}

func TestAllFlagsOff(t *testing.T) {
	o := server.Options{} // as it comes, inbox files included
	r := start(t, o)
	keys := r.add(t, "alice", "bob")
	t.Run("R3-095 R3-116 with everything optional off a critical message reaches the inbox, and the ledger says what was not tried", func(t *testing.T) {
		receipt := must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "the build is red", Priority: hub.PriorityCritical}))(t)
		reached := map[hub.Channel]hub.DeliveryStatus{}
		for _, l := range receipt.Deliveries {
			reached[l.Channel] = l.Status
			if l.Status == hub.DeliverySkipped && l.Error == "" {
				t.Errorf("%s was skipped without a reason", l.Channel)
			}
		}
		want := map[hub.Channel]hub.DeliveryStatus{hub.ChannelInbox: hub.DeliveryStored, hub.ChannelSession: hub.DeliverySkipped,
			hub.ChannelNotify: hub.DeliverySkipped, hub.ChannelWake: hub.DeliverySkipped}
		for c, s := range want {
			if reached[c] != s {
				t.Errorf("%s: got %q, want %q", c, reached[c], s)
			}
		}
		if got := r.rows(t, `SELECT channel FROM delivery_log WHERE status = 'skipped' AND error <> ''`); len(got) != 3 {
			t.Errorf("ledger: got %q, want three rows that say why", got)
		}
		inbox := must(rpc.Call(t.Context(), r.as(keys[1]), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}}))(t)
		if len(inbox.Messages) != 1 || inbox.Messages[0].ID != receipt.ID {
			t.Fatalf("inbox: got %+v, want the message", inbox.Messages)
		}
		answer := must(rpc.Call(t.Context(), r.as(keys[1]), api.Respond, api.SendParams{ReplyTo: receipt.ID, Text: "on it"}))(t)
		if back := must(rpc.Call(t.Context(), r.as(keys[0]), api.Inbox, api.InboxParams{}))(t); len(back.Messages) != 1 || back.Messages[0].ID != answer.ID {
			t.Errorf("alice's inbox: got %+v, want the answer", back.Messages)
		}
	})
	t.Run("R3-119 an urgent message is in the journal before its sender hears of it", func(t *testing.T) {
		id := must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "now", Priority: hub.PriorityHigh}))(t).ID
		if got := r.rows(t, `SELECT actor, action, outcome FROM journal WHERE subject = '`+string(id)+`'`); len(got) == 0 || got[0] != "alice|message.sent|ok" {
			t.Errorf("journal: got %q, want alice|message.sent|ok", got)
		}
	})
	t.Run("R3-120 every entry has actor, action, time and outcome, and none can be changed", func(t *testing.T) {
		for _, e := range r.rows(t, `SELECT seq FROM journal WHERE actor IS NULL OR action = '' OR at = '' OR outcome = ''`) {
			t.Errorf("entry %s is incomplete", e)
		}
		r.stop()
		db := openDB(t, r.home, 2 /* read and write */)
		defer db.Close()
		for _, q := range []string{`UPDATE journal SET actor = 'x'`, `DELETE FROM journal`} {
			if err := db.Exec(q); err == nil || !strings.Contains(err.Error(), "journal") {
				t.Errorf("%s: got %v, want that the journal refuses it", q, err)
			}
		}
	})
}

func TestStop(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	t.Run("R3-114 who waits at an inbox is answered when the hub stops, and the home is free at once", func(t *testing.T) {
		r := start(t, server.Options{})
		keys := r.add(t, "alice", "bob")
		urlFile := filepath.Join(r.home, server.URLFile)
		if raw, err := os.ReadFile(urlFile); err != nil || strings.TrimSpace(string(raw)) != r.url {
			t.Errorf("url file: got %q (%v), want %s", raw, err, r.url)
		}
		// A message that was fetched before tells whether somebody waits now,
		// without waking him: sent again with its key it forecasts anew.
		again := api.SendParams{To: api.Recipients{"bob"}, Text: "hello", IdempotencyKey: "k"}
		must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, again))(t)
		must(rpc.Call(t.Context(), r.as(keys[1]), api.Inbox, api.InboxParams{}))(t)
		waited := make(chan error, 1)
		go func() {
			in, err := rpc.Call(context.Background(), r.as(keys[1]), api.Inbox, api.InboxParams{WaitS: 300, NewOnly: true})
			if err == nil && (len(in.Messages) != 0 || in.Capabilities == nil) {
				err = errors.New("the answer is not an empty inbox")
			}
			waited <- err
		}()
		for must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, again))(t).Deliveries[0].Reach != hub.ReachNow {
		}
		r.stop()
		if err := <-waited; err != nil {
			t.Errorf("the waiting call: got %v, want an empty inbox", err)
		}
		if _, err := os.Stat(urlFile); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("url file: got %v, want that it is gone", err)
		}
		o := quiet()
		o.Home = r.home
		start(t, o)
	})
	t.Run("a server that never served is closed without a trace", func(t *testing.T) {
		home := t.TempDir()
		s, err := server.New(t.Context(), server.Options{Home: home, Addr: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		o := quiet()
		o.Home = home
		start(t, o)
	})
}

func TestRestart(t *testing.T) {
	first := start(t, server.Options{})
	keys := first.add(t, "alice", "bob")
	open := must(rpc.Call(t.Context(), first.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "about the avatar", Topic: "design", IdempotencyKey: "once"}))(t)
	read := first.send(t, keys[0], "bob", "to be read")
	must(rpc.Call(t.Context(), first.as(keys[1]), api.Inbox, api.InboxParams{Ack: api.AckSet{IDs: []hub.EnvelopeID{read}}}))(t)
	held := must(rpc.Call(t.Context(), first.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "held", Policy: []byte(`{"human_gate":"required"}`)}))(t)
	must(rpc.Call(t.Context(), first.as(first.operator), api.PauseAgent, api.AgentParams{ID: "bob"}))(t)
	before, entries := first.tables(t), first.journal(t, 0)
	first.stop()

	o := server.Options{Home: first.home}
	r := start(t, o)
	t.Run("R3-004 everything is there after a restart", func(t *testing.T) {
		r.wantSame(t, before)
		after := r.journal(t, 0)
		for i, e := range entries {
			if after[i] != e {
				t.Errorf("journal entry %d: got %q, want %q", i+1, after[i], e)
			}
		}
	})
	t.Run("R3-004 keys, the operator's included, are good after a restart", func(t *testing.T) {
		if r.secret != first.secret {
			t.Error("the operator has another key")
		}
		must(rpc.Call(t.Context(), r.as(keys[0]), api.Whoami, api.None{}))(t)
	})
	t.Run("R3-004 what was under way goes on", func(t *testing.T) {
		again := must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "about the avatar", Topic: "design", IdempotencyKey: "once"}))(t)
		if !again.Duplicate || again.ID != open.ID {
			t.Errorf("send with the same key: got %s (duplicate %v), want %s", again.ID, again.Duplicate, open.ID)
		}
		_, err := rpc.Call(t.Context(), r.as(keys[1]), api.Send, api.SendParams{To: api.Recipients{"alice"}, Text: "x"})
		wantCode(t, err, hub.CodeDenied) // still paused
		must(rpc.Call(t.Context(), r.as(r.operator), api.Approve, api.IDParams{ID: held.ID}))(t)
		in := must(rpc.Call(t.Context(), r.as(keys[1]), api.Inbox, api.InboxParams{}))(t)
		if len(in.Messages) != 2 || in.Messages[0].ID != open.ID || in.Messages[1].ID != held.ID {
			t.Errorf("inbox: got %d messages, want the open one and the approved one", len(in.Messages))
		}
		if found := must(rpc.Call(t.Context(), r.as(keys[0]), api.Query, api.QueryParams{Text: "avatar"}))(t); len(found.Messages) != 1 {
			t.Errorf("search: got %d messages, want 1", len(found.Messages))
		}
	})
	t.Run("a lost operator's key is replaced and the old one is refused", func(t *testing.T) {
		r.stop()
		if err := os.Remove(filepath.Join(r.home, server.OperatorKeyFile)); err != nil {
			t.Fatal(err)
		}
		next := start(t, o)
		if next.secret == first.secret {
			t.Fatal("the operator has the old key")
		}
		must(rpc.Call(t.Context(), rpc.NewOperator("", next.url, next.secret, ""), api.ListAgents, api.None{}))(t)
		_, err := rpc.Call(t.Context(), rpc.NewOperator("", next.url, first.secret, ""), api.ListAgents, api.None{})
		wantCode(t, err, hub.CodeUnauthenticated)
	})
}
