package records

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// headName is the file that holds the head of the journal, beside the trail.
const headName = "head.json"

// readHead reads a head file. It returns fs.ErrNotExist if there is none.
func readHead(path string) (head hub.Head, err error) {
	f, err := os.Open(path)
	if err != nil {
		return head, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 4096))
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

// checkHead compares a head with the store, and returns a sentence if they
// contradict each other. Of archived entries only the last of each archive is
// known.
func checkHead(h hub.Head, r hub.Reader, archives []hub.Archive) (string, error) {
	const replaced = "the journal was cut off before it and rewritten"
	newest, err := hub.HeadOf(r)
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
	if h.Seq > newest.Seq {
		return "the tail of the journal was cut off", nil
	}
	e, err := entryAt(r, h.Seq)
	if err != nil || e.Hash == h.Hash {
		return "", err
	}
	return replaced, nil
}
