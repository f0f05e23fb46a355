package upgrade

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// beforeSuffix ends the name of the program from before the last upgrade.
const beforeSuffix = ".before"

// Names of files that an upgrade removes at its end: draftSuffix and a process are behind the name
// of the program in a copy of it, and freshPrefix begins the name of a downloaded program.
const (
	draftSuffix = ".draft-"
	freshPrefix = ".parley-upgrade-"
)

// freshTime is longer than any upgrade takes from the first byte of its download.
const freshTime = time.Hour

// Replace puts a new program in the place of another one, which stays beside it for [Back]. After
// a crash one of the two is there, whole. A program with the content of the new one stays as it is:
// a second upgrade to the same release, even at the same time, leaves the older program for Back.
func Replace(ctx context.Context, program, fresh string) error {
	unlock, err := lock(ctx, filepath.Dir(program))
	if err != nil {
		return err
	}
	defer unlock()
	removeDrafts(program)
	if isSame, err := sameContent(program, fresh); err != nil || isSame {
		return err
	}

	draft, err := copyOf(ctx, program)
	if err != nil {
		return err
	}
	if err := durable.Rename(draft, program+beforeSuffix); err != nil {
		os.Remove(draft)
		return err
	}
	return swap(program, fresh)
}

// Back restores the program from before the last upgrade. The program that it replaces becomes the
// one from before. It reports CodeNotFound if there was no upgrade.
func Back(ctx context.Context, program string) error {
	unlock, err := lock(ctx, filepath.Dir(program))
	if err != nil {
		return err
	}
	defer unlock()
	removeDrafts(program)

	before := program + beforeSuffix
	if _, err := os.Stat(before); errors.Is(err, fs.ErrNotExist) {
		return hub.Errorf(hub.CodeNotFound, "upgrade.Back", "there is no %s: this program was not upgraded with this command", before)
	}
	draft, err := copyOf(ctx, program)
	if err != nil {
		return err
	}
	if err := swap(program, before); err != nil {
		os.Remove(draft)
		return err
	}
	return durable.Rename(draft, before)
}

// removeDrafts removes the files of upgrades that were killed. The caller has the lock of the folder,
// so that no copy of the program belongs to another process; an older download belongs to none either.
func removeDrafts(program string) {
	folder := filepath.Dir(program)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // the folder may be one that its user cannot list
	}
	for _, e := range entries {
		isDraft := strings.HasPrefix(e.Name(), filepath.Base(program)+draftSuffix)
		if strings.HasPrefix(e.Name(), freshPrefix) {
			info, err := e.Info()
			isDraft = err == nil && time.Since(info.ModTime()) > freshTime
		}
		if isDraft {
			os.Remove(filepath.Join(folder, e.Name())) // if not, the next upgrade tries again
		}
	}
}

// sameContent reports whether two programs are equal.
func sameContent(a, b string) (bool, error) {
	first, err := digest(a)
	if err != nil {
		return false, err
	}
	second, err := digest(b)
	return first == second, err
}

// digest returns the SHA-256 of a file.
func digest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

// copyOf copies a program to a new file beside it.
func copyOf(ctx context.Context, program string) (draft string, err error) {
	draft = fmt.Sprintf("%s%s%d", program, draftSuffix, os.Getpid())
	if err := errors.Join(durable.Copy(ctx, program, draft), os.Chmod(draft, 0o755)); err != nil {
		os.Remove(draft)
		return "", hub.Errorf(hub.CodeDenied, "upgrade.Replace", "cannot copy %s, to keep the old program beside the new one: %w", program, err)
	}
	return draft, nil
}

// swap renames a new program to the name of another one. Windows refuses that while the program
// runs, but lets it be renamed.
func swap(program, fresh string) error {
	if runtime.GOOS != "windows" {
		return durable.Rename(fresh, program)
	}
	aside := program + ".old"
	os.Remove(aside) // of an earlier upgrade; it may still run
	if err := os.Rename(program, aside); err != nil {
		return err
	}
	if err := durable.Rename(fresh, program); err != nil {
		return errors.Join(err, os.Rename(aside, program))
	}
	return nil
}

// A Manager is a package manager that owns a program.
type Manager struct {
	Name    string // such as apt
	Command string // with which its user upgrades the program
}

// ManagerOf returns the package manager that owns a program, and false if none is known to. The
// path of the program has no symbolic links.
func ManagerOf(ctx context.Context, program string) (Manager, bool) {
	slashed := filepath.ToSlash(program)
	switch {
	case strings.Contains(slashed, "/_npx/"):
		return Manager{"npx", "npx @parley-agents/parley@latest"}, true
	case strings.Contains(slashed, "/node_modules/"):
		return Manager{"npm", "npm install --global @parley-agents/parley@latest"}, true
	case strings.Contains(slashed, "/Cellar/"):
		return Manager{"Homebrew", "brew upgrade parley"}, true
	case strings.HasPrefix(slashed, "/nix/store/"):
		return Manager{"Nix", "nix profile upgrade parley"}, true
	case strings.HasPrefix(slashed, "/snap/"):
		return Manager{"snap", "snap refresh parley"}, true
	case ownedByDeb(ctx, program):
		return Manager{"dpkg", "sudo apt install ./parley_VERSION_ARCH.deb"}, true
	case exec.CommandContext(ctx, "rpm", "--query", "--file", program).Run() == nil:
		return Manager{"rpm", "sudo rpm -U parley-VERSION.ARCH.rpm"}, true
	}
	return Manager{}, false
}

// ownedByDeb reports whether a deb package has a program. dpkg-query takes a pattern, so that its
// answer may be about other files.
func ownedByDeb(ctx context.Context, program string) bool {
	out, err := exec.CommandContext(ctx, "dpkg-query", "--search", program).Output()
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasSuffix(strings.TrimSpace(line), ": "+program) {
			return true
		}
	}
	return false
}
