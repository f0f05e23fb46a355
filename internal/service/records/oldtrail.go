package records

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/durable"
)

// The first version kept a trail of messages and one of handoffs, each in a
// folder of its own. A line was an entry with its message or handoff beside its
// members. All of that is in the store or in archives, so that the old trail is
// compared with the store once and then removed. A file that contradicts the
// store is evidence and is set aside.

// oldTrailFiles returns the files of an old trail.
func oldTrailFiles(dir string) (files []string, err error) {
	for _, family := range []string{"messages", "handoffs"} {
		found, err := filepath.Glob(filepath.Join(dir, family, family+"*"))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// checkOldTrail compares a file of an old trail with the store, and returns the
// number of the first line whose entry the store contradicts, or 0. A torn last
// line is passed over.
func checkOldTrail(r hub.Reader, path string, archived int64) (contradicts int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	lines.Split(splitLines)
	for n := int64(1); lines.Scan(); n++ {
		var e hub.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return n, nil
		}
		if e.Seq > 0 && e.Seq <= archived {
			continue
		}
		stored, err := entryAt(r, e.Seq)
		if err != nil {
			return 0, err
		}
		if !sameEntry(e, stored) {
			return n, nil
		}
	}
	return 0, lines.Err()
}

// convertOldTrail removes an old trail after it was compared with the store.
func convertOldTrail(r hub.Reader, dir string, archived int64, log *slog.Logger) error {
	files, err := oldTrailFiles(dir)
	if err != nil {
		return err
	}
	for _, path := range files {
		n, err := checkOldTrail(r, path, archived)
		if err != nil {
			return err
		}
		if n == 0 {
			err = os.Remove(path)
		} else {
			name := filepath.Join(dir, filepath.Base(path)+conflict+"old")
			log.Error("a file of an old trail contradicts the journal, it was set aside", "op", "records.Trail", "line", n, "file", name)
			err = durable.Rename(path, name)
		}
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Dir(path)); err == nil { // the folder is empty
			log.Info("the old trail was converted", "op", "records.Trail", "folder", filepath.Dir(path))
		}
	}
	return nil
}

// checkOldTrails reports the files of an old trail that contradict the store.
// A hub that starts converts them, so that there is nothing to report then.
func (v *verifier) checkOldTrails(r hub.Reader) error {
	files, err := oldTrailFiles(v.folders.Trail)
	if err != nil {
		return err
	}
	archived, _ := v.archived()
	for _, path := range files {
		n, err := checkOldTrail(r, path, archived)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if n > 0 {
			v.find(filepath.Base(path), "line %d of the old trail contradicts the journal", n)
		}
	}
	return nil
}
