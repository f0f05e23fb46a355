package report_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/parley-agents/parley/protocol/report"
)

// agrees checks what holds for every text: what Reference accepts Tolerant
// accepts, and without a diagnostic both find the same.
func agrees(t *testing.T, text string, parse func(*report.Options) (report.Result, error)) (report.Result, error) {
	t.Helper()
	ref, refErr := parse(reference)
	tol, tolErr := parse(nil)
	if refErr == nil && tolErr != nil {
		t.Errorf("%q: reference accepts what tolerant does not", text)
	}
	if len(tol.Diagnostics) == 0 {
		same(t, text, found(t, tol, tolErr).seven(), found(t, ref, refErr).seven())
	}
	return tol, tolErr
}

// rewrites checks that what was read can be written, and then is read and
// written the same.
func rewrites(t *testing.T, r report.Report) {
	t.Helper()
	text, err := r.Text()
	if err != nil {
		t.Fatalf("%+v was read and cannot be written: %v", r, err)
	}
	back, err := report.Parse(text, nil)
	if err != nil {
		t.Fatalf("%q was written and cannot be read: %v", text, err)
	}
	if again, err := back.Text(); again != text || err != nil {
		t.Errorf("got %q, %v, want %q", again, err, text)
	}
}

func FuzzParse(f *testing.F) {
	v := load(f)
	for _, c := range slices.Concat(v.Texts, v.Any) {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := agrees(t, text, func(o *report.Options) (report.Result, error) { return report.Parse(text, o) })
		if err == nil {
			rewrites(t, r.Report)
			for _, b := range r.Blocks {
				if !strings.Contains(text, b.Text) || b.Status == "" {
					t.Errorf("block %+v", b)
				}
			}
			for _, found := range r.Fields {
				if found.Line < 1 || found.Col < 1 || found.Name == "" {
					t.Errorf("field %+v", found)
				}
			}
		}
		if r, err := report.ParseAny(text, nil); err == nil {
			rewrites(t, r.Report)
		}
		for line := range strings.Lines(text) {
			report.ParseLine(line)
		}
		if _, err := report.Lint(text, nil); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, c := range load(f).JSON {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := agrees(t, text, func(o *report.Options) (report.Result, error) { return report.ParseJSON([]byte(text), o) })
		if err != nil {
			return
		}
		rewrites(t, r.Report)
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := report.ParseJSON(raw, nil)
		if err != nil {
			t.Fatalf("%s was written and cannot be read: %v", raw, err)
		}
		same(t, string(raw), found(t, back, nil), found(t, r, nil))
	})
}

// FuzzText writes a report with the given values and reads it back.
func FuzzText(f *testing.F) {
	f.Add(uint8(0), "a.go\x00b.go", "go.mod", "pass", uint16(12), "", "x", "NOTE", "y")
	f.Add(uint8(3), "a,b\x00\"c\"\x00none\x00`d`\x00**e**\x00[\"f\"]\x00(g\x00h)", "none", "fail", uint16(0), "a:b **c**", "- d", "A1", "")
	f.Add(uint8(8), "[]", "-\x00\"", "", uint16(0), "\"", "`x`", "X", "| y |")
	f.Fuzz(func(t *testing.T, status uint8, created, modified, tests string, count uint16, failure, learned, extraName, extra string) {
		r := report.Report{
			Status:       report.Statuses()[int(status)%len(report.Statuses())],
			FilesCreated: items(created), FilesModified: items(modified),
			Error: plain(failure), Learned: plain(learned),
		}
		if s := report.State(tests); s == report.Pass || s == report.Fail || s == report.Skip {
			r.Build, r.Tests = s, report.Tests(tests)
			if count > 0 {
				b, _ := json.Marshal(count)
				r.Tests += report.Tests(":" + string(b))
			}
		}
		if _, err := (report.Report{Status: "ok", Extra: []report.Field{{Name: extraName}}}).Text(); err == nil {
			r.Extra = []report.Field{{Name: extraName, Value: plain(extra)}}
		}
		text, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		got, err := report.Parse(text, nil)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		same(t, text, normal(got.Report), normal(r))
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err = report.ParseJSON(raw, nil); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		same(t, string(raw), normal(got.Report), normal(r))

		// The protocol's own parser knows no way to write such items.
		if strings.ContainsAny(created+modified, ",\"`*()[") {
			return
		}
		got, err = report.Parse(text, reference)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		r.Extra = nil
		same(t, text, normal(got.Report), normal(r))
	})
}

// normal returns a report in which no list is nil.
func normal(r report.Report) report.Report {
	r.FilesCreated, r.FilesModified = append([]string{}, r.FilesCreated...), append([]string{}, r.FilesModified...)
	r.Extra = append([]report.Field{}, r.Extra...)
	return r
}

// plain returns s as a value that fits on a line.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("\n\r\u2028\u2029", r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f })
}

// items returns what is between the zero bytes of s.
func items(s string) (out []string) {
	for item := range strings.SplitSeq(s, "\x00") {
		if item = plain(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func FuzzParseDispatch(f *testing.F) {
	for _, c := range load(f).Dispatches {
		f.Add(c.Text)
	}
	f.Add(`{"task":"x","acceptance":["a"],"scope":"b,c","verify":null,"extra":[{"name":"A1","value":"x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := report.ParseAnyDispatch(text, nil)
		if err != nil {
			return
		}
		r.Extra = slices.DeleteFunc(r.Extra, func(f report.Field) bool {
			_, err := (report.Dispatch{Task: "x", Extra: []report.Field{f}}).Text()
			return err != nil // JSON may hold any name
		})
		written, err := r.Text()
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", r, err)
		}
		back, err := report.ParseDispatch(written, nil)
		if err != nil {
			t.Fatalf("%q was written and cannot be read: %v", written, err)
		}
		if again, err := back.Text(); again != written || err != nil {
			t.Errorf("got %q, %v, want %q", again, err, written)
		}
	})
}
