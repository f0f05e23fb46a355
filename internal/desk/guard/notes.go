package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// Dir is the folder of a home with the notes that wait, and the record of repositories.
const Dir = "guard"

// Notes is a folder in which notes for sessions wait, one file for each session. Notes that
// cannot be written or read are lost: they forbid nothing. "" keeps none.
type Notes string

// notesAge is the age after which notes of a session that never asked again are removed.
const notesAge = 24 * time.Hour

// maxWaiting is the number of notes that wait for one session at most.
const maxWaiting = 20

func (n Notes) file(cli, session string) string {
	sum := sha256.Sum256([]byte(cli + "\x00" + session))
	return filepath.Join(string(n), hex.EncodeToString(sum[:8])+".notes")
}

// keep adds notes for a session.
func (n Notes) keep(cli, session string, notes []string) {
	if n == "" || len(notes) == 0 {
		return
	}
	all := append(n.read(cli, session), notes...)
	all = all[max(0, len(all)-maxWaiting):]
	raw, err := json.Marshal(all)
	if err != nil || os.MkdirAll(string(n), 0o700) != nil {
		return
	}
	n.prune()
	os.WriteFile(n.file(cli, session), raw, 0o600) // else they are lost
}

// take returns the notes for a session and removes them.
func (n Notes) take(cli, session string) []string {
	if n == "" {
		return nil
	}
	notes := n.read(cli, session)
	if notes != nil && os.Remove(n.file(cli, session)) != nil {
		return nil // another hook has taken them
	}
	return notes
}

// Drop removes the notes of a session that is over.
func (n Notes) Drop(cli, session string) { n.take(cli, session) }

func (n Notes) read(cli, session string) (notes []string) {
	raw, err := os.ReadFile(n.file(cli, session))
	if err != nil || json.Unmarshal(raw, &notes) != nil {
		return nil
	}
	return notes
}

// prune removes the notes of sessions that are long over.
func (n Notes) prune() {
	files, err := filepath.Glob(filepath.Join(string(n), "*.notes"))
	if err != nil {
		return
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > notesAge {
			os.Remove(file)
		}
	}
}
