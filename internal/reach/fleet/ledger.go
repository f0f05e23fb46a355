package fleet

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
)

// Names in the folder of a run.
const (
	recordName = "run.json"
	framesName = "frames.jsonl"
)

// A Record is what the files say of a run.
type Record struct {
	hub.Run
	Command  []string  `json:"command"`            // without its arguments' secrets
	Worktree string    `json:"worktree,omitempty"` // that was made for the run
	Branch   string    `json:"branch,omitempty"`   // likewise
	Hub      bool      `json:"hub"`                // the hub has a record, too
	Told     bool      `json:"told"`               // the hub knows how the run ended
	Owner    Process   `json:"owner"`              // who watches over the run
	Groups   []Process `json:"groups,omitempty"`   // process groups that run for it, by their first process
}

// A Ledger is the folder that holds the records of runs.
type Ledger struct{ dir string }

// NewLedger returns the records in a hub's home.
func NewLedger(home string) *Ledger { return &Ledger{filepath.Join(home, "runs")} }

// An Account is the record of a run under way. It is safe for concurrent use.
type Account struct {
	dir string

	mu     sync.Mutex // guards what follows
	record Record
}

// Open begins the record of a run, in a folder that is made for it.
func (l *Ledger) Open(r Record) (*Account, error) {
	a := &Account{dir: l.folder(r.ID), record: r}
	a.record.Owner = self()
	err := os.MkdirAll(l.dir, 0o700)
	if err == nil {
		err = os.Mkdir(a.dir, 0o700)
	}
	if err == nil {
		err = a.save()
	}
	if err != nil {
		return nil, fmt.Errorf("fleet: the record of run %s: %w", r.ID, err)
	}
	return a, nil
}

func (l *Ledger) folder(id hub.RunID) string { return filepath.Join(l.dir, string(id)) }

// Frames returns the path of the file that holds the frames of a run.
func (l *Ledger) Frames(id hub.RunID) string { return filepath.Join(l.folder(id), framesName) }

// Frames returns the path of the file for the frames.
func (a *Account) Frames() string { return filepath.Join(a.dir, framesName) }

// Update changes the record and writes it.
func (a *Account) Update(change func(*Record)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.record)
	if err := a.save(); err != nil {
		return fmt.Errorf("fleet: the record of run %s: %w", a.record.ID, err)
	}
	return nil
}

// Record returns the record as it is now.
func (a *Account) Record() Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.record
	r.Groups = slices.Clone(r.Groups)
	return r
}

// Track writes down a process group that runs for the run, or that it has ended.
func (a *Account) Track(group int, running bool) error {
	return a.Update(func(r *Record) {
		r.Groups = slices.DeleteFunc(r.Groups, func(p Process) bool { return p.PID == group })
		if running {
			r.Groups = append(r.Groups, Process{PID: group, Began: began(group)})
		}
	})
}

// save replaces the file as a whole.
func (a *Account) save() error {
	raw, err := json.Marshal(a.record)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(a.dir, ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(a.dir, recordName))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Record returns the record of a run. It reports CodeNotFound when there is none.
func (l *Ledger) Record(id hub.RunID) (Record, error) {
	const op = "fleet.Record"
	if !id.Valid() {
		return Record{}, hub.Errorf(hub.CodeInvalid, op, "%q is not the id of a run", id).WithHint("parley runs list shows them")
	}
	raw, err := os.ReadFile(filepath.Join(l.folder(id), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, hub.Errorf(hub.CodeNotFound, op, "there is no record of a run %s here", id).
			WithHint("parley runs list shows them; old ones are removed")
	}
	var r Record
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && r.ID != id {
		err = fmt.Errorf("it is about the run %q", r.ID)
	}
	if err != nil {
		return Record{}, hub.Errorf(hub.CodeDegraded, op, "the record of run %s cannot be read: %v", id, err)
	}
	return r, nil
}

// Records returns the records of all runs, newest first. One that cannot be read
// is left out.
func (l *Ledger) Records() ([]Record, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fleet: the records of runs: %w", err)
	}
	var all []Record
	for _, e := range slices.Backward(entries) { // ids sort by their time
		if r, err := l.Record(hub.RunID(e.Name())); err == nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// reopen returns the account of a run whose owner is gone.
func (l *Ledger) reopen(r Record) *Account { return &Account{dir: l.folder(r.ID), record: r} }

// Recover ends what is left of runs whose owner is gone, and records them as
// interrupted. It returns the records of runs that are over and of which the hub
// has not heard the end.
func (l *Ledger) Recover(now hub.Time) ([]Record, error) {
	all, err := l.Records()
	if err != nil {
		return nil, err
	}
	var untold []Record
	var errs []error
	for _, r := range all {
		if !r.State.Over() && !r.Owner.alive() {
			a := l.reopen(r)
			reap(r.ID, r.Groups)
			errs = append(errs, a.Update(func(r *Record) {
				r.Groups = nil
				if moved, err := r.Advance(hub.RunInterrupted, now); err == nil {
					r.Run = moved
					r.Reason, r.Verdict = hub.RunLost, hub.RunUnverified
				}
			}))
			r = a.Record()
		}
		if r.State.Over() && r.Hub && !r.Told {
			untold = append(untold, r)
		}
	}
	return untold, errors.Join(errs...)
}

// MarkTold notes that the hub knows how a run ended.
func (l *Ledger) MarkTold(id hub.RunID) error {
	r, err := l.Record(id)
	if err != nil {
		return err
	}
	return l.reopen(r).Update(func(r *Record) { r.Told = true })
}

// Retention says how long the files of a run are kept. The zero value keeps 100
// runs and 30 days.
type Retention struct {
	Keep   int           // runs that are over
	MaxAge time.Duration // since they began
}

// Sweep removes the files of runs that are over and that the retention does not
// keep, and returns how many there were.
func (l *Ledger) Sweep(keep Retention, now hub.Time) (int, error) {
	keep.Keep = cmp.Or(keep.Keep, 100)
	keep.MaxAge = cmp.Or(keep.MaxAge, 30*24*time.Hour)
	all, err := l.Records()
	if err != nil {
		return 0, err
	}
	removed, kept := 0, 0
	var errs []error
	for _, r := range all {
		if !r.State.Over() || r.Hub && !r.Told {
			continue
		}
		if kept < keep.Keep && now.Sub(r.StartedAt.Time) <= keep.MaxAge {
			kept++
			continue
		}
		if err := os.RemoveAll(l.folder(r.ID)); err != nil {
			errs = append(errs, fmt.Errorf("fleet: remove an old run: %w", err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
