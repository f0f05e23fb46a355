package evidence

import (
	"context"

	"github.com/parley-agents/parley/report"
)

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

// ExamineOptions says what else to look at. The zero value works.
type ExamineOptions struct {
	Dir     string // where the commands run; default the base's folder
	Verify  string // a shell line of the user's; empty for none
	Build   string // likewise
	Scope   []string
	Command CommandOptions
	Judge   JudgeOptions
}

// Examine checks a report against what became of the base: it looks at the
// files, runs the build and then VERIFY, and looks again at what these changed.
// An error says why the files could not be compared; the verdict and the record
// then hold the rest. opts may be nil.
func (b *Base) Examine(ctx context.Context, rep report.Report, opts *ExamineOptions) (Verdict, Record, error) {
	var o ExamineOptions
	if opts != nil {
		o = *opts
	}
	if o.Dir == "" {
		o.Dir = b.given
	}
	var changes *Changes
	found, err := b.Compare(ctx, NamedFiles(rep))
	if err == nil {
		changes = &found
	}
	build := o.run(ctx, o.Build)
	verify := o.run(ctx, o.Verify)
	var own []string
	if err == nil && (build != nil || verify != nil) {
		own, err = b.Since(ctx)
	}
	return Judge(rep, changes, verify, build, o.Scope, &o.Judge), NewRecord(b.Moment(), changes, verify, build, own), err
}

// run runs a line, if there is one.
func (o ExamineOptions) run(ctx context.Context, line string) *Outcome {
	if line == "" {
		return nil
	}
	outcome := Command(ctx, o.Dir, line, &o.Command)
	return &outcome
}
