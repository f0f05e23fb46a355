package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// Names in the folder of a run.
const (
	recordName = "run.json"
	framesName = "frames.jsonl"
	patchName  = "diff.patch"
)

// A Record is the content of run.json.
type Record struct {
	hub.Run
	Command  []string `json:"command"`            // that started the agent, redacted
	Order    *Order   `json:"order,omitempty"`    // how to execute the run again; nil for one that cannot be
	Worktree string   `json:"worktree,omitempty"` // that was made for the run
	Branch   string   `json:"branch,omitempty"`   // likewise
	Problem  string   `json:"error,omitempty"`    // why the agent failed, for people, redacted
	Hint     string   `json:"hint,omitempty"`     // an advice for that case
	Breach   *Breach  `json:"breach,omitempty"`   // nil if the agent kept to its policy, as far as that is known
	Tokens   *Tokens  `json:"tokens,omitempty"`   // nil if the agent reported none
	Hub      bool     `json:"hub"`                // a hub may have a record of the run
	Told     bool     `json:"told"`               // the hub knows the end of the run
	Owner    Process  `json:"owner"`              // the process that executes the run
}

// told notes that the hub knows the end of the run, and takes over its record of the end.
func (r *Record) told(ended hub.Run) {
	r.Told = true
	r.Message, r.EndedAt = ended.Message, ended.EndedAt
	r.Verdict, r.ClaimedVerdict = ended.Verdict, ended.ClaimedVerdict
	r.VerdictBy = ended.VerdictBy
	r.VerdictNote = r.Note()
	if len(ended.Contradictions) > 0 { // the hub may have found some
		r.Contradictions = ended.Contradictions
	}
}

// Tokens is the part of its context that an agent has used, and its cost, as it
// reported them.
type Tokens struct {
	Used     uint64      `json:"used"`
	Size     uint64      `json:"size"`
	Cost     json.Number `json:"cost,omitempty"`
	Currency string      `json:"currency,omitempty"`
}

// Files are the files of runs in a hub's home, a folder for each run.
type Files struct{ dir string }

// NewFiles returns the files of runs in a home.
func NewFiles(home string) *Files { return &Files{filepath.Join(home, "runs")} }

// A Folder holds the files of one run under way. It is safe for concurrent use.
type Folder struct {
	dir string

	mu     sync.Mutex // guards record
	record Record
}

// Create makes the folder of a run that this process executes.
func (f *Files) Create(r Record) (*Folder, error) {
	r.Owner = self()
	folder := f.reopen(r)
	err := os.MkdirAll(f.dir, 0o700)
	if err == nil {
		err = os.Mkdir(folder.dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("run: make the folder of run %s: %w", r.ID, err)
	}
	return folder, folder.Update(func(*Record) {})
}

// reopen returns the folder of a run whose owner has ended.
func (f *Files) reopen(r Record) *Folder { return &Folder{dir: f.path(r.ID), record: r} }

func (f *Files) path(id hub.RunID) string { return filepath.Join(f.dir, string(id)) }

// Frames returns the path of the recording of a run.
func (f *Files) Frames(id hub.RunID) string { return filepath.Join(f.path(id), framesName) }

// Patch returns the changes of the files in a run as a unified diff, empty if there are
// none.
func (f *Files) Patch(id hub.RunID) (string, error) {
	b, err := os.ReadFile(filepath.Join(f.path(id), patchName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("run: read the patch of run %s: %w", id, err)
	}
	return string(b), nil
}

// writePatch keeps a unified diff of the changes of the run.
func (f *Folder) writePatch(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := durable.WriteFile(filepath.Join(f.dir, patchName), b, 0o600); err != nil {
		return fmt.Errorf("run: write the patch: %w", err)
	}
	return nil
}

// Frames returns the path of the recording.
func (f *Folder) Frames() string { return filepath.Join(f.dir, framesName) }

// Update changes the record and replaces its file.
func (f *Folder) Update(change func(*Record)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.record)
	raw, err := json.Marshal(f.record)
	if err == nil {
		err = durable.WriteFile(filepath.Join(f.dir, recordName), append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("run: write the record of run %s: %w", f.record.ID, err)
	}
	return nil
}

// Record returns a copy of the record.
func (f *Folder) Record() Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record
}

// Record returns the record of a run. It reports CodeNotFound when there is none.
func (f *Files) Record(id hub.RunID) (Record, error) {
	const op = "run.Record"
	if !id.Valid() {
		return Record{}, hub.Errorf(hub.CodeInvalid, op, "%q is not a valid run id", id).WithHint("run \"parley run list\" to list the runs")
	}
	raw, err := os.ReadFile(filepath.Join(f.path(id), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, hub.Errorf(hub.CodeNotFound, op, "no record of run %s on this machine", id).
			WithHint("run \"parley run list\" to list the runs; old ones are removed")
	}
	var r Record
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && r.ID != id {
		err = fmt.Errorf("it is the record of run %q", r.ID)
	}
	if err != nil {
		return Record{}, hub.Errorf(hub.CodeDegraded, op, "read the record of run %s: %v", id, err)
	}
	r.VerdictNote = r.Note() // earlier versions recorded no author
	return r, nil
}

// Records returns the records of all runs, newest first. One that cannot be read
// is left out.
func (f *Files) Records() ([]Record, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run: list the records of runs: %w", err)
	}
	var all []Record
	for _, e := range slices.Backward(entries) { // ids sort by their time
		if r, err := f.Record(hub.RunID(e.Name())); err == nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// Recover ends the remaining processes of runs whose owner has ended, and records
// those runs as interrupted. It returns the runs whose end the hub does not know,
// for Report.
func (f *Files) Recover(now hub.Time) (unreported []Record, err error) {
	all, err := f.Records()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, r := range all {
		if !r.State.Over() && !r.Owner.alive() {
			folder := f.reopen(r)
			errs = append(errs, KillLeft(r.ID), folder.Update(func(r *Record) {
				if moved, err := r.Advance(hub.RunInterrupted, now); err == nil {
					r.Run = moved.Judged(hub.RunUnverified, cmp.Or(r.By, hub.Operator))
					r.Reason = hub.RunLost
				}
			}))
			r = folder.Record()
		}
		if r.State.Over() && r.Hub && !r.Told {
			unreported = append(unreported, r)
		}
	}
	return unreported, errors.Join(errs...)
}

// Retention limits the files of runs that are over. The zero value keeps 100 runs
// and 30 days.
type Retention struct {
	Keep   int           // runs
	MaxAge time.Duration // since the run began
}

// Sweep removes the files of runs that are over and exceed the retention, and
// returns the number of runs removed. Runs whose end the hub does not know stay.
func (f *Files) Sweep(keep Retention, now hub.Time) (int, error) {
	keep.Keep = cmp.Or(keep.Keep, 100)
	keep.MaxAge = cmp.Or(keep.MaxAge, 30*24*time.Hour)
	all, err := f.Records()
	if err != nil {
		return 0, err
	}
	removed, kept := 0, 0
	var errs []error
	for _, r := range all {
		if !r.State.Over() || (r.Hub && !r.Told) {
			continue
		}
		if kept < keep.Keep && now.Sub(r.StartedAt.Time) <= keep.MaxAge {
			kept++
			continue
		}
		if err := os.RemoveAll(f.path(r.ID)); err != nil {
			errs = append(errs, fmt.Errorf("run: remove the files of an old run: %w", err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
