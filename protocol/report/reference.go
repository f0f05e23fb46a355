package report

import "strings"

// readReference reads a text as the protocol's public parser does: line by line, the
// first usable field of each name counts, and lines end with LF alone. The status is
// empty if there is none.
// It is kept as simple as that parser: prose, fences and the order of blocks do not
// matter to it, and a status in a quoted example counts if it comes first.
func readReference(text string, skipped int) Result {
	r := Result{Fields: make([]TextField, 0, len(reportTerms))}
	var seen [8]bool // by index in reportTerms
	for number := skipped + 1; text != ""; number++ {
		s, rest, _ := strings.Cut(text, "\n")
		text = rest
		i := indent(s)
		j := nameEnd(s, i)
		if j == i || j == len(s) || s[j] != ':' {
			continue
		}
		place := find(reportTerms, s[i:j])
		if place < 0 || seen[place] {
			continue
		}
		t := reportTerms[place]
		value := strings.TrimLeft(s[j+1:], " \t")
		if !r.setReference(t.name, value) {
			continue
		}
		seen[place] = true
		r.Fields = append(r.Fields, TextField{Name: t.name, RawName: s[i:j], Value: trim(value), Line: number, Col: i + 1})
	}
	if r.Status == "" {
		return Result{}
	}
	return r
}

// setReference sets a field. It reports false for a word outside the vocabulary.
func (r *Result) setReference(name, value string) bool {
	switch name {
	case "STATUS":
		for _, s := range statuses {
			if n, exact := matchStatus(value, string(s)); n > 0 && exact {
				r.Status = s
			}
		}
		return r.Status != ""
	case "TESTS":
		r.Tests = referenceTests(value)
		return r.Tests != ""
	case "BUILD":
		if s, _, own := readState(value); own {
			r.Build = s
		}
		return r.Build != ""
	case "FILES_CREATED":
		r.FilesCreated = splitPlain(value)
	case "FILES_MODIFIED":
		r.FilesModified = splitPlain(value)
	case "ERROR":
		r.Error = trim(value)
	case "LEARNED":
		r.Learned = trim(value)
	}
	return true
}
