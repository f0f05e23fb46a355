//go:build unix

package evidence_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

func size(n int64) *int64 { return &n }

func TestFile(t *testing.T) {
	dir := folder(t)
	file := write(t, filepath.Join(dir, "sub", "file"), "content")
	inside := link(t, "sub/file", filepath.Join(dir, "inside"))
	other := folder(t)
	alias := link(t, dir, filepath.Join(other, "alias"))
	in := inspector(t, nil, alias)
	for _, tt := range []struct {
		name  string
		claim evidence.FileClaim
		want  an
	}{
		{"a file with hash and size is verified", evidence.FileClaim{Path: file, SHA256: sum("content"), Size: size(7)}, an{hub.CheckVerified, "", "7 bytes, and the sha256"}},
		{"a file without a hash is verified to be there", evidence.FileClaim{Path: file}, an{hub.CheckVerified, "", "no sha256 was claimed"}},
		{"a root goes by the name it was given, too", evidence.FileClaim{Path: filepath.Join(alias, "sub", "file")}, an{hub.CheckVerified, "", "7 bytes"}},
		{"a relative path is looked for under the root", evidence.FileClaim{Path: "sub/file"}, an{hub.CheckVerified, "", "7 bytes"}},
		{"a link inside the root is followed", evidence.FileClaim{Path: inside, SHA256: sum("content")}, an{hub.CheckVerified, "", ""}},
		{"a way up and back inside the root is followed", evidence.FileClaim{Path: dir + "/sub/../sub//file"}, an{hub.CheckVerified, "", ""}},
		{"another size fails", evidence.FileClaim{Path: file, Size: size(8)}, an{hub.CheckFailed, hub.CodeHashMismatch, "7 bytes, not 8"}},
		{"another hash fails", evidence.FileClaim{Path: file, SHA256: sum("other")}, an{hub.CheckFailed, hub.CodeHashMismatch, "not the one claimed"}},
		{"a hash that is none fails", evidence.FileClaim{Path: file, SHA256: strings.ToUpper(sum("content"))}, an{hub.CheckFailed, hub.CodeInvalid, "64 lower-case"}},
		{"a missing file fails", evidence.FileClaim{Path: filepath.Join(dir, "none")}, an{hub.CheckFailed, hub.CodeNotFound, "there is no"}},
		{"a file below a file fails", evidence.FileClaim{Path: filepath.Join(file, "x")}, an{hub.CheckFailed, hub.CodeNotFound, "there is no"}},
		{"the root itself fails", evidence.FileClaim{Path: dir}, an{hub.CheckFailed, hub.CodeConflict, "a folder"}},
		{"an empty path fails", evidence.FileClaim{}, an{hub.CheckFailed, hub.CodeInvalid, "empty"}},
		{"a path with a zero byte fails", evidence.FileClaim{Path: file + "\x00"}, an{hub.CheckFailed, hub.CodeInvalid, "is not a path"}},
		{"an endless path fails", evidence.FileClaim{Path: dir + strings.Repeat("/a", 4096)}, an{hub.CheckFailed, hub.CodeInvalid, "is not a path"}},
		{"an address is unverifiable", evidence.FileClaim{Path: "https://example.org/x"}, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "nothing is fetched"}},
		{"a name that only begins like the root is outside", evidence.FileClaim{Path: dir + "x"}, an{hub.CheckUnverifiable, hub.CodeDenied, "not under a root"}},
	} {
		t.Run(tt.name, func(t *testing.T) { expect(t, in.Check(t.Context(), tt.claim)[0], tt.want) })
	}
}

func TestFileOutside(t *testing.T) {
	base := folder(t)
	root, other := filepath.Join(base, "root"), filepath.Join(base, "other")
	for _, dir := range []string{root, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(other, "secret")
	in := inspector(t, nil, root)
	for _, tt := range []struct{ name, path string }{
		{"by its path", secret},
		{"through ..", root + "/../other/secret"},
		{"through .. in a relative path", "../other/secret"},
		{"through an absolute link", link(t, secret, filepath.Join(root, "absolute"))},
		{"through a relative link", link(t, "../other/secret", filepath.Join(root, "relative"))},
		{"through a link to a link", link(t, "relative", filepath.Join(root, "twice"))},
		{"through a linked folder", filepath.Join(link(t, other, filepath.Join(root, "folder")), "secret")},
		{"through a linked folder and back", filepath.Join(root, "folder") + "/../root/absolute"},
	} {
		t.Run(tt.name+" a file gives the same answer whether it is there or not", func(t *testing.T) {
			os.Remove(secret)
			claim := evidence.FileClaim{Path: tt.path, SHA256: sum("secret"), Size: size(6)}
			absent := in.Check(t.Context(), claim)[0]
			want := an{hub.CheckFailed, hub.CodePolicy, "leads out of the root"}
			if tt.path == secret {
				want = an{hub.CheckUnverifiable, hub.CodeDenied, "not under a root"}
			}
			expect(t, absent, want)
			write(t, secret, "secret")
			if got := in.Check(t.Context(), claim)[0]; got != absent {
				t.Errorf("got %v when it is there, want %v as when it is not", got, absent)
			}
		})
	}
	t.Run("without roots everything is outside", func(t *testing.T) {
		for _, path := range []string{secret, "secret"} {
			expect(t, inspector(t, nil).Check(t.Context(), evidence.FileClaim{Path: path})[0], an{hub.CheckUnverifiable, hub.CodeDenied, "not under a root"})
		}
	})
}

func TestFileKinds(t *testing.T) {
	dir := folder(t)
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := inspector(t, nil, dir, "/dev")
	for _, tt := range []struct{ path, want string }{
		{dir, "a folder"},
		{pipe, "a pipe"},
		{socket, "a socket"},
		{os.DevNull, "a device"},
	} {
		t.Run(tt.want+" fails without being opened", func(t *testing.T) {
			expect(t, in.Check(t.Context(), evidence.FileClaim{Path: tt.path, SHA256: sum("")})[0], an{hub.CheckFailed, hub.CodeConflict, tt.want + ", not a regular file"})
		})
	}
}

func TestFileBounds(t *testing.T) {
	dir := folder(t)
	sparse := write(t, filepath.Join(dir, "sparse"), "")
	const huge = 10 << 30
	if err := os.Truncate(sparse, huge); err != nil {
		t.Fatal(err)
	}
	in := inspector(t, nil, dir, "/proc")
	tooLarge := an{hub.CheckUnverifiable, hub.CodeTooLarge, "larger than 1073741824 bytes"}

	t.Run("a sparse file of 10 GiB is not read", func(t *testing.T) {
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: sparse, SHA256: sum("")})[0], tooLarge)
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: sparse, Size: size(huge)})[0], tooLarge)
	})
	t.Run("a file one byte over the limit is not read, one at the limit is", func(t *testing.T) {
		in := inspector(t, &evidence.Options{MaxFile: 3}, dir)
		three, four := write(t, filepath.Join(dir, "three"), "123"), write(t, filepath.Join(dir, "four"), "1234")
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: three, SHA256: sum("123")})[0], an{hub.CheckVerified, "", ""})
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: four, SHA256: sum("1234")})[0], an{hub.CheckUnverifiable, hub.CodeTooLarge, "larger than 3 bytes"})
	})
	t.Run("a file that has more than it said is not believed", func(t *testing.T) {
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: "/proc/version", SHA256: sum("")})[0], an{hub.CheckUnverifiable, hub.CodeDegraded, "changed while it was read"})
	})
	t.Run("a cancelled check is unverifiable", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		file := write(t, filepath.Join(dir, "file"), "x")
		expect(t, in.Check(ctx, evidence.FileClaim{Path: file, SHA256: sum("x")})[0], an{hub.CheckUnverifiable, hub.CodeDegraded, "cancelled"})
	})
	t.Run("a check that takes too long is unverifiable", func(t *testing.T) {
		in := inspector(t, &evidence.Options{Timeout: 1}, dir)
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: sparse})[0], an{hub.CheckUnverifiable, hub.CodeDegraded, "stopped after 1ns"})
	})
}

func TestFileRelative(t *testing.T) {
	first, second := folder(t), folder(t)
	write(t, filepath.Join(first, "both"), "1")
	write(t, filepath.Join(second, "both"), "2")
	write(t, filepath.Join(second, "one"), "2")
	in := inspector(t, nil, first, second)

	t.Run("the first root that has it is taken and ambiguity is stated", func(t *testing.T) {
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: "both", SHA256: sum("1")})[0], an{hub.CheckVerified, "", "ambiguous: 1 other roots"})
		expect(t, in.Check(t.Context(), evidence.FileClaim{Path: "both", SHA256: sum("2")})[0], an{hub.CheckFailed, hub.CodeHashMismatch, ""})
	})
	t.Run("a later root is looked at, too", func(t *testing.T) {
		got := in.Check(t.Context(), evidence.FileClaim{Path: "one", SHA256: sum("2")})[0]
		expect(t, got, an{hub.CheckVerified, "", ""})
		if strings.Contains(got.Detail, "ambiguous") {
			t.Errorf("got %q, want nothing about ambiguity", got.Detail)
		}
	})
	t.Run("a root inside another makes nothing ambiguous", func(t *testing.T) {
		nested := filepath.Join(first, "nested")
		file := write(t, filepath.Join(nested, "file"), "x")
		if got := inspector(t, nil, first, nested).Check(t.Context(), evidence.FileClaim{Path: file})[0]; strings.Contains(got.Detail, "ambiguous") {
			t.Errorf("got %q, want nothing about ambiguity", got.Detail)
		}
	})
}

// A file that is swapped for a link all the time must never give away what the
// link leads to.
func TestFileSwapped(t *testing.T) {
	base := folder(t)
	root := filepath.Join(base, "root")
	secret := write(t, filepath.Join(base, "secret"), "secret")
	path := write(t, filepath.Join(root, "file"), "public")
	in := inspector(t, nil, root)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			next := filepath.Join(root, "next")
			var err error
			if i%2 == 0 {
				err = os.Symlink(secret, next)
			} else {
				err = os.WriteFile(next, []byte("public"), 0o600)
			}
			if err == nil {
				err = os.Rename(next, path)
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 2000 {
		if got := in.Check(t.Context(), evidence.FileClaim{Path: path, SHA256: sum("secret")})[0]; got.Result == hub.CheckVerified {
			t.Fatalf("got %v, want anything else", got)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}
