package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// headName is the file that holds the head, in the folder of the trail.
const headName = "head.json"

// entryAt returns the entry with a number, or one with number 0 if it is not in
// the store.
func entryAt(r hub.Reader, seq int64) (hub.Entry, error) {
	entries, err := r.Journal(hub.JournalQuery{After: seq - 1, Limit: 1})
	if err != nil || len(entries) == 0 || entries[0].Seq != seq {
		return hub.Entry{}, err
	}
	return entries[0], nil
}

// readHead reads a head file. It returns fs.ErrNotExist if there is none.
func readHead(path string) (hub.Head, error) {
	const most = 4096
	var head hub.Head
	info, err := os.Stat(path)
	if err != nil {
		return head, err
	}
	if info.Size() > most {
		return head, fmt.Errorf("it has %d bytes, more than a head has", info.Size())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return head, err
	}
	if err := json.Unmarshal(raw, &head); err != nil || head.Seq < 0 {
		return hub.Head{}, errors.New("it is not a head")
	}
	return head, nil
}

// A headFile is a head as it was found, or why it could not be read.
type headFile struct {
	hub.Head
	name string
	err  error
}

// readHeads reads the head file and those that were set aside.
func readHeads(dir string) ([]headFile, error) {
	if dir == "" {
		return nil, nil
	}
	names, err := setAsideIn(dir)
	if err != nil {
		return nil, err
	}
	var all []headFile
	for _, name := range append(names, headName) {
		head, err := readHead(filepath.Join(dir, name))
		all = append(all, headFile{head, name, err})
	}
	return all, nil
}

func writeHead(path string, head hub.Head) error {
	raw, err := json.Marshal(head)
	if err != nil {
		return err
	}
	return writeWhole(path, append(raw, '\n'))
}

// A headVerdict is what the store says to a head that was kept outside it.
type headVerdict string

const (
	headHolds    headVerdict = ""
	headCut      headVerdict = "the tail of the journal was cut off"
	headReplaced headVerdict = "the journal was cut off before it and written anew"
)

// judge compares a head with the store. Of what lies in archives only the last
// entry of each is known.
func judge(h hub.Head, r hub.Reader, archives []hub.Archive) (headVerdict, error) {
	newest, _, err := r.JournalHead()
	if err != nil || h.Seq == 0 {
		return headHolds, err
	}
	for _, a := range archives {
		if h.Seq <= a.Seq {
			if h.Seq == a.Seq && h.Hash != a.Hash {
				return headReplaced, nil
			}
			return headHolds, nil
		}
	}
	if h.Seq > newest {
		return headCut, nil
	}
	e, err := entryAt(r, h.Seq)
	if err != nil || e.Hash == h.Hash {
		return headHolds, err
	}
	return headReplaced, nil
}

// conflict is part of the name of a file that was set aside as evidence.
const conflict = ".conflict-"

// setAside renames a file that contradicts the store, so that it is neither
// written to nor lost.
func setAside(path string, seq int64) (string, error) {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s%s%d", path, conflict, seq)
		if n > 0 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, os.Rename(path, name)
		} else if err != nil {
			return "", err
		}
	}
}

// setAsideIn returns the names of files in a folder that were set aside.
func setAsideIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if strings.Contains(e.Name(), conflict) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
