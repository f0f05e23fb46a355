package report

// A shape is the form of a field's value.
type shape uint8

const (
	// The shape decides whether a line can continue the value.
	aWord shape = iota // a word of a fixed vocabulary, on the line of the field
	aList
	aText
)

// A term is a field that the protocol defines. Its index in the list of terms
// identifies it in the readers, which keep sets of fields in arrays of eight.
type term struct {
	name  string
	shape shape
}

// The fields of the protocol, in canonical order.
var (
	reportTerms = []term{
		{"STATUS", aWord}, {"FILES_CREATED", aList}, {"FILES_MODIFIED", aList},
		{"TESTS", aWord}, {"BUILD", aWord}, {"ERROR", aText}, {"LEARNED", aText},
	}
	dispatchTerms = []term{
		{"TASK", aText}, {"CONTEXT", aText}, {"ACCEPTANCE", aList}, {"SCOPE", aList},
		{"RULES", aText}, {"VERIFY", aList}, {"DONE", aText},
	}
)

// The indexes of the fields in reportTerms.
const (
	statusPlace = iota
	createdPlace
	modifiedPlace
	testsPlace
	buildPlace
	errorPlace
	learnedPlace
)

// find returns the index of a name, in any case, in terms; -1 if it is not there.
// The lists have seven names each, so a linear search is enough; most names already
// differ in their length.
func find(terms []term, name string) int {
	for i := range terms {
		if term := terms[i].name; len(term) == len(name) && (term == name || foldedPrefix(name, term)) {
			return i
		}
	}
	return -1
}

// extraName reports whether a field of that name is kept although the protocol does not
// define it. Only capitals count: prose is full of words before a colon.
func extraName(name string) bool {
	if len(name) < 2 || len(name) > 40 || !upper(name[0]) {
		return false
	}
	for i := range len(name) {
		if b := name[i]; !upper(b) && !digit(b) && b != '_' {
			return false
		}
	}
	return true
}

// Names and words are ASCII; bytes beyond it are never part of one.
func upper(b byte) bool    { return b >= 'A' && b <= 'Z' }
func digit(b byte) bool    { return b >= '0' && b <= '9' }
func letter(b byte) bool   { return upper(b &^ 0x20) }
func nameByte(b byte) bool { return letter(b) || digit(b) || b == '_' }

// fold returns an ASCII letter in lower case, and any other byte as it is.
func fold(b byte) byte {
	if upper(b) {
		return b | 0x20
	}
	return b
}

// foldedPrefix reports whether s begins with prefix, regardless of ASCII case.
func foldedPrefix(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if fold(s[i]) != fold(prefix[i]) {
			return false
		}
	}
	return true
}

// lower returns s with its ASCII letters in lower case.
func lower(s string) string {
	for i := range len(s) {
		if upper(s[i]) {
			b := []byte(s)
			for ; i < len(b); i++ {
				b[i] = fold(b[i])
			}
			return string(b)
		}
	}
	return s
}
