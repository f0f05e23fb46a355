package sandbox

import (
	"context"
	"path/filepath"
	"sync"
)

// A Consent remembers which changes of files a person allowed in a turn. After the turn
// it tells the files that changed although neither the policy nor a person let the agent
// change them: an agent that asks nobody is not held back by a policy, but seen. The zero
// value works. It is safe for concurrent use.
type Consent struct {
	mu     sync.Mutex // guards what follows
	paths  []string   // clean, as spelled and without links
	open   bool       // an action was allowed whose files are not known, such as a command
	always bool       // an action was allowed for the future, too: the agent need not ask again
}

// Begin forgets the permissions of the last turn, except those that were given for all
// turns.
func (c *Consent) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = nil
	c.open = false
}

// Asker returns an Asker that asks as ask does and remembers the answers. It is nil if
// ask is.
func (c *Consent) Asker(ask Asker) Asker {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, r Request) (string, error) {
		id, err := ask(ctx, r)
		if err == nil && ctx.Err() == nil {
			c.note(r, id)
		}
		return id, err
	}
}

// note remembers the answer to a request.
func (c *Consent) note(r Request, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range r.Options {
		if o.ID != id || o.Kind == RejectOnce || o.Kind == RejectAlways {
			continue
		}
		switch {
		case o.Kind != AllowOnce: // always, or a kind that only the agent knows
			c.always = true
		case r.Kind == KindRead, r.Kind == KindSearch, r.Kind == KindThink:
		case r.changes() && len(r.Paths) > 0:
			for _, path := range r.Paths {
				path = r.absolute(path)
				c.paths = append(c.paths, path, follow(path))
			}
		default:
			c.open = true
		}
	}
}

// Uncovered returns those of the changed files, which are absolute paths in the folder of
// the agent, that neither the policy nor a person let it change. Under PolicyWrite these
// are files that a program runs or obeys. known is false if a person allowed an action
// whose files are not known: then any of the files may be among those, and none is
// returned.
func (c *Consent) Uncovered(policy Policy, folder string, changed []string) (files []string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if policy == PolicyYolo {
		return nil, true
	}
	for _, file := range changed {
		allowed := policy.Verdict(KindEdit) == Allow && worry(file, []string{folder}).verdict == ""
		if !allowed && !c.covers(file) {
			files = append(files, file)
		}
	}
	if len(files) > 0 && (c.open || c.always) {
		return nil, false
	}
	return files, true
}

// covers reports whether a person allowed a change of the file, or of a folder above it.
func (c *Consent) covers(file string) bool {
	for _, spelled := range []string{filepath.Clean(file), follow(filepath.Clean(file))} {
		for _, path := range c.paths {
			if _, ok := below(path, spelled); ok {
				return true
			}
		}
	}
	return false
}
