package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/durable"
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

// An ArchiveReport describes an archive that was made, or that a dry run would make.
type ArchiveReport struct {
	DryRun     bool     `json:"dry_run"`
	Cutoff     hub.Time `json:"cutoff,omitzero"`  // older entries and messages may go
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

// Archive moves old entries and messages into a sealed segment, and then out of
// the store. Handoffs, their history and the messages about them stay for ever.
// Only the operator and the hub itself may. While another process archives, the
// call does nothing.
//
// Killed at any instant, nothing is lost: the segment is complete before the
// store lists it, the store lists it before anything is removed, and only rows
// in the segment are removed. The next call removes the rest.
func (r *Records) Archive(ctx context.Context, caller hub.Caller, opts ArchiveOptions) (ArchiveReport, error) {
	const op = "records.Archive"
	if !caller.IsOperator() && caller.ID != hub.Self {
		return ArchiveReport{}, hub.Errorf(hub.CodeDenied, op, "only the operator can archive; you are %s", caller.ID)
	}
	opts.Keep = cmp.Or(opts.Keep, archiveKeep)
	if opts.Keep < archiveLeast {
		return ArchiveReport{}, hub.Errorf(hub.CodeInvalid, op, "entries younger than a day cannot be archived")
	}
	if r.folders.Archives == "" {
		return ArchiveReport{}, hub.Errorf(hub.CodeInvalid, op, "no archive folder was given")
	}
	r.archiving.Lock()
	defer r.archiving.Unlock()
	var report ArchiveReport
	err := hub.Alone(ctx, r.store, op, 2*archiveEvery, func(store hub.Store) (err error) {
		report, err = r.archive(ctx, store, caller, opts)
		return err
	})
	if err != nil {
		return report, fmt.Errorf("records: archive: %w", diskError(op, err))
	}
	return report, nil
}

func (r *Records) archive(ctx context.Context, store hub.Store, caller hub.Caller, opts ArchiveOptions) (ArchiveReport, error) {
	report := ArchiveReport{DryRun: opts.DryRun, Cutoff: r.clock.Now().Add(-opts.Keep)}
	if opts.DryRun {
		return report, r.writeArchive(ctx, io.Discard, &report)
	}

	// The rest of the last archive leaves the store first. A message that it does not hold comes
	// into the new archive.
	pruned, err := r.prune(ctx, store)
	if err != nil && !errors.Is(err, errStraggler) {
		return report, err
	}
	report.Pruned = pruned

	if err := os.MkdirAll(r.folders.Archives, 0o700); err != nil {
		return report, err
	}
	draft := filepath.Join(r.folders.Archives, "archive.jsonl.partial")
	defer os.Remove(draft) // which has another name after a success
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return report, err
	}
	err = r.writeArchive(ctx, f, &report)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil || report.File == "" {
		return report, err
	}

	// An archive is listed after its file is durable, and pruned after it is listed.
	if err := durable.Rename(draft, filepath.Join(r.folders.Archives, report.File)); err != nil {
		return report, err
	}
	if err := r.list(ctx, store, caller, report); err != nil {
		return report, err
	}

	pruned, err = r.prune(ctx, store)
	report.Pruned += pruned
	return report, err
}

// writeArchive writes the segment, if anything is old enough, and completes the
// report.
func (r *Records) writeArchive(ctx context.Context, out io.Writer, report *ArchiveReport) error {
	w := newSegmentWriter(out)
	if err := r.writeEntries(ctx, w, report); err != nil || w.seal.Entries == 0 {
		return err
	}
	if err := r.writeMessages(ctx, w, report.through); err != nil {
		return err
	}
	s := w.seal
	report.First = s.First
	report.Last = s.Last
	report.Entries = s.Entries
	report.Messages = s.Messages
	report.hash = s.Hash
	report.File = fmt.Sprintf("archive-%012d-%012d.jsonl", s.First, s.Last)
	var err error
	report.SHA256, err = w.close()
	return err
}

// writeEntries writes the oldest entries, up to the first one that is too young
// or that a consumer has not seen.
func (r *Records) writeEntries(ctx context.Context, w *segmentWriter, report *ArchiveReport) error {
	var newest hub.Archive
	var seen int64
	var behind string
	err := r.store.View(ctx, func(rd hub.Reader) (err error) {
		if _, newest, err = archivesIn(rd); err != nil {
			return err
		}
		seen, behind, err = leastCursor(rd, r.folders.cursor(), r.consumers)
		return err
	})
	if err != nil {
		return err
	}

	if err := w.put(line{Format: segmentFormat, Version: segmentVersion, After: newest.Seq, Hash: newest.Hash}); err != nil {
		return err
	}

	// Messages are archived up to the cutoff, or up to the first entry that stays if that is
	// older.
	after, through := newest.Seq, report.Cutoff
	err = inPages(ctx, r.store, func(rd hub.Reader) (bool, error) {
		entries, err := rd.Journal(hub.JournalQuery{After: after, Limit: archivePage})
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			old := e.At.Before(report.Cutoff.Time)
			if !old || e.Seq > seen {
				if old {
					report.HeldBackBy = behind
				}
				if e.At.Before(through.Time) {
					through = e.At
				}
				return false, nil
			}

			l, err := entryLine(rd, e, false)
			if err == nil {
				err = w.put(l)
			}
			if err != nil {
				return false, err
			}
			after = e.Seq
		}
		return len(entries) == archivePage, nil
	})
	if err != nil {
		return err
	}

	// The cutoff of an archive is never before that of the last one.
	report.through = newest.Cutoff
	if through = through.Add(-archiveSlack); through.After(report.through.Time) {
		report.through = through
	}
	return nil
}

// leastCursor returns the number up to which all consumers have read, and the
// name of the slowest. The trail counts once it has begun.
func leastCursor(r hub.Reader, trail string, consumers []string) (least int64, slowest string, err error) {
	least = 1<<62 - 1
	for _, name := range append([]string{trail}, consumers...) {
		seq, err := r.Cursor(name)
		if err != nil {
			return 0, "", err
		}
		if seq < least && (seq > 0 || name != trail) {
			least, slowest = seq, name
		}
	}
	return least, slowest, nil
}

// writeMessages writes the messages that were made before a time.
func (r *Records) writeMessages(ctx context.Context, w *segmentWriter, through hub.Time) error {
	after := hub.EnvelopeID("")
	return inPages(ctx, r.store, func(rd hub.Reader) (bool, error) {
		messages, err := rd.MessagesBefore(through, after, archivePage)
		if err != nil {
			return false, err
		}
		for _, m := range messages {
			row, err := newMessageRow(rd, m)
			if err == nil {
				err = w.put(line{Message: row})
			}
			if err != nil {
				return false, err
			}
			after = m.ID
		}
		return len(messages) == archivePage, nil
	})
}

// archiveFacts is the entry about an archive: everything that the store's own
// list of archives says, so that the list can be checked.
type archiveFacts struct {
	First int64 `json:"first"`
	hub.Archive
}

// list adds an archive to the store's list. From then on its content may be
// removed.
func (r *Records) list(ctx context.Context, store hub.Store, caller hub.Caller, report ArchiveReport) error {
	facts := archiveFacts{report.First, hub.Archive{
		Seq: report.Last, Hash: report.hash, Cutoff: report.through, File: report.File, SHA256: report.SHA256,
		Entries: report.Entries, Messages: report.Messages, At: r.clock.Now(),
	}}
	err := store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if err := tx.AddArchive(facts.Archive); err != nil {
			return err
		}
		_, err := tx.Append(caller.Entry(facts.At, actions.Archived, report.File, facts))
		return err
	})
	if err == nil && r.bus != nil {
		r.bus.Publish(hub.TopicJournal)
	}
	return err
}

// errStraggler reports a message that is older than the newest archive and yet
// not in it, as after a clock was set back. The next archive takes it along.
var errStraggler = hub.Errorf(hub.CodeConflict, "records.Archive", "it is older than the newest archive, but not in it")

// prune removes the content of the newest archive from the store, if any of it
// is left, and returns the number of entries and messages that it removed. The
// segment is read first: a message that is not in it stays.
func (r *Records) prune(ctx context.Context, store hub.Store) (int, error) {
	var newest hub.Archive
	var want string // SHA-256 of its file
	left := false
	err := r.store.View(ctx, func(rd hub.Reader) (err error) {
		if _, newest, err = archivesIn(rd); err != nil || newest.Seq == 0 {
			return err
		}
		if want, err = archiveSum(rd, newest); err != nil {
			return err
		}
		entries, err := rd.Journal(hub.JournalQuery{Limit: 1})
		if err != nil {
			return err
		}
		messages, err := rd.MessagesBefore(newest.Cutoff, "", 1)
		left = len(messages) > 0 || (len(entries) > 0 && entries[0].Seq <= newest.Seq)
		return err
	})
	if err != nil || !left {
		return 0, err
	}

	var ids []hub.EnvelopeID // in order
	s, err := readSegment(filepath.Join(r.folders.Archives, filepath.Base(newest.File)), func(l line) error {
		if l.Message != nil {
			ids = append(ids, l.Message.ID)
		}
		return nil
	})
	if err == nil && s.fileSum() != want {
		err = errors.New("its content differs from the recorded hash")
	}
	if err != nil {
		return 0, hub.Errorf(hub.CodeConflict, "records.Archive", "archive %s is not intact, so nothing was removed: %v", newest.File, err).
			WithHint("put the file back into the archive folder; parley hub verify shows what is wrong")
	}

	// One page at a time leaves the store, and only messages that the segment holds.
	total := 0
	for {
		n := 0
		err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
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

// runArchive archives once a day, beginning now, until ctx ends.
func (r *Records) runArchive(ctx context.Context) {
	tick := time.NewTicker(archiveEvery)
	defer tick.Stop()
	for {
		var report ArchiveReport
		err := hub.Contain("records.Archive", func() (err error) {
			report, err = r.Archive(ctx, hub.Caller{ID: hub.Self}, ArchiveOptions{Keep: r.keep})
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.log.Warn("cannot archive old entries, will retry", "op", "records.Archive", "err", err)
		case report.File != "":
			r.log.Info("old entries and messages were archived", "op", "records.Archive",
				"file", report.File, "entries", report.Entries, "messages", report.Messages)
		case report.HeldBackBy != "":
			r.log.Warn("old entries wait for a consumer of the journal", "op", "records.Archive", "consumer", report.HeldBackBy)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Archived calls each with the entries after a number that are in archives, in their order.
func (r *Records) Archived(ctx context.Context, after int64, each func(hub.Entry) error) error {
	r.files.RLock()
	defer r.files.RUnlock()
	archives, err := hub.Read(ctx, r.store, func(reader hub.Reader) ([]hub.Archive, error) { return reader.Archives() })
	if err != nil {
		return fmt.Errorf("records: archived: %w", err)
	}
	for _, a := range archives {
		if a.Seq <= after {
			continue
		}
		_, err := readSegment(filepath.Join(r.folders.Archives, filepath.Base(a.File)), func(l line) error {
			if l.Entry == nil || l.Entry.Seq <= after {
				return ctx.Err()
			}
			return each(*l.Entry)
		})
		if err != nil {
			return fmt.Errorf("records: archive %s: %w", a.File, err)
		}
	}
	return nil
}
