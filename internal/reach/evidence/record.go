package evidence

// A Record is the evidence for a verdict, as it is stored and printed.
type Record struct {
	Before        Moment   `json:"before"`
	After         Moment   `json:"after"`
	Diff          Diff     `json:"diff"`
	Verify        *Outcome `json:"verify,omitempty"`
	Build         *Outcome `json:"build,omitempty"`
	VerifyChanged []string `json:"verify_changed,omitempty"` // what VERIFY and BUILD changed, not the agent
}

// A Diff is the difference in figures and names.
type Diff struct {
	Files      int      `json:"files"`
	Insertions int      `json:"insertions"`
	Deletions  int      `json:"deletions"`
	Created    []string `json:"created"`
	Modified   []string `json:"modified"`
	Deleted    []string `json:"deleted"`
	Truncated  bool     `json:"truncated"` // names were left out
}

// NewRecord puts what was found into a Record. changes, verify and build may be
// nil. Of each list at most 1,000 names are kept.
func NewRecord(before Moment, changes *Changes, verify, build *Outcome, verifyChanged []string) Record {
	return Record{}
}
