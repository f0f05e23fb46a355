package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
)

// A countedFile is a file that counts writes and can be told to refuse them.
type countedFile struct {
	vfs.File // for what is not called
	f        *os.File
	writes   int
	refuse   error
}

func (c *countedFile) WriteAt(p []byte, off int64) (int, error) {
	if c.writes++; c.refuse != nil {
		return 0, c.refuse
	}
	return c.f.WriteAt(p, off)
}

func (c *countedFile) ReadAt(p []byte, off int64) (int, error) { return c.f.ReadAt(p, off) }
func (c *countedFile) Sync(vfs.SyncFlag) error                 { return nil }
func (c *countedFile) Truncate(size int64) error               { return c.f.Truncate(size) }
func (c *countedFile) Close() error                            { return c.f.Close() }

func openLog(t testing.TB) (*logFile, *countedFile) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	c := &countedFile{f: f}
	return &logFile{File: c}, c
}

// write writes p or ends the test.
func (f *logFile) write(t testing.TB, p []byte, off int64) {
	t.Helper()
	if _, err := f.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
}

func (c *countedFile) bytes(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(c.f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// frame returns the header and the page of a frame.
func frame(fill byte, last bool) (header, page []byte) {
	header = bytes.Repeat([]byte{fill}, frameHeader)
	size := uint32(0)
	if last {
		size = 7
	}
	binary.BigEndian.PutUint32(header[4:], size)
	return header, bytes.Repeat([]byte{fill}, testPage)
}

const testPage = 512

func TestLog(t *testing.T) {
	t.Run("a commit is one write, and is there when its last frame is written", func(t *testing.T) {
		f, c := openLog(t)
		want := bytes.Repeat([]byte{1}, 32)
		f.write(t, want, 0) // the header of the log
		for i := range 5 {
			h, p := frame(byte(i), i == 4)
			f.write(t, h, int64(len(want)))
			f.write(t, p, int64(len(want)+frameHeader))
			want = append(append(want, h...), p...)
		}
		if c.writes != 2 {
			t.Errorf("%d writes, want 2", c.writes)
		}
		if !bytes.Equal(c.bytes(t), want) {
			t.Error("the file is not what was written")
		}
	})
	t.Run("what cannot be written is reported and forgotten", func(t *testing.T) {
		f, c := openLog(t)
		c.refuse = errors.New("full")
		h, p := frame(1, true)
		f.write(t, h, 0)
		if _, err := f.WriteAt(p, frameHeader); !errors.Is(err, c.refuse) {
			t.Errorf("got %v, want %v", err, c.refuse)
		}
		c.refuse = nil
		if err := f.Sync(vfs.SYNC_FULL); err != nil || len(c.bytes(t)) != 0 {
			t.Errorf("got %v and %d bytes, want nothing", err, len(c.bytes(t)))
		}
	})
	t.Run("nothing is held back for longer than a commit, whatever is done in between", func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		f, c := openLog(t)
		var want []byte // what a plain file would hold
		write := func(p []byte, off int64) {
			f.write(t, p, off)
			if n := int(off) + len(p); n > len(want) {
				want = append(want, make([]byte, n-len(want))...)
			}
			copy(want[off:], p)
		}
		same := func(after string) {
			t.Helper()
			if !bytes.Equal(c.bytes(t), want) {
				t.Fatalf("the file is not what was written, after %s", after)
			}
		}
		write(bytes.Repeat([]byte{9}, 32), 0)
		end := int64(32) // of what is committed
		for range 500 {
			switch k := rnd.IntN(10); {
			case k < 6:
				at, n, commit := end, 1+rnd.IntN(6), rnd.IntN(4) > 0
				for i := range n {
					h, p := frame(byte(rnd.Uint32()), commit && i == n-1)
					write(h, at)
					write(p, at+frameHeader)
					at += frameHeader + testPage
				}
				if commit {
					end = at
					same("a commit")
				}
			case k == 6 && end > 32: // a header is written anew
				h, _ := frame(byte(rnd.Uint32()), true)
				write(h, 32+(frameHeader+testPage)*rnd.Int64N((end-32)/(frameHeader+testPage)))
				same("a header")
			case k == 7:
				if _, err := f.ReadAt(make([]byte, 16), 0); err != nil {
					t.Fatal(err)
				}
				same("a read")
			case k == 8:
				if err := f.Sync(vfs.SYNC_FULL); err != nil {
					t.Fatal(err)
				}
				same("a sync")
			case k == 9 && rnd.IntN(5) == 0: // the log begins anew
				write(bytes.Repeat([]byte{byte(rnd.Uint32())}, 32), 0)
				end = 32
				same("a new beginning")
			}
		}
	})
	t.Run("a database is found whatever its path looks like", func(t *testing.T) {
		s := openAt(t, filepath.Join(t.TempDir(), "a b?c#d%20e&f=g;ä"), nil)
		wantMessage(t, s, put(t, s))
		if _, err := os.Stat(s.path); err != nil {
			t.Error(err)
		}
	})
}
