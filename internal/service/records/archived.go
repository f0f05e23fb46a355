package records

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// The form of archives, in their first line.
const (
	archiveFormat  = "parley-archive"
	archiveVersion = 1
)

// maxArchiveLine is how many bytes a line of an archive may have: a message to
// a great many, with the ledger of each.
const maxArchiveLine = 64 << 20

// An archiveLine is one line of an archive: first its form, then entries in
// order, then messages in the order of their ids, then the end. Exactly one of
// the pointers is set but in the first.
type archiveLine struct {
	Format  string           `json:"format,omitempty"`
	Version int              `json:"version,omitempty"`
	Entry   *hub.Entry       `json:"entry,omitempty"`
	Message *archivedMessage `json:"message,omitempty"`
	End     *archiveEnd      `json:"end,omitempty"`
}

// An archivedMessage is a message with what became of it.
type archivedMessage struct {
	ID         hub.EnvelopeID  `json:"id"`
	Envelope   json.RawMessage `json:"envelope"`
	Hop        int             `json:"hop,omitempty"`
	Cause      hub.EnvelopeID  `json:"cause,omitempty"`
	Parties    []archivedParty `json:"parties"`
	Deliveries []hub.Delivery  `json:"deliveries"`
}

// An archivedParty is somebody whom a message concerned.
type archivedParty struct {
	Agent  hub.AgentID    `json:"agent"`
	State  hub.PartyState `json:"state"`
	Hidden bool           `json:"hidden,omitempty"`
}

// An archiveEnd says what came before it.
type archiveEnd struct {
	First    int64    `json:"first"`
	Last     int64    `json:"last"`
	Cutoff   hub.Time `json:"cutoff"`
	Entries  int      `json:"entries"`
	Messages int      `json:"messages"`
}

// An archiveWriter writes lines and hashes them.
type archiveWriter struct {
	buf  *bufio.Writer
	hash hash.Hash
	line bytes.Buffer
}

func newArchiveWriter(w io.Writer) *archiveWriter {
	sum := sha256.New()
	return &archiveWriter{buf: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16), hash: sum}
}

func (w *archiveWriter) put(l archiveLine) error {
	w.line.Reset()
	if err := encodeLine(&w.line, l); err != nil {
		return err
	}
	_, err := w.buf.Write(w.line.Bytes())
	return err
}

// sum returns the hash of everything that was put.
func (w *archiveWriter) sum() (string, error) {
	if err := w.buf.Flush(); err != nil {
		return "", err
	}
	return hex.EncodeToString(w.hash.Sum(nil)), nil
}

// archivedCopy returns a message as it goes into an archive.
func archivedCopy(r hub.Reader, m hub.Message) (*archivedMessage, error) {
	out := &archivedMessage{ID: m.ID, Hop: m.Hop, Cause: m.Cause}
	parties, err := r.Parties(m.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range parties {
		out.Parties = append(out.Parties, archivedParty{p.Agent, p.State, p.Hidden})
	}
	slices.SortFunc(out.Parties, func(a, b archivedParty) int { return cmp.Compare(a.Agent, b.Agent) })
	if out.Deliveries, err = r.Deliveries(m.ID); err != nil {
		return nil, err
	}
	out.Envelope, err = m.Envelope.MarshalJSON()
	return out, err
}

// readArchive calls each with every line of an archive but the first, and
// returns the hash of the file. An error of each ends it.
func readArchive(path string, each func(archiveLine) error) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	lines := bufio.NewScanner(io.TeeReader(f, sum))
	lines.Buffer(nil, maxArchiveLine)
	for n := 1; lines.Scan(); n++ {
		l, err := decodeArchiveLine(lines.Bytes(), n == 1)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", n, err)
		}
		if n == 1 {
			continue
		}
		if err := each(l); err != nil {
			return "", err
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// decodeArchiveLine reads one line of an archive.
func decodeArchiveLine(raw []byte, first bool) (archiveLine, error) {
	var l archiveLine
	if err := json.Unmarshal(raw, &l); err != nil {
		return archiveLine{}, err
	}
	set := 0
	for _, is := range []bool{l.Entry != nil, l.Message != nil, l.End != nil} {
		if is {
			set++
		}
	}
	switch {
	case first && (set > 0 || l.Format != archiveFormat):
		return archiveLine{}, errors.New("it is not the beginning of an archive")
	case first && l.Version != archiveVersion:
		return archiveLine{}, fmt.Errorf("it is of version %d, this parley knows %d", l.Version, archiveVersion)
	case !first && set != 1:
		return archiveLine{}, errors.New("it is neither an entry nor a message nor the end")
	}
	return l, nil
}
