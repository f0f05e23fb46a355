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
	"github.com/parley-agents/parley/internal/durable"
)

// headName is the file that holds the head of the journal, beside the trail.
const headName = "head.json"

// conflict is part of the name of a file that was set aside as evidence.
const conflict = ".conflict-"

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

func writeHead(path string, head hub.Head) error {
	raw, err := json.Marshal(head)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(raw, '\n'), 0o600)
}

// A headFile is a head as it was read, or the reason why it could not be.
type headFile struct {
	hub.Head
	name string
	err  error
}

// readHeads reads the head file and those that were set aside.
func readHeads(dir string) ([]headFile, error) {
	names, err := setAsideIn(dir)
	if err != nil {
		return nil, err
	}
	var all []headFile
	for _, name := range append(names, headName) {
		if strings.HasPrefix(name, headName) {
			head, err := readHead(filepath.Join(dir, name))
			all = append(all, headFile{head, name, err})
		}
	}
	return all, nil
}

// checkHead compares a head with the store, and returns a sentence if they
// contradict each other. Of archived entries only the last of each archive is
// known.
func checkHead(h hub.Head, r hub.Reader, archives []hub.Archive) (string, error) {
	const replaced = "the journal was cut off before it and written anew"
	newest, _, err := r.JournalHead()
	if err != nil || h.Seq == 0 {
		return "", err
	}
	for _, a := range archives {
		switch {
		case h.Seq == a.Seq && h.Hash != a.Hash:
			return replaced, nil
		case h.Seq <= a.Seq:
			return "", nil
		}
	}
	if h.Seq > newest {
		return "the tail of the journal was cut off", nil
	}
	e, err := entryAt(r, h.Seq)
	if err != nil || e.Hash == h.Hash {
		return "", err
	}
	return replaced, nil
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
