package proof_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// foreign checks the checkpoint and the rows of a file as a stranger would, with the libraries of
// Go's checksum database alone and the page about the format.
func foreign(raw []byte, vkey string) error {
	var file struct {
		Checkpoint string
		Rows       []struct {
			Seq                                                    int64
			At, Actor, Action, Subject, Outcome, Facts, Prev, Hash string
			Proof                                                  []string
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return err
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return err
	}
	n, err := note.Open([]byte(file.Checkpoint), note.VerifierList(verifier))
	if err != nil {
		return err
	}
	lines := strings.Split(n.Text, "\n")
	var size int64
	fmt.Sscan(lines[1], &size)
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return err
	}
	for _, r := range file.Rows {
		b := binary.BigEndian.AppendUint64(nil, uint64(r.Seq))
		for _, s := range []string{r.Prev, r.At, r.Actor, r.Action, r.Subject, r.Outcome, r.Facts} {
			b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
		}
		sum := sha256.Sum256(b)
		if hex.EncodeToString(sum[:]) != r.Hash {
			return fmt.Errorf("row %d has another hash", r.Seq)
		}
		var proof tlog.RecordProof
		for _, text := range r.Proof {
			h, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			proof = append(proof, tlog.Hash(h))
		}
		if err := tlog.CheckRecord(proof, size, root, r.Seq-1, tlog.RecordHash(sum[:])); err != nil {
			return fmt.Errorf("row %d: %w", r.Seq, err)
		}
	}
	return nil
}

func TestForeignVerifier(t *testing.T) {
	w := newWorld(t)
	w.noise(1000)
	w.grow()
	file := w.prove("l1")
	raw := bytesOf(t, file)
	if err := foreign(raw, file.Key); err != nil {
		t.Error(err)
	}
	for path, changed := range changes(t, raw) {
		isRow := strings.HasPrefix(path, "/rows/")
		if isRow && foreign(changed, file.Key) == nil {
			t.Errorf("another %s passes", path)
		}
	}
}

// TestPython holds that securesystemslib for Python reads the envelopes of a file.
func TestPython(t *testing.T) {
	w := newWorld(t)
	file := w.prove("l1")
	python, err := filepath.Abs(filepath.Join("..", "..", "..", ".cache", "verifiers", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v: scripts/verifiers fetches it", err)
		}
		t.Logf("not run: %v: scripts/verifiers fetches it", err)
		return
	}
	known := w.trusted()[0]
	cmd := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "python", "verify.py"), known.ID(), hex.EncodeToString(known.Public()))
	cmd.Stdin = bytes.NewReader(bytesOf(t, file))
	out, err := cmd.CombinedOutput()
	if lines := strings.Count(string(out), "\n"); err != nil || lines != len(file.Statements)+1 {
		t.Errorf("%v\n%s", err, out)
	}
}
