package vault_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/vault"
)

func TestVault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets.key")
	v, err := vault.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("R1-068 the key file is for its owner alone", func(t *testing.T) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info.Mode(), err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := vault.Open(path); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("readable by others: got %v", err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("R1-068 what was sealed is read by the same key and place alone", func(t *testing.T) {
		sealed := v.Seal("secret", "here")
		again, err := vault.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Open(sealed, "here"); err != nil || got != "secret" {
			t.Errorf("got %q, %v", got, err)
		}
		other, err := vault.Open(filepath.Join(t.TempDir(), "k"))
		if err != nil {
			t.Fatal(err)
		}
		for name, open := range map[string]func() (string, error){
			"elsewhere":    func() (string, error) { return v.Open(sealed, "there") },
			"another key":  func() (string, error) { return other.Open(sealed, "here") },
			"changed":      func() (string, error) { return v.Open(sealed[:len(sealed)-2]+"AA", "here") },
			"not sealed":   func() (string, error) { return v.Open("secret", "here") },
			"another form": func() (string, error) { return v.Open("v9."+sealed[3:], "here") },
		} {
			if got, err := open(); hub.CodeOf(err) != hub.CodeDegraded || got != "" {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
		if v.Seal("secret", "here") == sealed {
			t.Error("sealing twice gives the same")
		}
		if len(v.SigningKey()) != ed25519.PublicKeySize || !v.SigningKey().Equal(again.SigningKey()) || v.SigningKey().Equal(other.SigningKey()) {
			t.Error("the signing key does not follow from the file")
		}
	})
	t.Run("R1-089 a damaged key file is not replaced", func(t *testing.T) {
		bad := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(bad, []byte("oops"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := vault.Open(bad); hub.CodeOf(err) != hub.CodeDegraded {
			t.Errorf("got %v", err)
		}
	})
}
