package records

import (
	"bytes"
	"testing"
)

func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"seq":1,"at":"2026-02-21T09:00:00.000Z","actor":"ada","action":"message.read","subject":"x","outcome":"ok","hash":"y"}`,
		`{"seq":1,"at":"2026-02-21T09:00:00.000Z","actor":"ada","action":"message.sent","outcome":"ok","facts":{"to":["bob"]},"hash":"y","message":{"id":"<&>"}}`,
		`{"seq":2,"at":"2026-02-21T09:00:00.000Z","actor":"a","action":"handoff.proposed","outcome":"ok","hash":"y","handoff":{"from":"a","to":"b","task_id":"t","title":"","reason":"","package_hash":"h","restricted":true}}`,
		`{"seq":-1}`, `{"seq":1e3}`, `[]`, ``, `{"seq":1,"seq":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := decodeLine(raw)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := encodeLine(&again, l); err != nil || again.String() != string(raw)+"\n" {
			t.Errorf("%q was read and written as %q (%v)", raw, again.String(), err)
		}
	})
}

func FuzzArchiveLine(f *testing.F) {
	for _, seed := range []string{
		`{"format":"parley-archive","version":1}`, `{"format":"parley-archive","version":2}`, `{"entry":{"seq":1,"at":"2026-02-21T09:00:00.000Z","actor":"a","action":"b","outcome":"ok","hash":"c"}}`,
		`{"message":{"id":"x","envelope":{},"parties":[{"agent":"a","state":"read"}],"deliveries":null}}`, `{"end":{"first":1,"last":2,"cutoff":"2026-02-21T09:00:00.000Z","entries":2,"messages":0}}`,
		`{"entry":null}`, `{"entry":{},"end":{}}`, `null`, ``,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, first bool) {
		l, err := decodeArchiveLine(raw, first)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := encodeLine(&again, l); err != nil {
			t.Fatalf("%q cannot be written again: %v", raw, err)
		}
		if _, err := decodeArchiveLine(bytes.TrimSuffix(again.Bytes(), []byte("\n")), first); err != nil {
			t.Errorf("%q was written as %q, which is refused: %v", raw, again.String(), err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		`{"format":"parley-export","version":1,"schema":3,"head":{"seq":1,"hash":"x","at":"2026-02-21T09:00:00.000Z"},"tables":[{"name":"agents","rows":1,"bytes":2,"sha256":"x"}],"archives":[]}`,
		`{"format":"parley-export","version":1,"tables":[{"name":"../x"}]}`, `{"format":"parley-export","version":9}`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decodeManifest(raw)
		if err != nil {
			return
		}
		for _, file := range append(m.Tables, m.Archives...) {
			if bytes.ContainsAny([]byte(file.Name), `/\`) || file.Name == "" || file.Name[0] == '.' {
				t.Errorf("%q is taken as a name", file.Name)
			}
		}
	})
}
