package sandbox_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

const secret = "nobody may read this"

// maze is a root with links of every kind, beside things that must stay out of
// reach.
func maze(t testing.TB) (root, second, outside string) {
	t.Helper()
	base := folder(t)
	root, second, outside = filepath.Join(base, "root"), filepath.Join(base, "second"), filepath.Join(base, "root-evil")
	put(t, filepath.Join(root, "a.txt"), "a")
	put(t, filepath.Join(root, "sub", "b.txt"), "b")
	put(t, filepath.Join(second, "c.txt"), "c")
	put(t, filepath.Join(outside, "secret"), secret)
	for name, target := range map[string]string{
		"link":          "sub/b.txt",
		"link-absolute": filepath.Join(root, "a.txt"),
		"link-second":   filepath.Join(second, "c.txt"),
		"link-folder":   "sub",
		"link-up":       "sub/../a.txt",
		"link-broken":   "none",
		"loop":          "loop",
		"out":           "../root-evil/secret",
		"out-absolute":  filepath.Join(outside, "secret"),
		"out-folder":    outside,
		"out-twice":     "out-folder",
		"out-broken":    "../root-evil/none",
		"zero":          "/dev/zero",
	} {
		must(t, os.Symlink(target, filepath.Join(root, name)))
	}
	return root, second, outside
}

func TestReadStaysUnderTheRoots(t *testing.T) {
	root, second, outside := maze(t)
	alias := filepath.Join(filepath.Dir(root), "alias")
	must(t, os.Symlink(root, alias))
	must(t, os.Symlink(root, outside+"/back"))
	files := sandbox.NewFiles(open(t, alias, second))
	for _, tt := range []struct {
		name, path string
		want       string
		code       sandbox.Code
	}{
		{"a file", alias + "/a.txt", "a", ""},
		{"a file by the root's real name", root + "/a.txt", "a", ""},
		{"a file below", root + "/sub/b.txt", "b", ""},
		{"a file in the second root", second + "/c.txt", "c", ""},
		{"a path that goes up and stays inside", root + "/sub/../a.txt", "a", ""},
		{"a path that goes out and comes back", root + "/../root/a.txt", "a", ""},
		{"a link", root + "/link", "b", ""},
		{"a link that goes up and stays inside", root + "/link-up", "a", ""},
		{"an absolute link that stays inside", root + "/link-absolute", "a", ""},
		{"a link to another root", root + "/link-second", "c", ""},
		{"a linked folder", root + "/link-folder/b.txt", "b", ""},

		{"a relative path", "a.txt", "", sandbox.CodeInvalid},
		{"no path", "", "", sandbox.CodeInvalid},
		{"a path with a zero byte", root + "/a.txt\x00", "", sandbox.CodeInvalid},
		{"a path without end", root + strings.Repeat("/a", 1<<20), "", sandbox.CodeInvalid},
		{"a name that is too long", root + "/" + strings.Repeat("a", 300), "", sandbox.CodeInvalid},
		{"a path above", root + "/../root-evil/secret", "", sandbox.CodeOutside},
		{"a path far above", root + "/../../../../../../../../etc/passwd", "", sandbox.CodeOutside},
		{"a folder whose name begins like the root's", outside + "/secret", "", sandbox.CodeOutside},
		{"a way in from outside", outside + "/back/a.txt", "", sandbox.CodeOutside},
		{"a link out", root + "/out", "", sandbox.CodeOutside},
		{"an absolute link out", root + "/out-absolute", "", sandbox.CodeOutside},
		{"a linked folder outside", root + "/out-folder/secret", "", sandbox.CodeOutside},
		{"a link to a link out", root + "/out-twice/secret", "", sandbox.CodeOutside},
		{"a link out to nothing looks like one to something", root + "/out-broken", "", sandbox.CodeOutside},
		{"nothing in a linked folder outside looks like something", root + "/out-folder/none", "", sandbox.CodeOutside},
		{"a link to a device", root + "/zero", "", sandbox.CodeOutside},
		{"a link in a circle", root + "/loop", "", sandbox.CodeInvalid},
		{"a broken link", root + "/link-broken", "", sandbox.CodeNotFound},
		{"a file that is not there", root + "/none", "", sandbox.CodeNotFound},
		{"a file below a file", root + "/a.txt/b", "", sandbox.CodeNotFound},
		{"a folder", root + "/sub", "", sandbox.CodeDirectory},
		{"the root", root, "", sandbox.CodeDirectory},
	} {
		t.Run("R4-069 "+tt.name, func(t *testing.T) {
			got, err := files.Read(t.Context(), tt.path, 1, sandbox.AllLines)
			wantCode(t, err, tt.code)
			if got != tt.want {
				t.Errorf("text: got %q, want %q", got, tt.want)
			}
			if err != nil && len(err.Error()) > 8<<10 {
				t.Errorf("message: got %d bytes, want that it is bounded", len(err.Error()))
			}
		})
	}
	t.Run("after Close nothing is read", func(t *testing.T) {
		roots := open(t, root)
		must(t, roots.Close())
		_, err := sandbox.NewFiles(roots).Read(t.Context(), root+"/a.txt", 1, sandbox.AllLines)
		wantCode(t, err, sandbox.CodeClosed)
	})
}

func TestReadLines(t *testing.T) {
	root := folder(t)
	put(t, root+"/three", "one\ntwo\r\nthree")
	put(t, root+"/ended", "one\ntwo\n")
	put(t, root+"/empty", "")
	files := sandbox.NewFiles(open(t, root))
	for _, tt := range []struct {
		name        string
		file        string
		line, limit int
		want        string
		code        sandbox.Code
	}{
		{"all", "three", 1, sandbox.AllLines, "one\ntwo\r\nthree", ""},
		{"line 0 is line 1", "three", 0, sandbox.AllLines, "one\ntwo\r\nthree", ""},
		{"lines are counted from 1", "three", 2, 1, "two\r\n", ""},
		{"a limit beyond the end", "three", 2, 100, "two\r\nthree", ""},
		{"the last line without an end", "three", 3, 1, "three", ""},
		{"from a line to the end", "three", 2, sandbox.AllLines, "two\r\nthree", ""},
		{"a limit of 0 is nothing", "three", 1, 0, "", ""},
		{"a line beyond the end is nothing", "three", 4, 1, "", ""},
		{"after the last line end is nothing", "ended", 3, 1, "", ""},
		{"an empty file", "empty", 1, sandbox.AllLines, "", ""},
		{"a line of an empty file", "empty", 9, 9, "", ""},
		{"a negative line", "three", -1, 1, "", sandbox.CodeInvalid},
		{"a negative limit", "three", 1, -2, "", sandbox.CodeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := files.Read(t.Context(), filepath.Join(root, tt.file), tt.line, tt.limit)
			wantCode(t, err, tt.code)
			if got != tt.want {
				t.Errorf("text: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	root := folder(t)
	path := root + "/sparse"
	put(t, path, "one\ntwo\n")
	must(t, os.Truncate(path, 10<<30))
	put(t, root+"/fits", strings.Repeat("x", 16<<20))
	put(t, root+"/over", strings.Repeat("x", 16<<20)+"x")
	files := sandbox.NewFiles(open(t, root))
	for _, tt := range []struct {
		name        string
		file        string
		line, limit int
		want        int
		code        sandbox.Code
	}{
		{"10 GiB are refused", "sparse", 1, sandbox.AllLines, 0, sandbox.CodeTooLarge},
		{"the first lines of 10 GiB are read", "sparse", 1, 2, len("one\ntwo\n"), ""},
		{"a line of 10 GiB is refused", "sparse", 3, 1, 0, sandbox.CodeTooLarge},
		{"a line after 10 GiB is refused", "sparse", 4, 1, 0, sandbox.CodeTooLarge},
		{"what has just the size is read", "fits", 1, sandbox.AllLines, 16 << 20, ""},
		{"what has just the size is read by lines", "fits", 1, 1, 16 << 20, ""},
		{"one byte more is refused", "over", 1, sandbox.AllLines, 0, sandbox.CodeTooLarge},
		{"one byte more is refused by lines", "over", 1, 1, 0, sandbox.CodeTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := files.Read(t.Context(), filepath.Join(root, tt.file), tt.line, tt.limit)
			wantCode(t, err, tt.code)
			if len(got) != tt.want {
				t.Errorf("text: got %d bytes, want %d", len(got), tt.want)
			}
		})
	}
	t.Run("a read ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := files.Read(ctx, root+"/fits", 1, sandbox.AllLines)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error: got %v, want %v", err, context.Canceled)
		}
	})
}

func TestReadRefusesWhatIsNotText(t *testing.T) {
	root := folder(t)
	put(t, root+"/latin1", "fine\ncaf\xe9\n")
	files := sandbox.NewFiles(open(t, root))
	_, err := files.Read(t.Context(), root+"/latin1", 1, sandbox.AllLines)
	wantCode(t, err, sandbox.CodeNotText)
	got, err := files.Read(t.Context(), root+"/latin1", 1, 1)
	if err != nil || got != "fine\n" {
		t.Errorf("the lines that are text: got %q (%v), want %q", got, err, "fine\n")
	}
}

// names returns the names of everything under dir.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		out = append(out, path)
		return err
	}))
	return out
}

func TestWrite(t *testing.T) {
	root, second, outside := maze(t)
	files := sandbox.NewFiles(open(t, root, second))
	for _, tt := range []struct {
		name, path string
		lands      string // where the text must be; path if empty
	}{
		{"a new file", root + "/new.txt", ""},
		{"a file that is there", root + "/a.txt", ""},
		{"a file in folders that are not there", root + "/x/y/z.txt", ""},
		{"a file in a linked folder", root + "/link-folder/new.txt", root + "/sub/new.txt"},
		{"a link is written through", root + "/link", root + "/sub/b.txt"},
		{"a link to another root is written through", root + "/link-second", second + "/c.txt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := os.Readlink(tt.path)
			must(t, files.Write(t.Context(), tt.path, tt.name))
			lands := tt.lands
			if lands == "" {
				lands = tt.path
			}
			got, err := os.ReadFile(lands)
			if err != nil || string(got) != tt.name {
				t.Errorf("text: got %q (%v), want %q", got, err, tt.name)
			}
			if after, _ := os.Readlink(tt.path); after != before {
				t.Errorf("link: got %q, want %q", after, before)
			}
		})
	}
	before := strings.Join(names(t, filepath.Dir(root)), "\n")
	if strings.Contains(before, ".partial") {
		t.Errorf("files: got %s, want no partial one", before)
	}
	for _, tt := range []struct {
		name, path, text string
		code             sandbox.Code
	}{
		{"a relative path", "new", "", sandbox.CodeInvalid},
		{"a path above", root + "/../root-evil/new", "", sandbox.CodeOutside},
		{"a link out", root + "/out", "", sandbox.CodeOutside},
		{"an absolute link out", root + "/out-absolute", "", sandbox.CodeOutside},
		{"a link out to nothing", root + "/out-broken", "", sandbox.CodeOutside},
		{"a file in a linked folder outside", root + "/out-folder/new", "", sandbox.CodeOutside},
		{"folders in a linked folder outside", root + "/out-folder/x/y/new", "", sandbox.CodeOutside},
		{"a broken link", root + "/link-broken", "", sandbox.CodeNotRegular},
		{"a folder", root + "/sub", "", sandbox.CodeDirectory},
		{"the root", root, "", sandbox.CodeDirectory},
		{"a file below a file", root + "/a.txt/b", "", sandbox.CodeNotFound},
		{"too much text", root + "/p/q", strings.Repeat("x", 16<<20+1), sandbox.CodeTooLarge},
		{"what is not text", root + "/p/q", "\xff", sandbox.CodeNotText},
	} {
		t.Run("R4-069 "+tt.name+" is refused and changes nothing", func(t *testing.T) {
			wantCode(t, files.Write(t.Context(), tt.path, tt.text), tt.code)
			if got := strings.Join(names(t, filepath.Dir(root)), "\n"); got != before {
				t.Errorf("files: got\n%s\nwant\n%s", got, before)
			}
			if got, err := os.ReadFile(outside + "/secret"); string(got) != secret {
				t.Errorf("secret: got %q (%v), want it untouched", got, err)
			}
		})
	}
	t.Run("a write whose context has ended changes nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := files.Write(ctx, root+"/late", "")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error: got %v, want %v", err, context.Canceled)
		}
		_, err = os.Stat(root + "/late")
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("file: got %v, want that it is not there", err)
		}
	})
	t.Run("a hard link to a file outside is cut, not written through", func(t *testing.T) {
		must(t, os.Link(outside+"/secret", root+"/hard"))
		must(t, files.Write(t.Context(), root+"/hard", "mine"))
		if got, err := os.ReadFile(outside + "/secret"); string(got) != secret {
			t.Errorf("secret: got %q (%v), want it untouched", got, err)
		}
	})
}

func TestWriteIsAtomic(t *testing.T) {
	root := folder(t)
	files := sandbox.NewFiles(open(t, root))
	texts := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 200_000)}
	path := root + "/file"
	must(t, files.Write(t.Context(), path, texts[0]))
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 100 {
			if err := files.Write(t.Context(), path, texts[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	for range 300 {
		got, err := files.Read(t.Context(), path, 1, sandbox.AllLines)
		must(t, err)
		if got != texts[0] && got != texts[1] {
			t.Errorf("text: got %d bytes that begin with %.1q, want the old text or the new", len(got), got)
		}
	}
	writer.Wait()
}

// churn calls swap time and again until the test ends.
func churn(t *testing.T, swap func(i int)) {
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		swapper.Wait()
	})
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				swap(i)
			}
		}
	})
}

// While somebody swaps a harmless file for a link that leads out, and back,
// the secret is not read.
func TestFilesThatBecomeLinks(t *testing.T) {
	root, _, outside := maze(t)
	files := sandbox.NewFiles(open(t, root))
	put(t, root+"/bait", "harmless")
	churn(t, func(i int) {
		target := []string{outside + "/secret", "../root-evil/secret"}[i%2]
		if err := errors.Join(
			os.Symlink(target, root+"/next"), os.Rename(root+"/next", root+"/bait"),
			os.WriteFile(root+"/next", []byte("harmless"), 0o644), os.Rename(root+"/next", root+"/bait"),
		); err != nil {
			t.Error(err)
		}
	})
	for range 10_000 {
		got, err := files.Read(t.Context(), root+"/bait", 1, sandbox.AllLines)
		if err == nil && got != "harmless" {
			t.Fatalf("read: got %q, want the harmless text or an error", got)
		}
	}
}

// While somebody swaps a folder for a link that leads out, and back, nothing
// outside is written.
func TestFoldersThatBecomeLinks(t *testing.T) {
	root, _, outside := maze(t)
	files := sandbox.NewFiles(open(t, root))
	put(t, root+"/dir/secret", "harmless")
	churn(t, func(i int) {
		// A write that makes the folder meanwhile gets in the way of some.
		os.Rename(root+"/dir", root+"/away")
		os.Symlink([]string{outside, "../root-evil"}[i%2], root+"/dir")
		os.Remove(root + "/dir")
		os.Rename(root+"/away", root+"/dir")
	})
	for range 200 {
		for _, name := range []string{"secret", "new", "x/new"} {
			files.Write(t.Context(), filepath.Join(root, "dir", name), "harmless")
		}
	}
	if got, want := names(t, outside), []string{outside, outside + "/secret"}; !slices.Equal(got, want) {
		t.Errorf("outside: got %q, want %q", got, want)
	}
	if got, err := os.ReadFile(outside + "/secret"); string(got) != secret {
		t.Errorf("secret: got %q (%v), want it untouched", got, err)
	}
}

// Whatever path an agent thinks of, it never sees what is outside.
func FuzzReadPath(f *testing.F) {
	root, second, _ := maze(f)
	files := sandbox.NewFiles(open(f, root, second))
	for _, path := range []string{
		"/a.txt", "/../root-evil/secret", "/out", "/out-folder/secret", "/link-folder/../out-twice/secret", "/link-up/../../root-evil/secret",
		"", "//", "/./out-folder/./secret", "/sub/../../second/c.txt", "\x00", "/\xff",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, path := range []string{path, root + path, root + "/" + path} {
			got, err := files.Read(t.Context(), path, 1, sandbox.AllLines)
			if strings.Contains(got, secret) {
				t.Errorf("read %q: got the secret, want an error", path)
			}
			if err != nil && got != "" {
				t.Errorf("read %q: got %q with %v, want no text with an error", path, got, err)
			}
		}
	})
}
