// Package upgrade replaces a program with another release of it.
//
// A release is a folder of files at an address: archives by platform, checksums.txt with their
// digests, and perhaps checksums.txt.asc, its signature. [Source.Find] reads the list, [Source.Fetch]
// downloads and verifies the program, and [Replace] puts it in the place of the one that is there,
// which stays beside it for [Back]. [ManagerOf] names the package manager that owns a program, which
// must not be replaced behind its back.
//
// Every failure leaves the program as it was. A program that runs goes on with its old content.
package upgrade

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// Names of a release.
const (
	sumsFile      = "checksums.txt"
	signatureFile = "checksums.txt.asc"
)

// Bounds of downloads in bytes.
const (
	maxSums    = 1 << 20
	maxArchive = 256 << 20
)

// Bounds of time: downloadTime for one file, tryTime for the first start of a downloaded program.
const (
	downloadTime = 10 * time.Minute
	tryTime      = 30 * time.Second
)

// A Source has releases: that of tag T at ADDRESS/download/T, the newest at
// ADDRESS/latest/download.
type Source struct {
	Address string
	Key     string // file with the public gpg key that must have signed the checksums; "" needs no signature
}

// A Release is the archive of one release for this machine.
type Release struct {
	Version string // such as v1.2.3
	Archive string // its file name
	SHA256  string
	from    string // the address of its folder
}

// tagForm is the form of the tag of a release. It becomes a part of an address.
var tagForm = pattern.New(`^v[0-9][0-9A-Za-z.+-]*$`)

// archiveLine matches the line of an archive in the list of checksums.
var archiveLine = pattern.New(`^([0-9a-f]{64}) [ *](parley_([^ /]+)_(\w+)_(\w+)\.(?:tar\.gz|zip))$`)

// Find returns the release with a tag, such as v1.2.3, or the newest one if the tag is empty.
func (s Source) Find(ctx context.Context, tag string) (Release, error) {
	const op = "upgrade.Find"
	if tag != "" && !tagForm().MatchString(tag) {
		return Release{}, hub.Errorf(hub.CodeInvalid, op, "%q is not a version such as v1.2.3", tag)
	}
	if err := s.check(); err != nil {
		return Release{}, err
	}
	from := strings.TrimSuffix(s.Address, "/") + "/latest/download"
	if tag != "" {
		from = strings.TrimSuffix(s.Address, "/") + "/download/" + tag
	}

	sums, err := s.get(ctx, from+"/"+sumsFile, maxSums)
	if err != nil {
		return Release{}, err
	}
	if s.Key != "" {
		if err := s.verify(ctx, from, sums); err != nil {
			return Release{}, err
		}
	}

	for line := range strings.Lines(string(sums)) {
		m := archiveLine().FindStringSubmatch(strings.TrimSpace(line))
		isOurs := m != nil && m[4] == runtime.GOOS && m[5] == runtime.GOARCH
		if !isOurs {
			continue
		}
		// The list of another release, signed or not, must not pass as that of the tag.
		found := Release{Version: "v" + m[3], Archive: m[2], SHA256: m[1], from: from}
		if tag != "" && found.Version != tag {
			return Release{}, hub.Errorf(hub.CodeConflict, op, "%s has the release %s, not %s", from, found.Version, tag)
		}
		return found, nil
	}
	return Release{}, hub.Errorf(hub.CodeNotFound, op, "the release has no program for %s on %s", runtime.GOOS, runtime.GOARCH)
}

// check refuses an address without TLS: anybody on the way could replace a release together with its
// checksums. A signature makes that impossible, and loopback needs no TLS.
func (s Source) check() error {
	const op = "upgrade.Find"
	at, err := url.Parse(s.Address)
	isAddress := err == nil && at.Host != "" && (at.Scheme == "https" || at.Scheme == "http")
	switch {
	case !isAddress:
		return hub.Errorf(hub.CodeInvalid, op, "%q is not an address for downloads; it must begin with https://", s.Address)
	case at.Scheme == "https" || s.Key != "" || isLoopback(at.Hostname()):
		return nil
	}
	return hub.Errorf(hub.CodePolicy, op, "%s is not encrypted", s.Address).WithHint("use an address with https, or verify the signature with --key")
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// client returns the client for the files of a release. Without a key it follows no redirect from
// an encrypted address to one that is not.
func (s Source) client() *http.Client {
	return &http.Client{
		Timeout: downloadTime,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 10:
				return errors.New("it redirects too often")
			case s.Key == "" && req.URL.Scheme != "https" && via[0].URL.Scheme == "https":
				return fmt.Errorf("it redirects to %s, which is not encrypted", req.URL)
			}
			return nil
		},
	}
}

// get downloads a file of bounded size.
func (s Source) get(ctx context.Context, address string, most int64) ([]byte, error) {
	const op = "upgrade.get"
	failed := func(err error) error {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the address a second time
		}
		return hub.Errorf(hub.CodeUnreachable, op, "cannot download %s: %w", address, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, failed(err)
	}
	res, err := s.client().Do(req)
	if err != nil {
		return nil, failed(err)
	}
	defer res.Body.Close()

	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, hub.Errorf(hub.CodeNotFound, op, "there is no %s", address)
	case res.StatusCode != http.StatusOK:
		return nil, failed(errors.New(res.Status))
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return nil, failed(err)
	}
	if int64(len(content)) > most {
		return nil, hub.Errorf(hub.CodeTooLarge, op, "%s has more than %d bytes", address, most)
	}
	return content, nil
}

// goodSignature is the line of gpg for a signature whose key is neither expired nor revoked.
const goodSignature = "[GNUPG:] GOODSIG "

// verify compares the checksums with their signature. gpg gets a folder of its own, in which no
// other key is.
func (s Source) verify(ctx context.Context, from string, sums []byte) error {
	const op = "upgrade.verify"
	if _, err := os.Stat(s.Key); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "cannot read the key: %w", err)
	}
	if _, err := exec.LookPath("gpg"); err != nil {
		return hub.Errorf(hub.CodeNotFound, op, "gpg, which verifies the signature, is not installed")
	}
	signature, err := s.get(ctx, from+"/"+signatureFile, maxSums)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Errorf(hub.CodeTampering, op, "the release is not signed: %w", err)
	}
	if err != nil {
		return err
	}

	home, err := os.MkdirTemp("", "parley-upgrade-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	file := filepath.Join(home, signatureFile)
	if err := os.WriteFile(file, signature, 0o600); err != nil {
		return err
	}

	own := []string{"--homedir", home, "--batch", "--quiet", "--no-autostart"}
	keyring := exec.CommandContext(ctx, "gpg", append(own, "--import", s.Key)...)
	if out, err := keyring.CombinedOutput(); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "gpg cannot read the key %s: %s", s.Key, firstLine(out, err))
	}
	check := exec.CommandContext(ctx, "gpg", append(own, "--status-fd", "1", "--verify", file, "-")...)
	check.Stdin = bytes.NewReader(sums)
	status, err := check.Output()
	switch {
	case err != nil:
		return hub.Errorf(hub.CodeTampering, op, "the release is not signed with %s", s.Key)
	case !strings.Contains("\n"+string(status), "\n"+goodSignature):
		return hub.Errorf(hub.CodeTampering, op, "the signature of the release is no longer valid: the key expired or was revoked")
	}
	return nil
}

// firstLine returns the first line of the output of a command that failed, or its error.
func firstLine(out []byte, err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if line == "" {
		return err.Error()
	}
	return line
}

// Fetch downloads the program of a release into a new file in a folder, verifies its checksum and
// starts it once. The caller removes the file. It reports CodeDenied, before it downloads, if the
// folder cannot be written to.
func (s Source) Fetch(ctx context.Context, r Release, folder string) (program string, err error) {
	const op = "upgrade.Fetch"
	file, err := os.CreateTemp(folder, freshPrefix+"*"+filepath.Ext(programName()))
	if err != nil {
		return "", hub.Errorf(hub.CodeDenied, op, "cannot write to %s: %w", folder, err).WithHint("run the command as the owner of the program")
	}
	defer func() {
		file.Close() // a second time does no harm
		if err != nil {
			os.Remove(file.Name())
		}
	}()

	archive, err := s.get(ctx, r.from+"/"+r.Archive, maxArchive)
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != r.SHA256 {
		return "", hub.Errorf(hub.CodeHashMismatch, op, "the checksum of %s is wrong; nothing was changed", r.Archive)
	}
	content, err := unpack(r.Archive, archive)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "%s cannot be read: %w", r.Archive, err)
	}

	_, err = file.Write(content)
	if err := errors.Join(err, file.Chmod(0o755), file.Close(), durable.SyncFile(file.Name())); err != nil {
		return "", err
	}
	return file.Name(), try(ctx, file.Name(), r)
}

// try starts a new program once, and compares its version with that of the release.
func try(ctx context.Context, program string, r Release) error {
	const op = "upgrade.Fetch"
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "version", "--json")
	cmd.Stdout = &out
	cmd.Stderr = &errOut
	if err := cmd.Run(); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "the new program does not run on this machine: %s", firstLine(errOut.Bytes(), err))
	}
	var said struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(out.Bytes(), &said); err != nil || !SameVersion(said.Version, r.Version) {
		return hub.Errorf(hub.CodeConflict, op, "%s has the program of version %q, not %s", r.Archive, said.Version, r.Version)
	}
	return nil
}

// programName is the name of the program in an archive.
func programName() string {
	if runtime.GOOS == "windows" {
		return "parley.exe"
	}
	return "parley"
}

// errNoProgram is the error for an archive without the program.
var errNoProgram = errors.New("it has no program")

// unpack returns the program in an archive.
func unpack(name string, archive []byte) ([]byte, error) {
	if strings.HasSuffix(name, ".zip") {
		return unzip(archive)
	}
	packed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	files := tar.NewReader(packed)
	for {
		header, err := files.Next()
		switch {
		case err == io.EOF:
			return nil, errNoProgram
		case err != nil:
			return nil, err
		case header.Typeflag == tar.TypeReg && path.Base(header.Name) == programName():
			return bounded(files)
		}
	}
}

// unzip is unpack for the archives of Windows.
func unzip(archive []byte) ([]byte, error) {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	for _, f := range files.File {
		if path.Base(f.Name) != programName() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return bounded(r)
	}
	return nil, errNoProgram
}

// bounded reads a program of at most maxArchive bytes.
func bounded(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxArchive+1))
	if err == nil && len(content) > maxArchive {
		err = fmt.Errorf("the program has more than %d bytes", maxArchive)
	}
	return content, err
}
