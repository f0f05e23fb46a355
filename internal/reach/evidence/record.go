package evidence

// maxRecorded is how many names a record has in each list.
const maxRecorded = 1000

// A Record is the evidence for a verdict, as it is stored and printed.
type Record struct {
	Before        Moment   `json:"before"`
	After         Moment   `json:"after"`
	Diff          Diff     `json:"diff"`
	Verify        *Outcome `json:"verify,omitempty"`
	Build         *Outcome `json:"build,omitempty"`
	VerifyChanged []string `json:"verify_changed"` // what VERIFY and the build changed, not the agent
}

// A Diff is a difference in figures and names.
type Diff struct {
	Files      int      `json:"files"`
	Insertions int      `json:"insertions"`
	Deletions  int      `json:"deletions"`
	Uncounted  int      `json:"uncounted,omitempty"` // files whose lines were not counted
	Created    []string `json:"created"`
	Modified   []string `json:"modified"`
	Deleted    []string `json:"deleted"`
	Truncated  bool     `json:"truncated"` // names were left out
}

// NewRecord puts what was found into a Record. changes, verify and build may be
// nil. Of each list at most 1,000 names are kept.
func NewRecord(before Moment, changes *Changes, verify, build *Outcome, verifyChanged []string) Record {
	r := Record{Before: before, Verify: verify, Build: build}
	if changes == nil {
		changes = &Changes{}
	}
	r.After = changes.After
	r.Diff = Diff{
		Files:      len(changes.names()),
		Insertions: changes.Insertions,
		Deletions:  changes.Deletions,
		Uncounted:  changes.Uncounted,
	}
	for _, list := range []struct {
		to   *[]string
		from []string
	}{
		{&r.Diff.Created, changes.Created},
		{&r.Diff.Modified, changes.Modified},
		{&r.Diff.Deleted, changes.Deleted},
		{&r.VerifyChanged, verifyChanged},
	} {
		kept := list.from[:min(len(list.from), maxRecorded)]
		*list.to = append([]string{}, kept...)
		r.Diff.Truncated = r.Diff.Truncated || len(kept) < len(list.from)
	}
	return r
}
