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

// matches reports whether the pattern matches the name or a folder that it is in.
//
// It goes through both once, and back only to the last "**", which then matches one part
// more: an earlier "**" need not, because every match that it allows is found from the
// last one, too. It takes time in proportion to the product of their lengths.
func matches(pattern, name []string) bool {
	p := 0
	n := 0
	last := -1
	from := 0
	for p < len(pattern) {
		switch {
		case pattern[p] == "**":
			last, from = p, n
			p++
		case n < len(name) && glob(pattern[p], name[n]):
			p, n = p+1, n+1
		case last >= 0 && from < len(name):
			from++
			p, n = last+1, from
		default:
			return false
		}
	}
	return true
}

// glob reports whether a pattern matches a part of a path. A pattern that is malformed
// matches nothing but itself.
func glob(pattern, part string) bool {
	ok, _ := path.Match(pattern, part) // false for a malformed one
	return ok || pattern == part
}
