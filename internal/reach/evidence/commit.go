package evidence

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
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
	out, err := s.run(ctx, maxCommit, name+"\n", "cat-file", "--batch")
	var exit *exitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	head, body, _ := strings.Cut(out, "\n")
	words := strings.Fields(head)
	switch {
	case len(words) == 2 && words[1] == "ambiguous":
		return "", hub.Errorf(hub.CodeConflict, op, "several objects have names that begin with %s", show(name))
	case len(words) == 3 && objectID(words[0]) && words[1] != "commit":
		return "", hub.Errorf(hub.CodeConflict, op, "%s is a %s, not a commit", show(name), words[1])
	case len(words) == 3 && objectID(words[0]) && isObject(words[0], "commit", []byte(strings.TrimSuffix(body, "\n"))):
		return words[0], nil
	case s.partial:
		return "", hub.Errorf(hub.CodeNotEnabled, op, "commit %s is not in this partial clone, and nothing is fetched", show(name))
	}
	return "", hub.Errorf(hub.CodeNotFound, op, "commit %s does not exist or cannot be read", show(name))
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
// ancestors: git lists the commit unless the tips exclude it.
func (s *scratch) reachable(ctx context.Context, commit string, tips []string) (bool, error) {
	input := commit + "\n"
	for _, tip := range tips {
		input += "^" + tip + "\n"
	}
	out, err := s.run(ctx, maxOutput, input, "rev-list", "--max-count=1", "--ignore-missing", "--stdin")
	var exit *exitError
	if errors.As(err, &exit) {
		return false, hub.Errorf(hub.CodeDegraded, "evidence.Repository", "the history cannot be read to its end")
	}
	return out == "", err
}
