package evidence

import (
	"bytes"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzRefLines(f *testing.F) {
	id := strings.Repeat("0a", 20)
	f.Add([]byte("# pack-refs with: peeled fully-peeled sorted \n" + id + " refs/heads/main\n^" + id + "\n"))
	f.Add([]byte(id + " refs/heads/../../x\r\n" + id + " HEAD\n" + id))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, id := range refLines(b) {
			if !objectID(id) || !strings.HasPrefix(name, "refs/") || !bytes.Contains(b, []byte(id+" "+name)) {
				t.Errorf("got %q for %q, which is not there or not a ref", id, name)
			}
		}
	})
}

func FuzzRefName(f *testing.F) {
	for _, name := range []string{"main", "feature/x", "-x", "a..b", "@{", "größe", "a.lock", "/", "refs/heads/x", "\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if validRef(name) && (!filepath.IsLocal(name) || name[0] == '-' || filepath.ToSlash(filepath.Clean(name)) != name || strings.ContainsAny(name, "\x00\n:^~")) {
			t.Errorf("%q passes as a name", name)
		}
	})
}

func FuzzTreeFiles(f *testing.F) {
	id := strings.Repeat("0a", 20)
	f.Add("100644 blob " + id + "\ta b\n\x00120000 blob " + id + "\tc")
	f.Add("100644 blob " + id + "\tno end")
	f.Add("\x00")
	f.Fuzz(func(t *testing.T, out string) {
		files, folders, err := treeFiles(strings.Split(out, "\x00"))
		for name, got := range files {
			if !strings.Contains("\x00"+out+"\x00", "\t"+name+"\x00") || !objectID(got.id) || !folders[path.Dir(name)] && path.Dir(name) != "/" {
				t.Errorf("got %q with %v, which is not there", name, got)
			}
		}
		if err == nil && len(files) == 0 {
			t.Errorf("%q was passed over", out)
		}
	})
}
