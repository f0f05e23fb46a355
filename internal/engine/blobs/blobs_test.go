package blobs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/blobs"
)

func open(t *testing.T, dir string, o *blobs.Options) *blobs.Store {
	t.Helper()
	s, err := blobs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// files returns every file under dir.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

func wantCode(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("error: got %q (%v), want %q", got, err, want)
	}
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	s := open(t, dir, &blobs.Options{MaxFile: 100, MaxTotal: 250})
	t.Run("opening makes nothing", func(t *testing.T) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("folder: got %v, want that it is not there", err)
		}
	})
	for _, content := range []string{"", "hello", strings.Repeat("x", 100)} {
		t.Run("what is put comes back under its hash", func(t *testing.T) {
			path, sum, size, err := s.Put(iotest.OneByteReader(strings.NewReader(content)))
			if err != nil {
				t.Fatal(err)
			}
			want := sha256.Sum256([]byte(content))
			if sum != hex.EncodeToString(want[:]) || size != int64(len(content)) || !filepath.IsAbs(path) {
				t.Errorf("put: got %s %d %s, want hash, size and path", sum, size, path)
			}
			f, err := s.Open(sum)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || string(got) != content {
				t.Errorf("content: got %q (%v), want %q", got, err, content)
			}
		})
	}
	before := len(files(t, dir))
	t.Run("the same content is stored once and counted once", func(t *testing.T) {
		for range 5 {
			if _, _, _, err := s.Put(strings.NewReader(strings.Repeat("x", 100))); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(files(t, dir)); got != before {
			t.Errorf("files: got %d, want %d", got, before)
		}
	})
	for _, tt := range []struct {
		name string
		r    io.Reader
		want hub.Code
	}{
		{"a file that is too large", strings.NewReader(strings.Repeat("y", 101)), hub.CodeTooLarge},
		{"content that breaks off", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("gone"))), hub.CodeInvalid},
	} {
		t.Run(tt.name+" leaves nothing", func(t *testing.T) {
			_, _, _, err := s.Put(tt.r)
			wantCode(t, err, tt.want)
			if got := len(files(t, dir)); got != before {
				t.Errorf("files: got %d, want %d", got, before)
			}
		})
	}
	for sum, want := range map[string]hub.Code{
		strings.Repeat("0", 64): hub.CodeNotFound, strings.Repeat("0", 63): hub.CodeInvalid, strings.Repeat("A", 64): hub.CodeInvalid,
		"": hub.CodeInvalid, "../../hub.db": hub.CodeInvalid, strings.Repeat("z", 64): hub.CodeInvalid,
	} {
		t.Run("there is nothing under the hash "+sum, func(t *testing.T) {
			_, err := s.Open(sum)
			wantCode(t, err, want)
		})
	}
	t.Run("what is over the quota is refused with what to do and leaves nothing, and less still fits", func(t *testing.T) {
		_, _, _, err := s.Put(strings.NewReader(strings.Repeat("a", 100)))
		wantCode(t, err, "")
		_, _, _, err = s.Put(strings.NewReader(strings.Repeat("b", 100)))
		wantCode(t, err, hub.CodeTooLarge)
		var e *hub.Error
		if errors.As(err, &e) && e.Hint == "" {
			t.Error("there is no hint")
		}
		if got := len(files(t, dir)); got != before+1 {
			t.Errorf("files: got %d, want %d", got, before+1)
		}
		_, _, _, err = s.Put(strings.NewReader("c"))
		wantCode(t, err, "")
	})
	t.Run("the quota holds after a restart", func(t *testing.T) {
		_, _, _, err := open(t, dir, &blobs.Options{MaxFile: 100, MaxTotal: 250}).Put(strings.NewReader(strings.Repeat("b", 100)))
		wantCode(t, err, hub.CodeTooLarge)
	})
	t.Run("files that are removed make room", func(t *testing.T) {
		for _, name := range files(t, dir) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []string{"b", "d"} {
			_, _, _, err := s.Put(strings.NewReader(strings.Repeat(c, 100)))
			wantCode(t, err, "")
		}
	})
}

func TestConcurrentPut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &blobs.Options{MaxTotal: 1500})
	t.Run("the same content from many at once is one file and takes room once", func(t *testing.T) {
		content := bytes.Repeat([]byte("x"), 1000)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, _, _, err := s.Put(bytes.NewReader(content)); err != nil && hub.CodeOf(err) != hub.CodeTooLarge {
					t.Error(err) // while others store it, it may seem too much
				}
			})
		}
		wg.Wait()
		if got := files(t, dir); len(got) != 1 {
			t.Errorf("files: got %q, want one", got)
		}
		_, _, _, err := s.Put(strings.NewReader(strings.Repeat("y", 400)))
		wantCode(t, err, "")
	})
}

func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	t.Run("what a crash left is removed and not counted", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "123.partial"), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, &blobs.Options{MaxTotal: 100})
		if got := files(t, dir); len(got) != 0 {
			t.Errorf("files: got %q, want none", got)
		}
		_, _, _, err := s.Put(strings.NewReader(strings.Repeat("x", 100)))
		wantCode(t, err, "")
	})
	t.Run("only the owner can read what is stored", func(t *testing.T) {
		for _, name := range files(t, dir) {
			info, err := os.Stat(name)
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: got %v (%v), want nothing for others", name, info.Mode(), err)
			}
		}
	})
	t.Run("a folder that cannot be made is reported as degraded", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := blobs.Open(filepath.Join(file, "artifacts"), nil)
		if err == nil {
			_, _, _, err = s.Put(strings.NewReader("x"))
			wantCode(t, err, hub.CodeDegraded)
		}
	})
}

func TestUploadsUnderWay(t *testing.T) {
	t.Run("bytes that have arrived count before the upload ends", func(t *testing.T) {
		s := open(t, t.TempDir(), &blobs.Options{MaxFile: 100, MaxTotal: 100})
		r, w := io.Pipe()
		first := make(chan error, 1)
		go func() {
			_, _, _, err := s.Put(r)
			first <- err
		}()
		if _, err := io.WriteString(w, strings.Repeat("a", 60)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("a")); err != nil { // so that the sixty are stored
			t.Fatal(err)
		}
		_, _, _, err := s.Put(strings.NewReader(strings.Repeat("b", 60)))
		wantCode(t, err, hub.CodeTooLarge)
		w.CloseWithError(errors.New("broken off"))
		wantCode(t, <-first, hub.CodeInvalid)
		if _, _, _, err := s.Put(strings.NewReader(strings.Repeat("b", 60))); err != nil {
			t.Errorf("after the first broke off: %v", err)
		}
	})
}
