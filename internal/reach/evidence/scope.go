package evidence

import (
	"path"
	"path/filepath"
	"strings"
)

// covers reports whether one of the entries of a scope covers a name. Entries
// are relative to folder, or absolute paths below top; name is relative to top.
func covers(scope []string, top, folder, name string) bool {
	empty := true
	for _, entry := range scope {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		empty = false
		entry = filepath.ToSlash(strings.TrimSpace(entry))
		if path.IsAbs(entry) {
			rel, ok := under(top, path.Clean(entry))
			if !ok {
				continue
			}
			entry = rel
		} else {
			entry = path.Join(folder, entry)
		}
		if entry == "." || matches(strings.Split(entry, "/"), strings.Split(name, "/")) {
			return true
		}
	}
	return empty
}

// matches reports whether the pattern matches the name or a folder that it is
// in. It takes time in proportion to the product of their lengths.
func matches(pattern, name []string) bool {
	// at[i] says whether the first i parts of the pattern match the parts of
	// the name seen so far.
	at := make([]bool, len(pattern)+1)
	at[0] = true
	skip(pattern, at)
	for _, part := range name {
		next := make([]bool, len(at))
		for i, p := range pattern {
			if !at[i] {
				continue
			}
			if p == "**" {
				next[i] = true
			} else if p == part || glob(p, part) {
				next[i+1] = true
			}
		}
		skip(pattern, next)
		if at = next; at[len(pattern)] {
			return true
		}
	}
	return at[len(pattern)]
}

// skip lets every "**" match nothing.
func skip(pattern []string, at []bool) {
	for i, p := range pattern {
		if at[i] && p == "**" {
			at[i+1] = true
		}
	}
}

// glob reports whether a pattern matches a part of a path. A pattern that makes
// no sense matches nothing but itself.
func glob(pattern, part string) bool {
	ok, err := path.Match(pattern, part)
	return ok && err == nil
}
