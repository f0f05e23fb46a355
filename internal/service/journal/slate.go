package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A slate is a file with the calls that are counted and not yet in the journal, so that
// a kill of the hub does not lose them. It has a record for each kind: a number of fixed
// width, which is overwritten in place, and the kind. So a flood of calls costs one small
// write for each, and no more space. The file is not synced: a kill leaves it as it is, a
// power cut may not.
type slate struct {
	path string
	file *os.File       // nil while there is no record
	at   map[kind]int64 // the place of each record
	size int64
}

// A slateRecord is the part of a record behind its number.
type slateRecord struct {
	Action actions.Action `json:"action"`
	Actor  hub.AgentID    `json:"actor"`
	Code   hub.Code       `json:"code,omitempty"`
	Token  string         `json:"token,omitempty"`
	Op     string         `json:"op"` // of the first call
}

// slateNumber is the width of the number of a record, with the blank behind it.
const slateNumber = 11

// set writes the number of calls of a kind.
func (s *slate) set(k kind, op string, n int) (err error) {
	number := fmt.Appendf(nil, "%0*d ", slateNumber-1, n)
	if place, ok := s.at[k]; ok {
		_, err = s.file.WriteAt(number, place)
		return err
	}
	if s.file == nil {
		if s.file, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return err
		}
		s.at = map[kind]int64{}
	}
	raw, _ := json.Marshal(slateRecord{k.action, k.actor, k.code, k.token, op}) // strings: cannot fail
	record := append(append(number, raw...), '\n')
	if _, err := s.file.WriteAt(record, s.size); err != nil {
		return err
	}
	s.at[k] = s.size
	s.size += int64(len(record))
	return nil
}

// move gives the file, which must exist, another name.
func (s *slate) move(path string) (err error) {
	if err := errors.Join(s.file.Close(), os.Rename(s.path, path)); err != nil { // an open file cannot be renamed everywhere
		return err
	}
	s.path = path
	s.file, err = os.OpenFile(path, os.O_RDWR, 0)
	return err
}

// remove removes the file.
func (s *slate) remove() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Close(), os.Remove(s.path))
	s.file = nil
	s.at = nil
	s.size = 0
	return err
}

// readSlate adds the calls of a file that a killed hub left to counts. A record that was
// not written whole counts for nothing.
func readSlate(path string, counts map[kind]*count) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		line := lines.Bytes()
		if len(line) < slateNumber {
			continue
		}
		n, notNumber := strconv.Atoi(string(line[:slateNumber-1]))
		var r slateRecord
		if notNumber != nil || n <= 0 || json.Unmarshal(line[slateNumber:], &r) != nil {
			continue
		}
		k := kind{action: r.Action, actor: r.Actor, code: r.Code, token: r.Token}
		if counts[k] == nil {
			counts[k] = &count{op: r.Op}
		}
		counts[k].n += n
	}
	return err
}
