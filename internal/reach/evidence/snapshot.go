package evidence

import (
	"context"
	"errors"
)

// A Moment is the state of a folder at one time.
type Moment struct {
	Repository bool   `json:"repository"`       // whether it is in a git repository
	Commit     string `json:"commit,omitempty"` // empty if there is none yet
	Branch     string `json:"branch,omitempty"` // empty if HEAD is detached
	Tree       string `json:"tree,omitempty"`   // the files' git tree; empty if a file could not be read
	Dirty      bool   `json:"dirty"`            // whether the files differ from the commit
}

// A Base is what lay in a folder before somebody worked there. It holds
// temporary files until it is closed. It is not safe for concurrent use.
type Base struct {
	now Moment
}

// Snapshot looks at the working tree that dir is in, or at dir alone if that
// is in none. opts may be nil; of it MaxFile, Timeout and Git count.
func Snapshot(ctx context.Context, dir string, opts *Options) (*Base, error) {
	return nil, errors.ErrUnsupported
}

// Moment returns what was found.
func (b *Base) Moment() Moment { return b.now }

// Compare looks again and says what has changed since the base was taken.
// named are paths as somebody wrote them, relative to the base's folder or
// absolute; each is looked at even if git would ignore it.
func (b *Base) Compare(ctx context.Context, named []string) (Changes, error) {
	return Changes{}, errors.ErrUnsupported
}

// Since looks again and returns the names of what has changed since the last
// Compare, such as what a command changed that ran in between.
func (b *Base) Since(ctx context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

// Close removes the temporary files.
func (b *Base) Close() error { return nil }
