package guard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/internal/ground/durable"
)

// A record has the repositories that the guard of a home knows, by their hooks folders.
type record struct {
	Installed []string `json:"installed"` // whose hook calls the guard
}

func recordFile(home string) string { return filepath.Join(home, Dir, "repositories.json") }

func readRecord(home string) (r record) {
	raw, err := os.ReadFile(recordFile(home))
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return record{}
	}
	return r
}

func (r record) save(home string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(home, Dir), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(recordFile(home), append(raw, '\n'), 0o600)
}

// Note records that a hook calls the guard, or does no longer.
func Note(home string, h GitHook, installed bool) error {
	r := readRecord(home)
	r.Installed = slices.DeleteFunc(r.Installed, func(folder string) bool { return folder == h.Folder })
	if installed {
		r.Installed = append(r.Installed, h.Folder)
	}
	return r.save(home)
}

// Installed returns the hooks folders of the repositories whose hook calls the guard of a home.
func Installed(home string) []string { return readRecord(home).Installed }
