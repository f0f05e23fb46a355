// Package compat decides whether a new version of a schema or of an API is compatible with
// the version before it. It needs no hub, reads no network and keeps no state.
//
// [Read] takes the text of one version, finds its format and refuses a text that breaks that
// format, with pointer, line and reason. [Compare] takes two documents and returns a
// [Verdict] with one [Finding] for each difference that matters:
//
//	old, err := compat.Read(oldText, nil)
//	new, err := compat.Read(newText, nil)
//	verdict := compat.Compare(old, new, compat.Options{})
//	fmt.Println(verdict.Verdict) // compatible, breaking or unknown
//
// # The three words
//
// A pair is compatible only if a rule explains every difference. A difference without a rule
// is unknown, and so is one that the package cannot decide. A pair is breaking if a rule says
// so, or if the generator found a document that proves it.
//
// A schema is compared by containment. For a request, every document that the old version
// takes must be taken by the new one; for a response, every document that the new version may
// produce must be one that the old version allowed. The package proves containment keyword by
// keyword. Where it cannot, it searches for a document that shows the opposite and confirms
// the document with a validator of JSON Schema. The search is seeded by the two documents, so
// two programs show the same example.
//
// # Consumers
//
// A consumer declares the parts that it uses: JSON pointers, operations such as
// "GET /users/{id}", or fields such as "User.avatar". [Verdict.For] gives the verdict for
// those parts alone. A consumer without parts uses everything.
//
// # Formats
//
// The formats are JSON Schema (2020-12 and draft-07), OpenAPI 3.0 and 3.1, the small shape of
// contracts between repositories (method, path, requestBody, responseBody and so on), and
// custom, which has no rules: two custom documents that differ are unknown.
//
// # Bounds
//
// Size, nesting and number of values are bounded before any library sees a text. The work of a
// comparison is bounded by steps, which are counted, so that it ends in about a second on any
// two documents; one that is given up is unknown by the rule BOTH-comparison-bound. References
// to other files are refused and never fetched. Regular expressions are those of RE2; a
// document with another one is unknown.
package compat
