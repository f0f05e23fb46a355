package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	archiveKeep  = 90 * 24 * time.Hour
	archiveLeast = 24 * time.Hour // that anything is kept
	archiveEvery = 24 * time.Hour
	archivePage  = 256 // entries or messages that are read, or removed, at a time

	// A message goes into an archive so much later than its entry: entries of
	// messages sent at the same time may be a little out of order, and a
	// message must not go before its entry does.
	archiveSlack = time.Minute
)

// ArchiveOptions are the choices of one archive. The zero value works.
type ArchiveOptions struct {
	Keep   time.Duration // age at which entries and messages are archived; default 90 days, at least one
	DryRun bool          // change nothing, report only
}

// An ArchiveReport says what went into an archive, or would have gone.
type ArchiveReport struct {
	DryRun     bool     `json:"dry_run"`
	Cutoff     hub.Time `json:"cutoff"`           // what is older may go
	File       string   `json:"file,omitempty"`   // "" if nothing was old enough
	First      int64    `json:"first,omitempty"`  // number of the first entry in it
	Last       int64    `json:"last,omitempty"`   // and of the last
	Entries    int      `json:"entries"`          // how many there are
	Messages   int      `json:"messages"`         // messages in it
	Pruned     int      `json:"pruned"`           // entries and messages that were removed, also those of earlier archives
	HeldBackBy string   `json:"held_back_by"`     // the consumer that has not seen the next entry, or ""
	SHA256     string   `json:"sha256,omitempty"` // of the file
	hash       string   // of the last entry
	through    hub.Time // messages made before are in it
}

// Archive moves entries and messages that are old into a file, and then out of
// the store. Handoffs, their history and the messages about them stay for ever.
// Only the operator and the hub itself may.
//
// Killed at any instant, nothing is lost: the file is complete before the store
// notes it, the store notes it before anything is removed, and only what is in
// the file is removed. The next call removes what is left.
func (j *Records) Archive(ctx context.Context, actor hub.Caller, opts ArchiveOptions) (ArchiveReport, error) {
	const op = "records.Archive"
	if !actor.IsOperator() && actor.ID != hub.Self {
		return ArchiveReport{}, hub.Errorf(hub.CodeDenied, op, "only the operator may archive, and you are %s", actor.ID)
	}
	opts.Keep = cmp.Or(opts.Keep, archiveKeep)
	if opts.Keep < archiveLeast {
		return ArchiveReport{}, hub.Errorf(hub.CodeInvalid, op, "nothing younger than a day is archived")
	}
	if j.folders.Archives == "" {
		return ArchiveReport{}, hub.Errorf(hub.CodeInvalid, op, "no folder for archives was given")
	}
	j.archiving.Lock()
	defer j.archiving.Unlock()
	report, err := j.archive(ctx, actor, opts)
	if err != nil {
		return report, fmt.Errorf("records: archive: %w", diskError(op, err))
	}
	return report, nil
}

func (j *Records) archive(ctx context.Context, actor hub.Caller, opts ArchiveOptions) (ArchiveReport, error) {
	pruned := 0
	if !opts.DryRun {
		var err error
		if pruned, err = j.prune(ctx); err != nil && !errors.Is(err, errStraggler) {
			return ArchiveReport{}, err
		}
		if err := os.MkdirAll(j.folders.Archives, 0o700); err != nil {
			return ArchiveReport{}, err
		}
	}
	report, err := j.write(ctx, opts)
	report.Pruned = pruned
	if err != nil || opts.DryRun || report.File == "" {
		return report, err
	}
	if err := j.record(ctx, actor, report); err != nil {
		return report, err
	}
	n, err := j.prune(ctx)
	report.Pruned += n
	return report, err
}

// write makes the file. In a dry run it only counts.
func (j *Records) write(ctx context.Context, opts ArchiveOptions) (ArchiveReport, error) {
	report := ArchiveReport{DryRun: opts.DryRun, Cutoff: j.clock.Now().Add(-opts.Keep)}
	var target io.Writer = io.Discard
	var file *draft
	if !opts.DryRun {
		var err error
		if file, err = newDraft(filepath.Join(j.folders.Archives, "archive.jsonl")); err != nil {
			return report, err
		}
		defer file.drop()
		target = file
	}
	w := newArchiveWriter(target)
	if err := w.put(archiveLine{Format: archiveFormat, Version: archiveVersion}); err != nil {
		return report, err
	}
	if err := j.writeEntries(ctx, w, opts, &report); err != nil || report.Entries == 0 {
		return report, err
	}
	if err := j.writeMessages(ctx, w, &report); err != nil {
		return report, err
	}
	err := w.put(archiveLine{End: &archiveEnd{report.First, report.Last, report.through, report.Entries, report.Messages}})
	if err == nil {
		report.SHA256, err = w.sum()
	}
	if err != nil {
		return report, err
	}
	report.File = fmt.Sprintf("archive-%012d-%012d.jsonl", report.First, report.Last)
	if opts.DryRun {
		return report, nil
	}
	file.path = filepath.Join(j.folders.Archives, report.File)
	if err := file.keep(); err != nil {
		return report, err
	}
	return report, nil
}

// writeEntries writes the oldest entries, as far as they are old enough and
// every consumer has seen them.
func (j *Records) writeEntries(ctx context.Context, w *archiveWriter, opts ArchiveOptions, report *ArchiveReport) error {
	after, seen := int64(0), int64(0)
	err := j.store.View(ctx, func(r hub.Reader) error {
		archives, err := r.Archives()
		if err != nil {
			return err
		}
		if len(archives) > 0 {
			newest := archives[len(archives)-1]
			after, report.through = newest.Seq, newest.Cutoff
		}
		seen, report.HeldBackBy, err = leastCursor(r, j.consumers)
		return err
	})
	if err != nil {
		return err
	}
	held := true // by the consumer
	through := report.Cutoff
	for more := true; more; {
		err := j.store.View(ctx, func(r hub.Reader) error {
			entries, err := r.Journal(hub.JournalQuery{After: after, Limit: archivePage})
			if err != nil {
				return err
			}
			more = len(entries) == archivePage
			for _, e := range entries {
				old := e.At.Before(report.Cutoff.Time)
				if !old || e.Seq > seen {
					held, more = old, false
					if e.At.Before(through.Time) {
						through = e.At
					}
					return nil
				}
				if err := w.put(archiveLine{Entry: &e}); err != nil {
					return err
				}
				if report.Entries == 0 {
					report.First = e.Seq
				}
				report.Last, report.hash, after = e.Seq, e.Hash, e.Seq
				report.Entries++
			}
			held = false
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !held {
		report.HeldBackBy = ""
	}
	if through = through.Add(-archiveSlack); through.After(report.through.Time) {
		report.through = through
	}
	return nil
}

// leastCursor returns up to where all consumers have come, and the one that is
// behind the others. The trail counts once it has begun.
func leastCursor(r hub.Reader, consumers []string) (least int64, behind string, err error) {
	least = int64(1)<<62 - 1
	trail, err := r.Cursor(filesCursor)
	if err != nil {
		return 0, "", err
	}
	if trail > 0 {
		least, behind = trail, filesCursor
	}
	for _, name := range consumers {
		seq, err := r.Cursor(name)
		if err != nil {
			return 0, "", err
		}
		if seq < least {
			least, behind = seq, name
		}
	}
	return least, behind, nil
}

// writeMessages writes the messages that are old enough.
func (j *Records) writeMessages(ctx context.Context, w *archiveWriter, report *ArchiveReport) error {
	after := hub.EnvelopeID("")
	for more := true; more; {
		err := j.store.View(ctx, func(r hub.Reader) error {
			messages, err := r.MessagesBefore(report.through, after, archivePage)
			if err != nil {
				return err
			}
			more = len(messages) == archivePage
			for _, m := range messages {
				c, err := archivedCopy(r, m)
				if err != nil {
					return err
				}
				if err := w.put(archiveLine{Message: c}); err != nil {
					return err
				}
				after = m.ID
				report.Messages++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// archiveFacts is what the journal keeps of an archive: all that the store's own
// list of archives says, so that the list can be checked.
type archiveFacts struct {
	First int64 `json:"first"`
	hub.Archive
}

// record notes an archive in the store. From then on its content may go.
func (j *Records) record(ctx context.Context, actor hub.Caller, report ArchiveReport) error {
	facts := archiveFacts{report.First, hub.Archive{
		Seq: report.Last, Hash: report.hash, Cutoff: report.through, File: report.File, SHA256: report.SHA256,
		Entries: report.Entries, Messages: report.Messages, At: j.clock.Now(),
	}}
	raw, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	err = j.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if err := tx.AddArchive(facts.Archive); err != nil {
			return err
		}
		_, err := tx.Append(hub.Entry{
			At: facts.At, Actor: actor.ID, Action: hub.ActionArchived, Subject: report.File, Outcome: hub.OutcomeOK, Facts: raw,
		})
		return err
	})
	if err == nil && j.bus != nil {
		j.bus.Publish(hub.TopicJournal)
	}
	return err
}

// errStraggler says that a message is older than the newest archive and yet not
// in it, as happens when a clock was set back. The next archive takes it along.
var errStraggler = hub.Errorf(hub.CodeConflict, "records.Archive", "it is older than the newest archive, but not in it")

// prune removes from the store what the newest archive holds, if anything is
// left of it, and returns how many entries and messages that were. The file is
// read first: what is not in it stays.
func (j *Records) prune(ctx context.Context) (int, error) {
	var newest hub.Archive
	left := false
	err := j.store.View(ctx, func(r hub.Reader) error {
		archives, err := r.Archives()
		if err != nil || len(archives) == 0 {
			return err
		}
		newest = archives[len(archives)-1]
		entries, err := r.Journal(hub.JournalQuery{After: 0, Limit: 1})
		if err != nil {
			return err
		}
		messages, err := r.MessagesBefore(newest.Cutoff, "", 1)
		left = len(messages) > 0 || len(entries) > 0 && entries[0].Seq <= newest.Seq
		return err
	})
	if err != nil || !left {
		return 0, err
	}
	var ids []hub.EnvelopeID
	sum, err := readArchive(filepath.Join(j.folders.Archives, filepath.Base(newest.File)), func(l archiveLine) error {
		if l.Message != nil {
			ids = append(ids, l.Message.ID)
		}
		return nil
	})
	if err == nil && sum != newest.SHA256 {
		err = errors.New("its content is not what was recorded")
	}
	if err != nil {
		return 0, hub.Errorf(hub.CodeConflict, "records.Archive", "the archive %s cannot be relied on, so nothing was removed: %v", newest.File, err).
			WithHint("put the file back where it was; parley audit verify tells what is wrong")
	}
	total := 0
	for {
		n := 0
		err := j.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
			due, err := tx.MessagesBefore(newest.Cutoff, "", archivePage)
			if err != nil {
				return err
			}
			for _, m := range due {
				if _, ok := slices.BinarySearch(ids, m.ID); !ok {
					return fmt.Errorf("message %s: %w", m.ID, errStraggler)
				}
			}
			n, err = tx.Prune(archivePage)
			return err
		})
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
}

// archiveAlone archives, unless another process does.
func (j *Records) archiveAlone(ctx context.Context) (ArchiveReport, error) {
	if _, err := j.store.Lease(ctx, "records.Archive", 2*archiveEvery); hub.CodeOf(err) == hub.CodeConflict {
		return ArchiveReport{}, nil
	} else if err != nil {
		return ArchiveReport{}, err
	}
	return j.Archive(ctx, hub.Caller{ID: hub.Self}, ArchiveOptions{Keep: j.keep})
}

// runArchive archives once a day, beginning now, until ctx ends.
func (j *Records) runArchive(ctx context.Context) {
	tick := time.NewTicker(archiveEvery)
	defer tick.Stop()
	for {
		report, err := j.archiveAlone(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			j.log.Warn("old entries could not be archived, it will be tried again", "op", "records.Archive", "err", err)
		case report.File != "":
			j.log.Info("old entries and messages were archived", "op", "records.Archive",
				"file", report.File, "entries", report.Entries, "messages", report.Messages)
		case report.HeldBackBy != "":
			j.log.Warn("old entries wait for a consumer of the journal", "op", "records.Archive", "consumer", report.HeldBackBy)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
