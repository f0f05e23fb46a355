package guard

import (
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/effects"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// A Held is a file that an agent changes.
type Held struct {
	Path   string      `json:"path"` // as it was asked for
	Holder hub.AgentID `json:"holder"`
	Since  hub.Time    `json:"since,omitzero"`
}

// HeldBy returns the files, given by their paths in dir, that agents other than one hold, by
// the list of their reservations.
func HeldBy(dir string, files []string, list []reservation.Row, except hub.AgentID) []Held {
	out := []Held{}
	for _, file := range files {
		path := resolved(joined(dir, file))
		if r, ok := holderOf(path, list, except); ok {
			out = append(out, Held{Path: file, Holder: r.Holder, Since: r.Since})
		}
	}
	return out
}

// holderOf returns the reservation that keeps an agent from a file. An agent that has reserved a
// pattern is only kept from the files that others are changing.
func holderOf(path string, list []reservation.Row, except hub.AgentID) (found reservation.Row, ok bool) {
	hasPattern := false
	for _, r := range list {
		switch {
		case !holds(r, path):
		case r.Holder == except && r.Pattern:
			hasPattern = true
		case r.Holder == except:
			return reservation.Row{}, false
		case !ok || (found.Pattern && !r.Pattern):
			found, ok = r, true
		}
	}
	if ok && found.Pattern && hasPattern {
		return reservation.Row{}, false
	}
	return found, ok
}

// holds reports whether a reservation binds a file, given by its absolute path.
func holds(r reservation.Row, path string) bool {
	rel, err := filepath.Rel(r.Tree, path)
	if err != nil || !filepath.IsLocal(rel) || r.State != hub.ReservationHeld {
		return false
	}
	name := filepath.ToSlash(rel)
	if r.Pattern {
		return effects.Compile(effects.Pathspec(r.Path)).Matches("/" + name)
	}
	return r.Path == name
}

// Tree returns the top of the working tree that a file lies in, as the guard asks about it.
func Tree(dir, file string) string {
	return treeOf(resolved(joined(dir, file)), resolved(dir))
}
