package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestOperators(t *testing.T) {
	h := newHouse(t)
	t.Run("a further operator approves under their own name", func(t *testing.T) {
		var got struct{ Name, Key string }
		h.ok(h.operator("hub", "operator", "add", "ana", "--json"), &got)
		file := filepath.Join(t.TempDir(), "ana.key")
		if err := os.WriteFile(file, []byte(got.Key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		id := h.sent(h.as("planner", "send", "builder", "deploy", "--human-gate", "required", "--json"))
		h.ok(h.as("", "approve", id, "--key-file", file), nil)
		contains(t, h.operator("hub", "journal", "--action", "message.approved").out, "operator ana")
		contains(t, h.operator("hub", "operator").out, "ana")
		h.ok(h.operator("hub", "verify"), nil)
		h.ok(h.operator("hub", "operator", "remove", "ana"), nil)
		refused(t, h.as("", "agent", "list", "--key-file", file, "--json"), 3, "unauthenticated")
	})
	for _, tt := range []struct {
		name, code string
		exit       int
		args       []string
	}{
		{"a name that is none", "schema_invalid", 2, []string{"hub", "operator", "add", "Ana!"}},
		{"an operator that does not exist", "not_found", 4, []string{"hub", "operator", "remove", "nobody"}},
		{"the owner's own key", "schema_invalid", 2, []string{"hub", "operator", "remove", "operator 1"}},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			refused(t, h.operator(append(tt.args, "--json")...), tt.exit, tt.code)
		})
	}
	t.Run("an agent is refused", func(t *testing.T) {
		refused(t, h.as("mallory", "hub", "operator", "add", "eve", "--json"), 3, "forbidden")
	})
}

// TestStaleAddress kills a hub, whose address stays, and has another program listen there. Its port
// may be taken by then: the address that stays becomes that of the program.
func TestStaleAddress(t *testing.T) {
	h := newHouse(t)
	h.hub.signal(t, syscall.SIGKILL)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(h.home, "url")
	if raw, err := os.ReadFile(left); err != nil || strings.TrimSpace(string(raw)) != h.url {
		t.Fatalf("the killed hub did not leave its address: %s, %v", raw, err)
	}
	if err := os.WriteFile(left, []byte("http://"+l.Addr().String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	fake := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		io.WriteString(w, "{}")
	})}
	go fake.Serve(l)
	defer fake.Close()
	for _, args := range [][]string{{"agent", "list", "--as-operator"}, {"stop", "--as-operator"}} {
		r := do(t, parley(t, []string{"PARLEY_HOME=" + h.home}, append(args, "--json")...))
		refused(t, r, 5, "degraded")
		contains(t, r.err, "no hub is running in")
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the program at the old address got %d calls, want 0", n)
	}
}

// TestOperatorOverTLS calls a hub as its operator from elsewhere.
func TestOperatorOverTLS(t *testing.T) {
	cert, key := selfSigned(t)
	h := &house{t: t, home: t.TempDir(), keys: map[string]string{}}
	os.Chmod(h.home, 0o700)
	h.start("--tls-cert", cert, "--tls-key", key)
	env := append(h.env(""), "SSL_CERT_FILE="+cert)
	contains(t, do(t, parley(t, env, "agent", "add", "builder", "--as-operator")).out, "cacp_sk_live_")
	t.Run("a copy of the operator's key works without the home", func(t *testing.T) {
		raw, err := os.ReadFile(filepath.Join(h.home, "operator.key"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		env := []string{"PARLEY_HOME=" + t.TempDir(), "PARLEY_URL=" + h.url, "SSL_CERT_FILE=" + cert}
		contains(t, do(t, parley(t, env, "agent", "list", "--key-file", file)).out, "builder")
	})
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, raw []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private)
}
