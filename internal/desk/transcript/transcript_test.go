package transcript_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/transcript"
)

// counter returns the counter of a CLI.
func counter(t *testing.T, name string) transcript.Counter {
	t.Helper()
	c, err := cli.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return func(line []byte, model *string) (hub.ModelCall, bool, bool) {
		got, ok := c.Count(line, model)
		return got.ModelCall, got.Bad, ok
	}
}

// read reads a file and fails on an error.
func read(t *testing.T, path string, from transcript.Cursor, c transcript.Counter) transcript.Reading {
	t.Helper()
	got, err := transcript.Read(t.Context(), path, from, c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The counts that the scripted model said for each call, with the parts of the input apart.
var (
	said  = hub.Tokens{Input: 933, Output: 567, CachedRead: 301, Reasoning: 33}
	plain = hub.Tokens{Input: 1234, Output: 567}
)

func TestGoldenTranscripts(t *testing.T) {
	claude := hub.Tokens{Input: 1234, Output: 567, CachedRead: 301, CachedWrite: 77}
	gemini := hub.Tokens{Input: 933, Output: 600, CachedRead: 301, Reasoning: 33}
	for _, tt := range []struct {
		cli     string
		model   string
		ids     []string
		tokens  []hub.Tokens
		refused int
	}{
		{"claude", "claude-sonnet-4-5-20250929", []string{"msg_01", "msg_02"}, []hub.Tokens{claude, claude}, 4},
		{"codex", "gpt-5-codex", []string{"resp_1", "0199-a:3602"}, []hub.Tokens{said, said}, 1},
		{"qwen", "qwen3-coder-plus", []string{"q3", "q4"}, []hub.Tokens{said, plain}, 0},
		{"gemini", "gemini-2.5-pro", []string{"g1", "g2"}, []hub.Tokens{gemini, gemini}, 0},
		{"copilot", "gpt-5", []string{"call-1", "e4"}, []hub.Tokens{said, said}, 0},
	} {
		t.Run(tt.cli, func(t *testing.T) {
			got := read(t, filepath.Join("testdata", tt.cli+".jsonl"), transcript.Cursor{}, counter(t, tt.cli))
			var ids []string
			var tokens []hub.Tokens
			for _, c := range got.Calls {
				ids = append(ids, c.ID)
				tokens = append(tokens, c.Tokens)
				if c.Model != tt.model || c.At.IsZero() || c.Cost != 0 {
					t.Errorf("%s: model %q at %s, cost %d", c.ID, c.Model, c.At, c.Cost)
				}
			}
			if !reflect.DeepEqual(ids, tt.ids) || !reflect.DeepEqual(tokens, tt.tokens) || got.Refused != tt.refused {
				t.Errorf("got %v %+v, refused %d; want %v %+v, refused %d", ids, tokens, got.Refused, tt.ids, tt.tokens, tt.refused)
			}

			// The planted word of the prompts and answers must not leave the reader.
			raw, err := json.Marshal(got)
			if err != nil || strings.Contains(string(raw), "XYLOPHONE") {
				t.Errorf("a text of the transcript is in %s (%v)", raw, err)
			}
		})
	}
}

// answer is a line of Claude Code with one call.
func answer(id string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"model":"m","usage":{"input_tokens":1,"output_tokens":2}}}`+"\n", id)
}

// ids returns the ids of the calls of a reading.
func ids(r transcript.Reading) string {
	var out []string
	for _, c := range r.Calls {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

// write writes a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCursor(t *testing.T) {
	count := counter(t, "claude")
	path := filepath.Join(t.TempDir(), "t.jsonl")

	t.Run("a file that is not there yet has no calls", func(t *testing.T) {
		if got := read(t, path, transcript.Cursor{}, count); len(got.Calls) > 0 || got.Cursor.Offset != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a line is read once, and one that is being written when it is whole", func(t *testing.T) {
		half := answer("m3")
		write(t, path, answer("m1")+answer("m2")+half[:20])
		first := read(t, path, transcript.Cursor{}, count)
		write(t, path, answer("m1")+answer("m2")+half+answer("m4"))
		second := read(t, path, first.Cursor, count)
		if ids(first) != "m1 m2" || ids(second) != "m3 m4" {
			t.Errorf("got %s, then %s", ids(first), ids(second))
		}
		if third := read(t, path, second.Cursor, count); len(third.Calls) > 0 {
			t.Errorf("nothing was added, got %s", ids(third))
		}
	})
	t.Run("a file that was replaced is read anew", func(t *testing.T) {
		write(t, path, answer("m1")+answer("m2"))
		from := read(t, path, transcript.Cursor{}, count).Cursor
		write(t, path, answer("n1")+answer("n2")+answer("n3"))
		if got := read(t, path, from, count); ids(got) != "n1 n2 n3" {
			t.Errorf("got %s", ids(got))
		}
		write(t, path, answer("n1"))
		if got := read(t, path, from, count); ids(got) != "n1" {
			t.Errorf("a shorter file: got %s", ids(got))
		}
	})
	t.Run("a file with the same beginning and another middle is read anew", func(t *testing.T) {
		head := `{"type":"user","message":{"content":"` + strings.Repeat("y", 5000) + "\"}}\n"
		write(t, path, head+answer("m1")+answer("m2"))
		from := read(t, path, transcript.Cursor{}, count).Cursor
		write(t, path, head+answer("m1")+answer("n2")+answer("n3"))
		if got := read(t, path, from, count); ids(got) != "m1 n2 n3" {
			t.Errorf("got %s", ids(got))
		}
		write(t, path, head+answer("m1")+answer("m2")+answer("m3"))
		if got := read(t, path, from, count); ids(got) != "m3" {
			t.Errorf("a file that grew: got %s", ids(got))
		}
		if got := read(t, path, from.Back(int64(len(answer("m2")))), count); ids(got) != "m2 m3" {
			t.Errorf("from an earlier place: got %s", ids(got))
		}
	})
	t.Run("a session that is taken up again is read from its end", func(t *testing.T) {
		write(t, path, answer("old"))
		end, err := transcript.End(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, answer("old")+answer("new"))
		if got := read(t, path, end, count); ids(got) != "new" {
			t.Errorf("got %s", ids(got))
		}
	})
	t.Run("a link, a folder and a pipe are refused", func(t *testing.T) {
		dir := t.TempDir()
		link := filepath.Join(dir, "link")
		if err := os.Symlink(path, link); err != nil {
			t.Skip(err)
		}
		for _, p := range []string{link, dir} {
			if _, err := transcript.Read(t.Context(), p, transcript.Cursor{}, count); err == nil || !strings.Contains(err.Error(), "not read") {
				t.Errorf("%s: got %v", p, err)
			}
		}
	})
	t.Run("a line of many megabytes is skipped, the next one is read", func(t *testing.T) {
		write(t, path, `{"type":"assistant","usage":"`+strings.Repeat("x", 9<<20)+"\"}\n"+answer("m1"))
		if got := read(t, path, transcript.Cursor{}, count); ids(got) != "m1" || got.Skipped != 1 {
			t.Errorf("got %s, skipped %d", ids(got), got.Skipped)
		}
	})
	t.Run("a context that ended leaves the rest for the next read", func(t *testing.T) {
		write(t, path, answer("m1"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got, err := transcript.Read(ctx, path, transcript.Cursor{}, count)
		if err != nil || len(got.Calls) > 0 || !got.More {
			t.Errorf("got %+v (%v)", got, err)
		}
	})
}

// TestLargeTranscript holds that a read takes memory for a line and not for the file.
func TestLargeTranscript(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	line := `{"type":"user","message":{"content":"` + strings.Repeat("y", 1<<20) + "\"}}\n"
	for range 100 {
		w.WriteString(line)
	}
	w.WriteString(answer("last"))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f.Close()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := read(t, path, transcript.Cursor{}, counter(t, "claude"))
	runtime.ReadMemStats(&after)
	if ids(got) != "last" {
		t.Errorf("got %s", ids(got))
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("reading 100 MB allocated %d bytes", grown)
	}
}

func FuzzCount(f *testing.F) {
	names := []string{"claude", "codex", "copilot", "gemini", "qwen"}
	for i, name := range names {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			f.Add(i, []byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, i int, line []byte) {
		c, err := cli.Lookup(names[uint(i)%uint(len(names))])
		if err != nil {
			t.Fatal(err)
		}
		model := ""
		if got, ok := c.Count(line, &model); ok && !got.Bad && !got.Tokens.Valid() {
			t.Errorf("%s: %+v", line, got)
		}
	})
}
