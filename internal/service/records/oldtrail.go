package records

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
)

// oldTrailFiles returns the files of the trail that the first version kept: one
// of messages and one of handoffs, each in a folder of its own. A line was an
// entry with its message or handoff beside its members.
func oldTrailFiles(dir string) ([]string, error) {
	messages, err := fs.Glob(os.DirFS(dir), "messages/messages*")
	if err != nil {
		return nil, err
	}
	handoffs, err := fs.Glob(os.DirFS(dir), "handoffs/handoffs*")
	return append(messages, handoffs...), err
}

// convertOldTrail removes an old trail after it was compared with the store: the
// segments and the archives hold all of it. A file that contradicts the store is
// set aside.
func (t *trail) convertOldTrail(r hub.Reader, archived int64) error {
	files, err := oldTrailFiles(t.dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		path := filepath.Join(t.dir, name)
		fits, err := fitsJournal(r, path, archived)
		if err != nil {
			return err
		}
		if fits {
			err = os.Remove(path)
		} else {
			err = t.setAside(path, filepath.Join(t.dir, filepath.Base(path)+conflict+"old"), "it does not match the journal")
		}
		if err != nil {
			return err
		}
		os.Remove(filepath.Dir(path)) // if it is empty
	}
	return nil
}

// fitsJournal reports whether the entries in a file of an old trail are those of
// the store. A torn last line is passed over.
func fitsJournal(r hub.Reader, path string, archived int64) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for lines := json.NewDecoder(f); ; {
		var e hub.Entry
		err := lines.Decode(&e)
		switch {
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			return true, nil
		case err != nil || e.Seq <= 0:
			return false, nil
		case e.Seq <= archived:
			continue
		}
		stored, err := entryAt(r, e.Seq)
		if err != nil || !sameEntry(e, stored) {
			return false, err
		}
	}
}
