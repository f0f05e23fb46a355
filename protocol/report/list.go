package report

import (
	"encoding/json"
	"slices"
	"strings"
)

// splitPlain reads a list as the protocol's public parser does: commas separate,
// items are trimmed, empty ones dropped.
func splitPlain(value string) []string {
	if value = trim(value); value == "" {
		return nil
	}
	items := make([]string, 0, strings.Count(value, ",")+1)
	for item := range strings.SplitSeq(value, ",") {
		if item = trim(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// emptyMarkers are the words that agents write for an empty list.
var emptyMarkers = [...]string{"none", "n/a", "-", "(none)", "[]"}

// emptyMarker reports whether a value stands for an empty list.
func emptyMarker(value string) bool {
	for _, m := range emptyMarkers {
		if len(m) == len(value) && foldedPrefix(value, m) {
			return true
		}
	}
	return false
}

// splitList reads a list in any form that agents write. The codes name the form if it
// is not the plain one.
// The forms are tried from the most to the least specific: a word for nothing, a
// JSON array, a list with quotes or brackets, and the plain one. A form that does
// not match exactly falls through to the plain one, which accepts everything.
func splitList(value string) (items []string, codes []Code) {
	value = trim(value)
	if emptyMarker(value) {
		return nil, []Code{CodeEmptyMarker}
	}
	if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
		var all []string
		if json.Unmarshal([]byte(value), &all) == nil {
			return slices.DeleteFunc(trimAll(all), func(s string) bool { return s == "" }), []Code{CodeJSONList}
		}
	}
	if strings.IndexByte(value, '"') >= 0 || strings.IndexByte(value, '(') >= 0 {
		if items, ok := splitGrouped(value); ok {
			return items, []Code{CodeJSONList}
		}
	}
	items = splitPlain(value)
	if strings.IndexByte(value, '`') < 0 && strings.IndexByte(value, '*') < 0 {
		return items, nil
	}
	for i, item := range items {
		for _, mark := range [...]string{"`", "**"} { // neither _ nor *: names and patterns begin and end with them
			if inner, ok := strings.CutPrefix(item, mark); ok && len(inner) > len(mark) && strings.HasSuffix(inner, mark) {
				items[i], codes = trim(inner[:len(inner)-len(mark)]), []Code{CodeDecorated}
			}
		}
	}
	return slices.DeleteFunc(items, func(s string) bool { return s == "" }), codes
}

// trimAll trims the items in place.
// The caller owns the slice.
func trimAll(items []string) []string {
	for i := range items {
		items[i] = trim(items[i])
	}
	return items
}

// splitGrouped reads a list in which quotes or brackets protect commas. It reports
// false if there are none, or if they do not match.
// Brackets protect commas because agents write "a.go (new, tested), b.go".
func splitGrouped(value string) (items []string, ok bool) {
	grouped := false
	for rest := value; rest != ""; {
		rest = strings.TrimLeftFunc(rest, space)
		var item string
		if strings.HasPrefix(rest, `"`) {
			item, rest, ok = cutQuoted(rest)
			grouped = true
		} else {
			var together bool
			item, rest, together, ok = cutBracketed(rest)
			grouped = grouped || together
		}
		if !ok {
			return nil, false
		}
		if item = trim(item); item != "" {
			items = append(items, item)
		}
	}
	return items, grouped
}

// cutQuoted returns the quoted item at the beginning of s, and the rest behind its
// comma. A quote inside is doubled.
func cutQuoted(s string) (item, rest string, ok bool) {
	var b strings.Builder
	for s = s[1:]; ; {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			return "", "", false
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		if !strings.HasPrefix(s, `"`) {
			break
		}
		b.WriteByte('"')
		s = s[1:]
	}
	s = strings.TrimLeftFunc(s, space)
	if s != "" && s[0] != ',' {
		return "", "", false
	}
	return b.String(), strings.TrimPrefix(s, ","), true
}

// cutBracketed returns the item at the beginning of s, and the rest behind its comma.
// together reports that brackets protected a comma.
// A closing bracket without an opening one is an ordinary character.
func cutBracketed(s string) (item, rest string, together, ok bool) {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				return s[:i], s[i+1:], together, true
			}
			together = true
		}
	}
	return s, "", together, depth == 0
}

// joinList writes a list so that splitList reads it back: plain if possible, else with
// quotes around some items, else as JSON.
// The form is chosen by trial: the first that is read back as it was is written.
func joinList(items []string) string {
	items = slices.DeleteFunc(trimAll(slices.Clone(items)), func(s string) bool { return s == "" })
	if len(items) == 0 {
		return ""
	}
	plain := strings.Join(items, ",")
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = item
		back, codes := splitList(item)
		isReadBack := len(codes) == 0 && len(back) == 1 && back[0] == item
		if !isReadBack || strings.ContainsAny(item, `,"()`) {
			quoted[i] = `"` + strings.ReplaceAll(item, `"`, `""`) + `"`
		}
	}
	// A comma at the end distinguishes an item named "none" from an empty list.
	for _, s := range []string{plain, plain + ",", strings.Join(quoted, ",")} {
		if back, _ := splitList(s); !strings.ContainsAny(s, "\n\r\u2028\u2029") && slices.Equal(back, items) {
			return s
		}
	}
	raw, _ := json.Marshal(items) // strings can always be encoded
	return string(raw)
}
