package report

import "strings"

// readCanonical reads a text that is a report as Text writes it: known fields in their
// order, each once and with a plain value, optionally behind blanks. It reports false
// for any other text. For a canonical text it returns the result of readBlocks, which
// the tests compare. It exists for the benchmark BenchmarkTypical (a typical report in
// less than 2 µs): readBlocks alone takes longer.
// A field that is missing is skipped in the list of terms; one that is out of order
// runs into the end of the list, and the text is read by readBlocks.
func readCanonical(text string, skipped int) (r Result, ok bool) {
	if !strings.HasPrefix(text, "STATUS:") || strings.IndexByte(text, '\r') >= 0 || strings.IndexByte(text, "\u2028"[0]) >= 0 {
		return Result{}, false
	}

	text = strings.TrimSuffix(text, "\n")
	count := strings.Count(text, "\n") + 1
	if count > len(reportTerms) {
		return Result{}, false
	}

	r.Fields = make([]TextField, 0, count)
	place := 0

	// The fields come in the order of the terms, so one pass over the terms finds them all.
	for rest := text; len(r.Fields) < count; place++ {
		s := rest
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			s, rest = rest[:i], rest[i+1:]
		}
		for place < len(reportTerms) && !names(s, reportTerms[place].name) {
			place++
		}
		if place == len(reportTerms) {
			return Result{}, false
		}

		name := reportTerms[place].name
		value := s[len(name)+1:]
		value = value[indent(value):]
		isTrimmed := value != "" && solid(value[0]) && solid(value[len(value)-1])
		if !isTrimmed || !r.setCanonical(place, value) {
			return Result{}, false
		}
		r.Fields = append(r.Fields, TextField{Name: name, RawName: s[:len(name)], Value: value, Line: skipped + len(r.Fields) + 1, Col: 1})
	}

	r.Blocks = []Block{{Text: text, First: skipped + 1, Last: skipped + count, Status: r.Status, Chosen: true, to: count}}
	return r, true
}

// names reports whether a line is a field of that name in capitals.
func names(line, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && line[:len(name)] == name
}

// setCanonical sets a field as Reference does. It reports false for a value that is not
// canonical: one of which Reference would read only a part, or a list with marks.
func (r *Result) setCanonical(place int, value string) bool {
	if !r.setReference(reportTerms[place].name, value) {
		return false
	}
	switch place {
	case statusPlace:
		return string(r.Status) == value
	case testsPlace:
		return string(r.Tests) == value && canonicalTests(value) == len(value)
	case buildPlace:
		return string(r.Build) == value
	case createdPlace, modifiedPlace:
		return !strings.HasSuffix(value, ",") && !strings.ContainsAny(value, "\"()[]*`") && !emptyMarker(value)
	}
	return true
}
