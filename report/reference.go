package report

import "strings"

// readReference reads a text as the protocol's public parser does. The status
// is empty if there is none. Lines end at LF alone.
func readReference(text string, skipped int) Result {
	r := Result{Fields: make([]Found, 0, len(reportTerms))}
	var seen [8]bool // by place in reportTerms
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
		if !r.takeReference(t.name, value) {
			continue
		}
		seen[place] = true
		r.Fields = append(r.Fields, Found{Name: t.name, RawName: s[i:j], Value: trim(value), Line: number, Col: i + 1})
	}
	if r.Status == "" {
		return Result{}
	}
	return r
}

// takeReference sets a field unless the value is not of its vocabulary.
func (r *Result) takeReference(name, value string) bool {
	switch name {
	case "STATUS":
		for _, s := range statuses {
			if n, exact := spelled(value, string(s)); n > 0 && exact {
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
