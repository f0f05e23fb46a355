package evidence

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/parley-agents/parley/hub"
)

const (
	minCommit = 7       // digits that an abbreviated commit must have
	maxCommit = 1 << 20 // bytes of a commit object
)

// commit returns the full name of a commit that exists. An object whose content does
// not hash to its name counts as missing.
func (s *scratch) commit(ctx context.Context, name string) (string, error) {
	const op = "evidence.Repository"
	var out []byte
	err := s.run(ctx, []byte(name+"\n"), func(r io.Reader) (err error) {
		out, err = io.ReadAll(io.LimitReader(r, maxCommit+1))
		if err == nil && len(out) > maxCommit {
			err = hub.Errorf(hub.CodeTooLarge, op, "%s names an object larger than %d bytes", show(name), maxCommit)
		}
		return err
	}, "cat-file", "--batch")
	var exit *exitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	head, body, _ := bytes.Cut(out, []byte("\n"))
	words := strings.Fields(string(head))
	switch {
	case len(words) == 2 && words[1] == "ambiguous":
		return "", hub.Errorf(hub.CodeConflict, op, "several objects have names that begin with %s", show(name))
	case len(words) == 3 && objectID(words[0]) && words[1] != "commit":
		return "", hub.Errorf(hub.CodeConflict, op, "%s is a %s, not a commit", show(name), words[1])
	case len(words) == 3 && objectID(words[0]) && isObject(words[0], "commit", bytes.TrimSuffix(body, []byte("\n"))):
		return words[0], nil
	case s.partial:
		return "", hub.Errorf(hub.CodeNotEnabled, op, "commit %s is not in this partial clone, and nothing is fetched", show(name))
	}
	return "", hub.Errorf(hub.CodeNotFound, op, "commit %s is not there, or cannot be read", show(name))
}

// isObject reports whether an object with that content has that name.
func isObject(id, kind string, content []byte) bool {
	return hashOf(len(id), kind, content) == id
}

// objectHash returns a hash that has read the header of an object; format is the
// number of digits of names.
func objectHash(format int, kind string, size int64) hash.Hash {
	h := sha1.New()
	if format == sha256Digits {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

// reachable reports whether one of the tips is the commit or has it among its
// ancestors.
func (s *scratch) reachable(ctx context.Context, commit string, tips []string) (bool, error) {
	if len(tips) == 0 {
		return false, nil
	}
	found := false
	err := s.run(ctx, []byte(strings.Join(tips, "\n")+"\n"), func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if lines.Text() == commit {
				found = true
				return errStop
			}
		}
		return lines.Err()
	}, "rev-list", "--ignore-missing", "--stdin")
	var exit *exitError
	if errors.As(err, &exit) {
		return false, hub.Errorf(hub.CodeDegraded, "evidence.Repository", "the history cannot be read to its end")
	}
	return found, err
}
