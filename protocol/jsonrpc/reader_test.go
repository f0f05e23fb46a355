package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// drain reads everything and returns a line for each frame or problem: the raw
// bytes with the flaws, or the raw bytes with the code of the problem.
func drain(t testing.TB, r *jsonrpc.Reader) (lines []string) {
	t.Helper()
	for {
		f, err := r.Next()
		var p *jsonrpc.Problem
		switch {
		case errors.As(err, &p):
			lines = append(lines, fmt.Sprintf("%s: %s", p.Code, f.Raw))
			continue
		case err == io.EOF:
			return lines
		case err != nil:
			t.Fatal(err)
		}
		if !json.Valid(f.Raw) || f.Raw[0] != '{' && f.Raw[0] != '[' {
			t.Fatalf("the frame %q is no object or array", f.Raw)
		}
		line := string(f.Raw)
		for _, flaw := range f.Flaws {
			line += " " + string(flaw)
		}
		lines = append(lines, line)
	}
}

func TestReader(t *testing.T) {
	const limit = 64
	full := `{"a":"` + strings.Repeat("x", limit-8) + `"}`
	for _, c := range []struct {
		name, input string
		want        []string
	}{
		{"one message on a line", "{\"a\":1}\n", []string{`{"a":1}`}},
		{"two frames in one write", "{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}},
		{"an array", "[{\"a\":1}]\n", []string{`[{"a":1}]`}},
		{"numbers and blanks inside stay as they are", "{ \"a\" : 1.00 }\n", []string{`{ "a" : 1.00 }`}},
		{"CR LF ends a line", "{\"a\":1}\r\n{}\r\n", []string{`{"a":1} crlf`, `{} crlf`}},
		{"blank lines are skipped", "\n \r\n{}\n\n{}\n", []string{`{} blank_lines`, `{} blank_lines`}},
		{"blank lines alone are nothing", "\n\n \n", nil},
		{"a byte order mark is skipped", "\ufeff{}\n{}\n", []string{`{} byte_order_mark`, `{}`}},
		{"a byte order mark alone is a blank line", "\ufeff\n{}\n", []string{`{} blank_lines`}},
		{"the last line needs no end", `{"a":1}`, []string{`{"a":1} no_line_end`}},
		{"a pretty-printed frame", "{\n  \"a\": [\n    1\n  ]\n}\n{}\n", []string{"{\n  \"a\": [\n    1\n  ]\n} several_lines", `{}`}},
		{"a pretty-printed frame without line end", "{\r\n\"a\":1\r\n}", []string{"{\r\n\"a\":1\r\n} several_lines no_line_end"}},
		{"blank lines inside a frame", "{\n\n\"a\":1\n\n}\n", []string{"{\n\n\"a\":1\n\n} several_lines"}},
		{"two values on a line", "{\"a\":1}{\"b\":2} {}\n", []string{`{"a":1}`, `{"b":2} same_line`, `{} same_line`}},
		{"prose after a value", "{\"a\":1} done.\n{}\n", []string{`{"a":1}`, `not_json:  done.`, `{}`}},

		{"prose", "Starting up...\n{}\n", []string{"not_json: Starting up...", `{}`}},
		{"prose in brackets", "[INFO] ready\n{}\n", []string{"not_json: [INFO] ready", `{}`}},
		{"a bracket that starts nothing", "[\nfoo\n{}\n", []string{"truncated: [", "not_json: foo", `{}`}},
		{"prose without line end", "bye", []string{"not_json: bye"}},
		{"a scalar", "42\n\"x\"\nnull\n", []string{"not_a_message: 42", `not_a_message: "x"`, "not_a_message: null"}},
		{"broken JSON", "{\"a\":1,}\n{}\n", []string{`not_json: {"a":1,}`, `{}`}},
		{"zero bytes", "\x00\x00\n{}\n", []string{"not_json: \x00\x00", `{}`}},
		{"invalid UTF-8", "{\"a\":\"\xff\"}\n{}\n", []string{"invalid_utf8: {\"a\":\"\xff\"}", `{}`}},
		{"invalid UTF-8 over lines", "{\n\"a\":\"\xff\"}\n{}\n", []string{"invalid_utf8: {\n\"a\":\"\xff\"}", `{}`}},
		{"a lone surrogate", `{"a":"\ud800"}` + "\n{}\n", []string{`lone_surrogate: {"a":"\ud800"}`, `{}`}},
		{"a name twice", `{"a":1,"a":2}` + "\n{}\n", []string{`duplicate_name: {"a":1,"a":2}`, `{}`}},
		{"a name twice deep inside, once escaped", `{"a":[{"b":1,"\u0062":2}]} {}` + "\n", []string{`duplicate_name: {"a":[{"b":1,"\u0062":2}]}`, `{} same_line`}},

		{"truncated in a string", "{\"a\":\"b\n{}\n", []string{`truncated: {"a":"b`, `{}`}},
		{"truncated between values", "{\"a\":1,\n{}\n", []string{`truncated: {"a":1,`, `{}`}},
		{"truncated where the next line fits", "{\"a\":\n{\"b\":1}\n{\"c\":1}\n", []string{`truncated: {"a":`, `{"b":1}`, `{"c":1}`}},
		{"truncated at the end", "{}\n{\"a\":", []string{`{}`, `truncated: {"a":`}},
		{"truncated, then frames up to the end", "{\"a\":[\n{\"b\":1}\n", []string{`truncated: {"a":[`, `{"b":1}`}},
		{"lines that are no frame together are one problem", "{\n\"a\":[\n1,\n{\"b\":1}\noops\n{}\n", []string{"truncated: {\n\"a\":[\n1,", `{"b":1}`, "not_json: oops", `{}`}},
		{"many brackets", strings.Repeat("[\n", 20) + "{}\n{}\n", []string{"truncated: " + strings.TrimSuffix(strings.Repeat("[\n", 20), "\n"), `{}`, `{}`}},

		{"a frame of exactly the limit", full + "\r\n{}\n", []string{full + " crlf", `{}`}},
		{"a frame over the limit", full[:5] + "x" + full[5:] + "\n{}\n", []string{`too_large: ` + full[:5] + "x" + full[5:] + "\n", `{}`}},
		{"a frame over the limit by much", `{"a":"` + strings.Repeat("x", 200_000) + "\"}\n{}\n", []string{"too_large", `{}`}},
		{"prose over the limit", strings.Repeat("x", 200_000) + "\n{}\n", []string{"too_large", `{}`}},
		{"lines over the limit together", "[\n" + strings.Repeat("1,\n", limit) + "1]\n{}\n", []string{"too_large", "", `{}`}},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"":                  func(r io.Reader) io.Reader { return r },
			" in 1-byte writes": iotest.OneByteReader,
			" in halves":        iotest.HalfReader,
			" with the end":     iotest.DataErrReader,
		} {
			t.Run(c.name+how, func(t *testing.T) {
				got := drain(t, jsonrpc.NewReader(wrap(strings.NewReader(c.input)), limit))
				if slices.Contains(c.want, "too_large") {
					// How much of it is seen depends on how it came.
					if !strings.HasPrefix(got[0], "too_large: ") || got[len(got)-1] != `{}` {
						t.Errorf("got %q, want a frame over the limit and %q", got, `{}`)
					}
					return
				}
				for i := range got {
					if strings.HasPrefix(got[i], "too_large: ") {
						got[i] = "too_large: " + c.want[i][len("too_large: "):]
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		}
	}
}

func TestReaderHoldsNoMoreThanTheLimit(t *testing.T) {
	// A line of 65 MiB, of which no more than 64 are looked at.
	long := io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":"`), bytes.NewReader(bytes.Repeat([]byte("x"), 65<<20)), strings.NewReader("\"}\n{}\n"))
	r := jsonrpc.NewReader(long, 0)
	f, err := r.Next()
	var p *jsonrpc.Problem
	if !errors.As(err, &p) || p.Code != jsonrpc.ProblemTooLarge {
		t.Fatalf("got %v, want a frame over the limit", err)
	}
	if got, want := p.Text, "the message is larger than the limit of 67108864 bytes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(f.Raw) != 64<<10 || !strings.HasPrefix(string(f.Raw), `{"jsonrpc":"2.0","id":1`) {
		t.Errorf("got %d bytes of it, want the first 65536", len(f.Raw))
	}
	if f, err = r.Next(); err != nil || string(f.Raw) != "{}" {
		t.Errorf("got %q, %v, want the next frame", f.Raw, err)
	}
}

func TestReaderKeepsNoLargeBuffer(t *testing.T) {
	const readers, size = 4, 4 << 20
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	text := bytes.Repeat([]byte("x"), size)
	before := heap()
	var all []*jsonrpc.Reader
	for range readers {
		large := io.MultiReader(strings.NewReader(`{"a":"`), bytes.NewReader(text), strings.NewReader("\"}\n"))
		r := jsonrpc.NewReader(io.MultiReader(large, strings.NewReader("{}\n"), new(never)), 0)
		for range 2 {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, r)
	}
	if kept := heap() - before; kept > readers*size/4 {
		t.Errorf("%d readers keep %d bytes after a frame of %d", len(all), kept, size)
	}
	runtime.KeepAlive(all)
	runtime.KeepAlive(text)
}

// A never is a reader that is not read from in the test.
type never struct{}

func (*never) Read([]byte) (int, error) { select {} }

func TestReaderTakesTimeInProportion(t *testing.T) {
	// Each line could be the start of a value that never ends. It would take
	// ages to look at all that follow for each.
	const lines = 50_000
	r := jsonrpc.NewReader(strings.NewReader(strings.Repeat("{\"a\":[\n", lines)), 0)
	if got := drain(t, r); len(got) > lines {
		t.Errorf("got %d problems, want no more than %d", len(got), lines)
	}
}

func TestReaderPassesOnWhyItEnds(t *testing.T) {
	broken := errors.New("broken")
	r := jsonrpc.NewReader(io.MultiReader(strings.NewReader(`{}`), iotest.ErrReader(broken)), 0)
	if f, err := r.Next(); err != nil || string(f.Raw) != "{}" {
		t.Errorf("got %q, %v, want what came before", f.Raw, err)
	}
	for range 2 {
		if _, err := r.Next(); err != broken {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
	idle := jsonrpc.NewReader(idleReader{}, 0)
	if _, err := idle.Next(); err != io.ErrNoProgress {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

// An idleReader reads nothing, and says so.
type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"{\"a\":1}\n", "[1,\n2]\n{}\n", "{\"a\":\n{\"b\":1}\n{}\n", "prose\n{}", "\ufeff{}\r\n\n{}{} x\n", "{\"a\":\"\xff\"}\n", "{\"a\":1,\"a\":2}\n",
		`{"a":"\ud800"}` + "\n", "[\n[\n{\n", "{\"a\":\"" + strings.Repeat("x", 300) + "\"}\n{}\n", "[\n" + strings.Repeat("1,\n", 100),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input string) {
		const limit = 200
		whole := drain(t, jsonrpc.NewReader(strings.NewReader(input), limit))
		bytewise := drain(t, jsonrpc.NewReader(iotest.OneByteReader(strings.NewReader(input)), limit))
		if strings.Contains(strings.Join(whole, "\n"), "too_large: ") {
			return // how much of it is seen depends on how it came
		}
		if !slices.Equal(whole, bytewise) {
			t.Errorf("at once      %q\nbyte by byte %q", whole, bytewise)
		}
	})
}
