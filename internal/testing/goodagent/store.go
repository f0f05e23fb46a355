package goodagent

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/parley-agents/parley/protocol/acp"
)

// A record is a session as it is kept.
type record struct {
	ID          acp.SessionID
	Created     int64 // orders the list
	Dir         string
	Directories []string
	Title       string
	UpdatedAt   string
	Mode, Model string
	Verbose     bool
	Allowed     []string // kinds of work that need no question any more
	Refused     []string // kinds of work that need no question and are not done
	Said        []message
	Known       []string // results of tools and contents of resources
}

// A message is something that was said.
type message struct{ Role, ID, Text string }

// cursor returns where the page after the record begins.
func (r *record) cursor() string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt(nil, r.Created, 36))
}

// cursorOf returns the position of a cursor; "" is the beginning.
func cursorOf(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(raw), 36, 64)
}

// A store keeps sessions in files.
type store struct {
	dir string
	mu  sync.Mutex
}

func newStore(home string) *store { return &store{dir: filepath.Join(home, ".goodagent")} }

func (s *store) path(id acp.SessionID) string {
	return filepath.Join(s.dir, base64.RawURLEncoding.EncodeToString([]byte(id))+".json")
}

// put keeps a record as it is now.
func (s *store) put(r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC()
	if r.Created == 0 {
		r.Created = now.UnixNano()
	}
	r.UpdatedAt = now.Format(time.RFC3339)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.path(r.ID), encode(r), 0o600)
}

func (s *store) get(id acp.SessionID) (*record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := os.ReadFile(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, err
	}
	r := &record{}
	return r, json.Unmarshal(raw, r)
}

// remove forgets a session, if there is one.
func (s *store) remove(id acp.SessionID) error {
	err := os.Remove(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// all returns the sessions in the order in which they were made.
func (s *store) all() (all []*record, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		r := &record{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Compare(a.Created, b.Created) })
	return all, nil
}
