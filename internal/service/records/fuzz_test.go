package records

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"format":"parley-segment","version":1}`, `{"format":"parley-segment","version":2}`, `{"format":"parley-archive","version":1}`,
		`{"format":"parley-segment","version":1,"after":3,"hash":"x","schema":4}`,
		`{"entry":{"seq":1,"at":"2026-02-21T09:00:00.000Z","actor":"a","action":"b","outcome":"ok","hash":"c"}}`,
		`{"entry":{"seq":1,"at":"2026-02-21T09:00:00.000Z","actor":"ada","action":"message.sent","outcome":"ok","facts":{"to":["bob"]},"hash":"y"},"envelope":{"id":"<&>"}}`,
		`{"entry":{"seq":2,"at":"2026-02-21T09:00:00.000Z","actor":"a","action":"handoff.proposed","outcome":"ok","hash":"y"},"handoff":{"from":"a","to":"b","task_id":"t","title":"","reason":"","package_hash":"h","restricted":true}}`,
		`{"message":{"id":"x","envelope":{},"parties":[{"agent":"a","state":"read"}],"deliveries":null}}`, `{"table":"agents","row":{"id":"a"}}`,
		`{"seal":{"first":1,"last":2,"hash":"h","entries":2,"messages":0,"rows":0,"sha256":"s"}}`, `{"end":{"first":1,"last":2,"cutoff":"2026-02-21T09:00:00.000Z","entries":2,"messages":0}}`,
		`{"entry":null}`, `{"entry":{},"seal":{}}`, `{"entry":{"seq":-1}}`, `{"entry":{"seq":1e3}}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, first bool) {
		l, err := decodeLine(raw, first)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := l.encode(&again); err != nil {
			t.Fatalf("%q cannot be written again: %v", raw, err)
		}
		if _, err := decodeLine(bytes.TrimSuffix(again.Bytes(), []byte("\n")), first); err != nil {
			t.Errorf("%q was written as %q, which is refused: %v", raw, again.String(), err)
		}
	})
}

// FuzzSegment reads any file as a segment: no panic, and a segment that is read
// to its end has the seal that its lines add up to.
func FuzzSegment(f *testing.F) {
	for _, rows := range []int{0, 3} {
		var file bytes.Buffer
		w := newSegmentWriter(&file)
		if err := w.put(line{Format: segmentFormat, Version: segmentVersion, Schema: 1}); err != nil {
			f.Fatal(err)
		}
		for range rows {
			if err := w.put(line{Table: "agents", Row: []byte(`{"id":"a"}`)}); err != nil {
				f.Fatal(err)
			}
		}
		if _, err := w.close(); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
		f.Add(file.Bytes()[:file.Len()-1])
		f.Add(append(file.Bytes(), '\n'))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		s, err := readSegment(path, func(line) error { n++; return nil })
		if err != nil {
			return
		}
		if got := s.seal; n != got.Entries+got.Messages+got.Rows {
			t.Errorf("%d lines were read, the seal has %+v", n, got)
		}
		if want, sum := sha256.Sum256(raw), s.fileSum(); sum != hex.EncodeToString(want[:]) {
			t.Errorf("the file has SHA-256 %x, got %s", want, sum)
		}
	})
}
