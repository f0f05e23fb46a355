package upgrade_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/upgrade"
	"github.com/parley-agents/parley/internal/testing/acptest"
)

// program returns a program that prints its version as parley does.
func program(version string) string {
	return fmt.Sprintf("#!/bin/sh\n[ \"$*\" = 'version --json' ] && echo '{\"version\":%q}'\n", version)
}

// A store is a folder with releases that a server offers.
type store struct {
	t   *testing.T
	dir string
	url string
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{t: t, dir: t.TempDir()}
	server := httptest.NewServer(http.FileServer(http.Dir(s.dir)))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// archiveName is the name of the archive of a version for this machine.
func archiveName(version string) string {
	return fmt.Sprintf("parley_%s_%s_%s.tar.gz", strings.TrimPrefix(version, "v"), runtime.GOOS, runtime.GOARCH)
}

// write writes a file of a release: at download/v1.2.3, or latest/download.
func (s *store) write(folder, name string, content []byte) {
	s.t.Helper()
	path := filepath.Join(s.dir, folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// read reads a file of a release.
func (s *store) read(folder, name string) []byte {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, folder, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// add adds a release of a program at its tag and as the newest one.
func (s *store) add(version, text string) {
	s.t.Helper()
	archive := pack(s.t, "parley", text)
	sums := fmt.Sprintf("%x  other.txt\n%x  %s\n", sha256.Sum256(nil), sha256.Sum256(archive), archiveName(version))
	for _, folder := range []string{"download/" + version, "latest/download"} {
		s.write(folder, archiveName(version), archive)
		s.write(folder, "checksums.txt", []byte(sums))
	}
}

// pack returns an archive with one file in a folder.
func pack(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	w := tar.NewWriter(packed)
	if err := w.WriteHeader(&tar.Header{Name: "folder/" + name, Mode: 0o755, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, text) // fails with Close
	for _, c := range []io.Closer{w, packed} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// names returns the names in a folder.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// install does the steps of an upgrade in a folder with a program.
func install(t *testing.T, s upgrade.Source, tag, dir string) error {
	t.Helper()
	found, err := s.Find(t.Context(), tag)
	if err != nil {
		return err
	}
	fresh, err := s.Fetch(t.Context(), found, dir)
	if err != nil {
		return err
	}
	return upgrade.Replace(t.Context(), filepath.Join(dir, "parley"), fresh)
}

// installed returns a folder with the program of a version.
func installed(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "parley"), []byte(program(version)), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// content returns a file of a folder.
func content(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestUpgrade(t *testing.T) {
	s := newStore(t)
	s.add("v1.0.0", program("v1.0.0"))
	s.add("v1.1.0", program("v1.1.0"))
	dir := installed(t, "v1.0.0")

	t.Run("the newest release replaces the program, and the old one stays beside it", func(t *testing.T) {
		if err := install(t, upgrade.Source{Address: s.url + "/"}, "", dir); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); !slices.Equal(got, []string{"parley", "parley.before"}) {
			t.Errorf("the folder has %q", got)
		}
		if got := content(t, dir, "parley"); got != program("v1.1.0") {
			t.Errorf("the program is %q", got)
		}
		if got := content(t, dir, "parley.before"); got != program("v1.0.0") {
			t.Errorf("the program from before is %q", got)
		}
		for _, name := range names(t, dir) {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%s has mode %v (%v)", name, info.Mode(), err)
			}
		}
	})
	t.Run("back returns to it, and back again", func(t *testing.T) {
		for _, want := range []string{"v1.0.0", "v1.1.0"} {
			if err := upgrade.Back(t.Context(), filepath.Join(dir, "parley")); err != nil {
				t.Fatal(err)
			}
			if got := content(t, dir, "parley"); got != program(want) {
				t.Errorf("the program is %q, want that of %s", got, want)
			}
		}
		if got := names(t, dir); !slices.Equal(got, []string{"parley", "parley.before"}) {
			t.Errorf("the folder has %q", got)
		}
	})
	t.Run("without an upgrade there is nothing to return to", func(t *testing.T) {
		fresh := installed(t, "v1.0.0")
		if err := upgrade.Back(t.Context(), filepath.Join(fresh, "parley")); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("got %v", err)
		}
		if got := names(t, fresh); !slices.Equal(got, []string{"parley"}) {
			t.Errorf("the folder has %q", got)
		}
	})
	t.Run("a release is had by its tag", func(t *testing.T) {
		got, err := upgrade.Source{Address: s.url}.Find(t.Context(), "v1.0.0")
		if err != nil || got.Version != "v1.0.0" || got.Archive != archiveName("v1.0.0") || len(got.SHA256) != 64 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestKilledUpgrades has the files of upgrades that were killed removed by the next one, and by its
// way back. A download may be that of an upgrade that still runs, until it is old.
func TestKilledUpgrades(t *testing.T) {
	s := newStore(t)
	s.add("v1.1.0", program("v1.1.0"))
	dir := installed(t, "v1.0.0")
	leaves := func() {
		for _, name := range []string{"parley.draft-17", ".parley-upgrade-old", ".parley-upgrade-young", "other.draft-17"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, ".parley-upgrade-old"), before, before); err != nil {
			t.Fatal(err)
		}
	}
	left := func() {
		t.Helper()
		if got := names(t, dir); !slices.Equal(got, []string{".parley-upgrade-young", "other.draft-17", "parley", "parley.before"}) {
			t.Errorf("the folder has %q", got)
		}
	}

	leaves()
	if err := install(t, upgrade.Source{Address: s.url}, "", dir); err != nil {
		t.Fatal(err)
	}
	left()
	leaves()
	if err := upgrade.Back(t.Context(), filepath.Join(dir, "parley")); err != nil {
		t.Fatal(err)
	}
	left()
}

// replacesIn is the variable that makes TestKills the process that replaces the program of a folder.
const replacesIn = "PARLEY_TEST_REPLACES_IN"

// TestKills kills a process that replaces a program without end. Each time the program and the one
// from before are whole, and the next upgrade removes what the process left.
func TestKills(t *testing.T) {
	padding := strings.Repeat("# a line\n", 50_000) // so that a part of a program is likely to be seen
	versions := []string{program("v1.0.0") + padding, program("v1.1.0") + padding}
	if dir := os.Getenv(replacesIn); dir != "" {
		replaceForever(dir, versions)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := installed(t, "v1.0.0")
	for kill := range 10 {
		cmd := exec.Command(self, "-test.run=^TestKills$")
		cmd.Env = append(os.Environ(), replacesIn+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 2 + kill {
			if !lines.Scan() {
				t.Fatal("the process ended")
			}
		}
		cmd.Process.Kill() // fails if it has ended
		cmd.Wait()         // it was killed

		for _, name := range []string{"parley", "parley.before"} {
			if !slices.Contains(versions, content(t, dir, name)) {
				t.Fatalf("after kill %d, %s is not a whole program", kill, name)
			}
		}
	}

	s := newStore(t)
	s.add("v2.0.0", program("v2.0.0"))
	if err := install(t, upgrade.Source{Address: s.url}, "", dir); err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(names(t, dir), func(name string) bool { return strings.HasPrefix(name, "fresh-") })
	if !slices.Equal(got, []string{"parley", "parley.before"}) {
		t.Errorf("the folder has %q", got)
	}
}

// replaceForever replaces the program of a folder with each version in turn, and prints a line each
// time.
func replaceForever(dir string, versions []string) {
	for i := 1; ; i++ {
		fresh := filepath.Join(dir, fmt.Sprintf("fresh-%d", os.Getpid()))
		err := os.WriteFile(fresh, []byte(versions[i%2]), 0o755)
		if err == nil {
			err = upgrade.Replace(context.Background(), filepath.Join(dir, "parley"), fresh)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("replaced")
	}
}

// TestUpgradesAtOnce has several upgrades to one release finish at the same time. The program from
// before is the old one, not the release that one of them had installed.
func TestUpgradesAtOnce(t *testing.T) {
	s := newStore(t)
	s.add("v1.1.0", program("v1.1.0"))
	dir := installed(t, "v1.0.0")
	source := upgrade.Source{Address: s.url}
	found, err := source.Find(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var downloads []string
	for range 4 {
		fresh, err := source.Fetch(t.Context(), found, dir)
		if err != nil {
			t.Fatal(err)
		}
		downloads = append(downloads, fresh)
	}

	var upgrades sync.WaitGroup
	for _, fresh := range downloads {
		upgrades.Go(func() {
			if err := upgrade.Replace(t.Context(), filepath.Join(dir, "parley"), fresh); err != nil {
				t.Error(err)
			}
			os.Remove(fresh) // unless it became the program
		})
	}
	upgrades.Wait()
	if content(t, dir, "parley") != program("v1.1.0") || content(t, dir, "parley.before") != program("v1.0.0") {
		t.Errorf("the program is %q, the one from before %q", content(t, dir, "parley"), content(t, dir, "parley.before"))
	}
	if got := names(t, dir); !slices.Equal(got, []string{"parley", "parley.before"}) {
		t.Errorf("the folder has %q", got)
	}
}

// TestBadReleases has every bad release refused with its code, and the folder as it was.
func TestBadReleases(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)

	latest := "latest/download"
	for name, c := range map[string]struct {
		address string // of the source, if it is not the store
		tag     string
		spoil   func(s *store)
		want    hub.Code
		part    string
	}{
		"no server":               {address: gone.URL, want: hub.CodeUnreachable, part: "connection refused"},
		"an unknown version":      {tag: "v9.9.9", want: hub.CodeNotFound, part: "/download/v9.9.9/checksums.txt"},
		"a version that is none":  {tag: "v1/../../x", want: hub.CodeInvalid, part: "is not a version"},
		"an address that is none": {address: "releases", want: hub.CodeInvalid, part: "is not an address"},
		"a file of this machine":  {address: "file:///tmp", want: hub.CodeInvalid, part: "is not an address"},
		"no encryption":           {address: "http://releases.invalid", want: hub.CodePolicy, part: "not encrypted"},
		"an unknown certificate":  {address: untrusted.URL, want: hub.CodeUnreachable, part: "certificate"},
		"a failing server": {want: hub.CodeUnreachable, part: "500", spoil: func(s *store) {
			failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }))
			s.t.Cleanup(failing.Close)
			s.url = failing.URL
		}},
		"a changed archive": {want: hub.CodeHashMismatch, part: "checksum", spoil: func(s *store) {
			s.write(latest, archiveName("v1.1.0"), pack(s.t, "parley", program("v6.6.6")))
		}},
		"a shortened archive": {want: hub.CodeHashMismatch, part: "checksum", spoil: func(s *store) {
			raw := s.read(latest, archiveName("v1.1.0"))
			s.write(latest, archiveName("v1.1.0"), raw[:len(raw)/2])
		}},
		"a download that breaks off": {want: hub.CodeUnreachable, part: "EOF", spoil: func(s *store) {
			files := http.FileServer(http.Dir(s.dir))
			breaking := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, ".tar.gz") {
					w.Header().Set("Content-Length", "100000")
					io.WriteString(w, "short")
					return
				}
				files.ServeHTTP(w, r)
			}))
			s.t.Cleanup(breaking.Close)
			s.url = breaking.URL
		}},
		"a missing archive": {want: hub.CodeNotFound, part: ".tar.gz", spoil: func(s *store) { os.Remove(filepath.Join(s.dir, latest, archiveName("v1.1.0"))) }},
		"no checksums":      {want: hub.CodeNotFound, part: "checksums.txt", spoil: func(s *store) { os.Remove(filepath.Join(s.dir, latest, "checksums.txt")) }},
		"an endless list":   {want: hub.CodeTooLarge, part: "more than", spoil: func(s *store) { s.write(latest, "checksums.txt", make([]byte, 2<<20)) }},
		"no archive for us": {want: hub.CodeNotFound, part: "has no program for", spoil: func(s *store) { s.write(latest, "checksums.txt", []byte("x\n")) }},
		"another release":   {tag: "v2.0.0", want: hub.CodeConflict, part: "has the release v1.1.0", spoil: func(s *store) { os.Rename(filepath.Join(s.dir, latest), filepath.Join(s.dir, "download/v2.0.0")) }},
		"no program in it":  {want: hub.CodeInvalid, part: "has no program", spoil: func(s *store) { s.release(latest, "v1.1.0", pack(s.t, "other", "x")) }},
		"no archive at all": {want: hub.CodeInvalid, part: "cannot be read", spoil: func(s *store) { s.release(latest, "v1.1.0", []byte("x")) }},
		"a program that fails": {want: hub.CodeInvalid, part: "does not run on this machine: it hurts", spoil: func(s *store) {
			s.release(latest, "v1.1.0", pack(s.t, "parley", "#!/bin/sh\necho it hurts >&2; exit 3\n"))
		}},
		"a program of another version": {want: hub.CodeConflict, part: `of version "v1.0.9"`, spoil: func(s *store) {
			s.release(latest, "v1.1.0", pack(s.t, "parley", program("v1.0.9")))
		}},
	} {
		t.Run(name+" changes nothing", func(t *testing.T) {
			s := newStore(t)
			s.add("v1.1.0", program("v1.1.0"))
			if c.spoil != nil {
				c.spoil(s)
			}
			if c.address != "" {
				s.url = c.address
			}
			dir := installed(t, "v1.0.0")
			err := install(t, upgrade.Source{Address: s.url}, c.tag, dir)
			if hub.CodeOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.part) {
				t.Errorf("got %s: %v; want %s with %q", hub.CodeOf(err), err, c.want, c.part)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"parley"}) || content(t, dir, "parley") != program("v1.0.0") {
				t.Errorf("the folder has %q", got)
			}
		})
	}
}

// release writes an archive with its right checksum.
func (s *store) release(folder, version string, archive []byte) {
	s.write(folder, archiveName(version), archive)
	s.write(folder, "checksums.txt", fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(archive), archiveName(version)))
}

// TestFolderThatCannotBeWritten has an upgrade refused before the download.
func TestFolderThatCannotBeWritten(t *testing.T) {
	s := newStore(t)
	s.add("v1.1.0", program("v1.1.0"))
	dir := filepath.Join(t.TempDir(), "missing") // root may write to a folder of any mode
	found, err := upgrade.Source{Address: s.url}.Find(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "latest")); err != nil {
		t.Fatal(err)
	}
	if _, err := (upgrade.Source{Address: s.url}).Fetch(t.Context(), found, dir); hub.CodeOf(err) != hub.CodeDenied {
		t.Errorf("got %v", err)
	}
}

// TestSignature verifies lists of checksums with keys of gpg.
func TestSignature(t *testing.T) {
	if _, err := exec.LookPath("gpg"); err != nil {
		acptest.Missing(t, "MISSING: gpg, which verifies signatures")
	}
	ours := newSigner(t, "ours")
	others := newSigner(t, "others")
	signed := func(t *testing.T, by *signer) *store {
		s := newStore(t)
		s.add("v1.1.0", program("v1.1.0"))
		s.write("latest/download", "checksums.txt.asc", by.sign(t, s.read("latest/download", "checksums.txt")))
		return s
	}

	t.Run("a release that is signed with the key is installed", func(t *testing.T) {
		dir := installed(t, "v1.0.0")
		if err := install(t, upgrade.Source{Address: signed(t, ours).url, Key: ours.public}, "", dir); err != nil {
			t.Fatal(err)
		}
		if got := content(t, dir, "parley"); got != program("v1.1.0") {
			t.Errorf("the program is %q", got)
		}
	})
	for name, c := range map[string]struct {
		spoil func(s *store)
		by    *signer
		key   string
		want  hub.Code
		part  string
	}{
		"another key":            {by: others, want: hub.CodeTampering, part: "not signed with"},
		"no signature":           {by: ours, want: hub.CodeTampering, part: "not signed", spoil: func(s *store) { os.Remove(filepath.Join(s.dir, "latest/download/checksums.txt.asc")) }},
		"a changed list":         {by: ours, want: hub.CodeTampering, part: "not signed with", spoil: func(s *store) { s.release("latest/download", "v1.1.0", pack(s.t, "parley", program("v1.1.0 "))) }},
		"a signature of nothing": {by: ours, want: hub.CodeTampering, part: "not signed with", spoil: func(s *store) { s.write("latest/download", "checksums.txt.asc", []byte("x")) }},
		"a key that is missing":  {by: ours, key: "/nonexistent", want: hub.CodeInvalid, part: "cannot read the key"},
		"a key that is none":     {by: ours, key: "/dev/null", want: hub.CodeInvalid, part: "cannot read the key"},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			s := signed(t, c.by)
			if c.spoil != nil {
				c.spoil(s)
			}
			key := ours.public
			if c.key != "" {
				key = c.key
			}
			dir := installed(t, "v1.0.0")
			err := install(t, upgrade.Source{Address: s.url, Key: key}, "", dir)
			if hub.CodeOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.part) {
				t.Errorf("got %s: %v; want %s with %q", hub.CodeOf(err), err, c.want, c.part)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"parley"}) {
				t.Errorf("the folder has %q", got)
			}
		})
	}
}

// A signer has a key of gpg in a folder of its own.
type signer struct{ home, public string }

func newSigner(t *testing.T, name string) *signer {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // short: gpg's socket is in it
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{home, filepath.Join(home, "public.asc")}
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // fails if none runs
		os.RemoveAll(home)
	})
	s.run(t, nil, "--passphrase", "", "--quick-generate-key", name+"@example.invalid", "ed25519", "sign", "never")
	if err := os.WriteFile(s.public, s.run(t, nil, "--armor", "--export"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// sign returns a signature of a text.
func (s *signer) sign(t *testing.T, text []byte) []byte {
	t.Helper()
	return s.run(t, text, "--armor", "--detach-sign")
}

func (s *signer) run(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("gpg", append([]string{"--homedir", s.home, "--batch", "--quiet"}, args...)...)
	cmd.Stdin = bytes.NewReader(in)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gpg %v: %v: %s", args, err, errOut.String())
	}
	return out
}

func TestVersions(t *testing.T) {
	ordered := []string{
		"v0.9.0", "v1.0.0-alpha", "v1.0.0-alpha.1", "v1.0.0-alpha.beta", "v1.0.0-beta.2", "v1.0.0-beta.11", "v1.0.0-rc.1",
		"v1.0.0", "v1.0.0-dirty", "v1.0.0-3-gabc1234", "v1.0.0-12-gabc1234", "v1.0.0-12-gabc1234-dirty", "v1.0.1", "v1.2.0", "v1.10.0", "2.0.0", "v10.0.0",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := upgrade.Older(a, b); got != (i < j) {
				t.Errorf("%s older than %s: got %v", a, b, got)
			}
		}
	}
	for _, other := range []string{"devel", "devel-0123456789ab", "", "abc123"} {
		if upgrade.Older(other, "v1.0.0") || upgrade.Older("v1.0.0", other) {
			t.Errorf("%q is ordered", other)
		}
	}
	if !upgrade.SameVersion("1.0.0", "v1.0.0") || upgrade.SameVersion("v1.0.0", "v1.0.1") {
		t.Error("the same version is found by its numbers")
	}
}

// TestManagerOf asks the package managers of this machine, with databases of the test's own.
func TestManagerOf(t *testing.T) {
	for path, want := range map[string]string{
		"/home/ana/.npm/_npx/1/node_modules/@parley-agents/parley-linux-x64/bin/parley": "npx @parley-agents/parley@latest",
		"/usr/lib/node_modules/@parley-agents/parley-linux-x64/bin/parley":              "npm install --global @parley-agents/parley@latest",
		"/opt/homebrew/Cellar/parley/1.0.0/bin/parley":                                  "brew upgrade parley",
		"/home/linuxbrew/.linuxbrew/Cellar/parley/1.0.0/bin/parley":                     "brew upgrade parley",
		"/nix/store/abc-parley/bin/parley":                                              "nix profile upgrade parley",
		"/snap/parley/1/bin/parley":                                                     "snap refresh parley",
		filepath.Join(t.TempDir(), "parley"):                                            "",
	} {
		if got, owned := upgrade.ManagerOf(t.Context(), path); got.Command != want || owned != (want != "") {
			t.Errorf("%s: got %+v, %v", path, got, owned)
		}
	}
	t.Run("dpkg", func(t *testing.T) {
		if _, err := exec.LookPath("dpkg-query"); err != nil {
			t.Skip("there is no dpkg")
		}
		dir := installed(t, "v1.0.0")
		database := t.TempDir()
		status := "Package: parley\nStatus: install ok installed\nMaintainer: a <a@example.invalid>\nArchitecture: all\nVersion: 1\nDescription: x\n"
		for name, text := range map[string]string{"status": status, "available": "", "info/format": "1\n", "info/parley.list": dir + "\n" + dir + "/parley\n"} {
			path := filepath.Join(database, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("DPKG_ADMINDIR", database)
		if got, owned := upgrade.ManagerOf(t.Context(), dir+"/parley"); !owned || got.Name != "dpkg" {
			t.Errorf("got %+v, %v", got, owned)
		}
		// A pattern that matches the file is not the file.
		if got, owned := upgrade.ManagerOf(t.Context(), dir+"/parl*"); owned {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("rpm", func(t *testing.T) {
		dir := installed(t, "v1.0.0")
		stub := "#!/bin/sh\n[ \"$*\" = \"--query --file " + dir + "/parley\" ]\n"
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "rpm"), []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin)
		if got, owned := upgrade.ManagerOf(t.Context(), dir+"/parley"); !owned || got.Name != "rpm" {
			t.Errorf("got %+v, %v", got, owned)
		}
	})
}

// FuzzVersions holds that the order of versions is one order.
func FuzzVersions(f *testing.F) {
	f.Add("v1.0.0-rc.1", "v1.0.0-3-gabc1234")
	f.Fuzz(func(t *testing.T, a, b string) {
		if upgrade.Older(a, b) && upgrade.Older(b, a) {
			t.Errorf("%q and %q are both older", a, b)
		}
		if upgrade.Older(a, a) {
			t.Errorf("%q is older than itself", a)
		}
	})
}

// TestRedirections has a server with TLS lead to another address.
func TestRedirections(t *testing.T) {
	plain := newStore(t)
	plain.add("v1.1.0", program("v1.1.0"))
	target := plain.url
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/there/") {
			http.StripPrefix("/there", http.FileServer(http.Dir(plain.dir))).ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, target+r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(secure.Close)
	usual := http.DefaultTransport
	http.DefaultTransport = secure.Client().Transport
	t.Cleanup(func() { http.DefaultTransport = usual })

	if _, err := (upgrade.Source{Address: secure.URL}).Find(t.Context(), ""); hub.CodeOf(err) != hub.CodeUnreachable || !strings.Contains(fmt.Sprint(err), "not encrypted") {
		t.Errorf("to an address without TLS: got %v", err)
	}
	target = secure.URL + "/there"
	if got, err := (upgrade.Source{Address: secure.URL}).Find(t.Context(), ""); err != nil || got.Version != "v1.1.0" {
		t.Errorf("to an address with TLS: got %+v, %v", got, err)
	}
}
