package records

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// A ForgetReport says where the text of a message was removed.
type ForgetReport struct {
	ID        hub.EnvelopeID `json:"id"`
	From      hub.AgentID    `json:"from"`
	SHA256    string         `json:"sha256"`            // of the envelope as it was sent; stays in the journal
	Files     []string       `json:"files"`             // segments that were written again
	Artifacts []string       `json:"artifacts_removed"` // hashes of contents that nothing else names
}

// A removal is the part of a Forget that files need. It is kept in the store until
// the files are done, so that a process killed at any instant finishes it at its
// next start.
type removal struct {
	ID        hub.EnvelopeID `json:"id"`
	Artifacts []string       `json:"artifacts,omitempty"` // that the message named
}

// removalKey is where the store keeps a removal that is not finished.
const removalKey = "records.removal"

// Forget removes the text of a message from everything that the hub keeps: first
// from the store, with a journal entry that holds the hash of the envelope, in one
// transaction; then from the segments of the trail and from archives, which are
// written again without the text and sealed anew; then the artifacts that nothing
// else names. A segment stays verifiable, because the entry about the sending holds
// the hash of the text, and the new sum of an archive is a journal entry. The copies
// that subscribers got lose their text, too. Only the
// operator may. A second call finishes one that failed.
func (r *Records) Forget(ctx context.Context, caller hub.Caller, id hub.EnvelopeID) (ForgetReport, error) {
	const op = "records.Forget"
	if err := caller.OperatorOnly(op); err != nil {
		return ForgetReport{}, err
	}

	r.archiving.Lock()
	defer r.archiving.Unlock()

	copies, err := hub.Read(ctx, r.store, func(rd hub.Reader) ([]hub.Copy, error) {
		return rd.Copies(hub.CopyQuery{Message: id, Limit: math.MaxInt32})
	})
	var report ForgetReport
	for _, c := range append(copies, hub.Copy{Copy: id}) { // a call that fails is repeated, so the message is the last
		if err != nil || c.Copy == "" {
			continue
		}
		files := report.Files
		var rem removal
		if report, rem, err = r.forgetStored(ctx, op, caller, c.Copy); err == nil {
			err = r.finishRemoval(ctx, caller, rem, &report)
		}

		// The report names the files of all copies.
		for _, name := range files {
			if !slices.Contains(report.Files, name) {
				report.Files = append(report.Files, name)
			}
		}
	}

	if err != nil {
		return report, fmt.Errorf("records: forget: %w", diskError(op, err))
	}
	return report, nil
}

// forgetStored removes the text from the store and records that.
func (r *Records) forgetStored(ctx context.Context, op string, caller hub.Caller, id hub.EnvelopeID) (ForgetReport, removal, error) {
	report := ForgetReport{ID: id, Files: []string{}, Artifacts: []string{}}
	var rem removal
	archived, err := r.archivedEnvelope(ctx, id)
	if err != nil {
		return report, rem, err
	}

	err = r.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		rem = removal{ID: id}
		m, err := tx.Message(id)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound && archived != nil:
			m.Envelope = *archived
		case hub.CodeOf(err) == hub.CodeNotFound:
			return hub.Errorf(hub.CodeNotFound, op, "no message with id %q", id)
		case err != nil:
			return err
		}

		if m.Type.Family() == "handoff" {
			return hub.Errorf(hub.CodeConflict, op, "cannot remove the text of a handoff message: the handoff's proof depends on it").
				WithHint("end the handoff, and replace the secret that was in it")
		}

		report.From = m.From
		if m.IsForgotten() { // by an earlier call, which may not have finished
			report.SHA256, err = forgottenSum(tx, id)
			rem.Artifacts = pendingRemoval(tx).Artifacts
		} else {
			report.SHA256 = m.Digest()
			if m.Context != nil {
				for _, a := range m.Context.Artifacts {
					if a.SHA256 != "" {
						rem.Artifacts = append(rem.Artifacts, a.SHA256)
					}
				}
			}
			_, err = tx.Append(caller.Entry(r.clock.Now(), actions.MessageForgotten, string(id), map[string]any{"sha256": report.SHA256}))
			if err == nil {
				err = tx.ForgetText(id)
			}
		}
		if err != nil {
			return err
		}

		// A hub that is killed finds the removal here at its next start, and finishes it.
		raw, err := json.Marshal(rem)
		if err != nil {
			return err
		}
		return tx.PutMeta(removalKey, string(raw))
	})
	if err == nil && r.bus != nil {
		r.bus.Publish(hub.TopicJournal)
	}
	return report, rem, err
}

// forgottenSum returns the hash that the entry about an earlier removal holds, "" if
// that entry has left the store.
func forgottenSum(rd hub.Reader, id hub.EnvelopeID) (string, error) {
	e, err := entryAbout(rd, string(id), actions.MessageForgotten)
	var facts rewriteFacts
	if err != nil || e.Seq == 0 {
		return "", err
	}
	return facts.SHA256, json.Unmarshal(e.Facts, &facts)
}

// entryAbout returns the newest entry in the store about a subject with an action, or
// one with number 0.
func entryAbout(rd hub.Reader, subject string, action actions.Action) (hub.Entry, error) {
	entries, err := rd.Journal(hub.JournalQuery{Subject: subject, Newest: true, Limit: maxSubject})
	i := slices.IndexFunc(entries, func(e hub.Entry) bool { return e.Action == action })
	if i < 0 {
		return hub.Entry{}, err
	}
	return entries[i], err
}

// pendingRemoval returns the removal that is not finished, the zero value if there is
// none.
func pendingRemoval(rd hub.Reader) (rem removal) {
	if raw, err := rd.Meta(removalKey); err == nil && raw != "" {
		json.Unmarshal([]byte(raw), &rem) // written by forgetStored
	}
	return rem
}

// resumeRemoval finishes a removal that a killed process has left.
func (r *Records) resumeRemoval(ctx context.Context) error {
	r.archiving.Lock()
	defer r.archiving.Unlock()
	var rem removal
	err := r.store.View(ctx, func(rd hub.Reader) error {
		rem = pendingRemoval(rd)
		return nil
	})
	if err != nil || rem.ID == "" {
		return err
	}
	return r.finishRemoval(ctx, hub.Caller{ID: hub.Self}, rem, &ForgetReport{})
}

// finishRemoval removes the text from the files. Every step can be repeated.
func (r *Records) finishRemoval(ctx context.Context, caller hub.Caller, rem removal, report *ForgetReport) error {
	r.files.Lock()
	defer r.files.Unlock()

	if r.folders.Trail != "" {
		files, err := r.trail.rewrite(rem.ID)
		report.Files = append(report.Files, files...)
		if err != nil {
			return err
		}
	}
	if err := r.rewriteArchives(ctx, caller, rem.ID, report); err != nil {
		return err
	}

	// An artifact is removed only if neither the store nor an archive names it.
	removed := []string{}
	for _, sum := range rem.Artifacts {
		named := true
		err := r.store.View(ctx, func(rd hub.Reader) (err error) {
			named, err = rd.NamesArtifact(sum)
			return err
		})
		if err == nil && !named {
			named, err = r.namedInArchives(ctx, sum)
		}
		if err == nil && !named && r.artifacts != nil {
			err = r.artifacts.Remove(sum)
			removed = append(removed, sum)
		}
		if err != nil {
			return err
		}
	}

	report.Artifacts = removed
	err := r.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		for _, sum := range removed {
			if err := tx.RemoveArtifactReaders(sum); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && r.emptyLog != nil {
		err = r.emptyLog(ctx)
	}
	if err != nil {
		return err
	}

	// The removal is finished, so a restart does not repeat it.
	return r.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutMeta(removalKey, "") })
}

// forgetLine removes the text of a message from a line, and reports whether the line
// held it.
func forgetLine(l *line, id hub.EnvelopeID) (bool, error) {
	var raw *json.RawMessage
	switch {
	case l.Entry != nil && l.Entry.Subject == string(id) && l.Envelope != nil:
		raw = &l.Envelope
	case l.Message != nil && l.Message.ID == id:
		raw = &l.Message.Envelope
	default:
		return false, nil
	}
	e, err := shape.DecodeEnvelope(*raw)
	if err != nil || e.IsForgotten() {
		return false, err
	}
	*raw, err = e.Forgotten().MarshalJSON()
	return true, err
}

// rewriteSegment writes a segment again, without the text of a message and with a new
// seal if it has one, into a draft. Every other line keeps its bytes. It returns the
// SHA-256 of the draft, "" if the segment does not hold the text.
func rewriteSegment(path, draft string, id hub.EnvelopeID) (sum string, err error) {
	if found, err := fileHolds(path, string(id)); err != nil || !found {
		return "", err
	}

	s, err := openSegment(path)
	if err != nil {
		return "", err
	}
	defer s.close()
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil || sum == "" {
			os.Remove(draft) // the next attempt replaces it
		}
	}()

	w := newSegmentWriter(f)
	if err := w.copy(line{}, s.first); err != nil {
		return "", err
	}

	// The loop ends at the seal, or at the end of an open segment, which has none.
	changed := false
	for {
		l, err := s.next()
		switch {
		case err == io.EOF || errors.Is(err, errUnsealed):
			if !changed {
				return "", nil
			}
			return w.finish(err == io.EOF, s.header.Format == oldArchiveFormat)
		case err != nil:
			return "", fmt.Errorf("%s: %w", path, err)
		}

		hit, err := forgetLine(&l, id)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s line %d: %w", path, s.n, err)
		case hit:
			changed = true
			err = w.put(l)
		default:
			err = w.copy(l, s.raw)
		}
		if err != nil {
			return "", err
		}
	}
}

// copy writes one line as it is.
func (w *segmentWriter) copy(l line, raw []byte) error {
	w.seal.add(l)
	_, err := w.out.Write(append(raw[:len(raw):len(raw)], '\n'))
	return err
}

// finish ends a segment that was written again: with a seal, with the end of an old
// archive, which has no hashes, or open. It returns the SHA-256 of the whole.
func (w *segmentWriter) finish(sealed, old bool) (string, error) {
	if sealed && !old {
		return w.close()
	}
	if sealed {
		end := w.seal
		end.Hash = ""
		if err := w.put(line{End: &end}); err != nil {
			return "", err
		}
	}
	if err := w.out.Flush(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", w.sum.Sum(nil)), nil
}

// fileHolds reports whether a line of a file contains a text. A file that is not there
// holds nothing.
func fileHolds(path, text string) (bool, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte(text)) {
			return true, nil
		}
	}
	return false, lines.Err()
}

// rewrite removes the text of a message from the segments of the trail, those included
// that were set aside, and returns their names.
func (t *trail) rewrite(id hub.EnvelopeID) (files []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names, err := fs.Glob(os.DirFS(t.dir), "segment-*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(t.dir, name)
		draft := filepath.Join(t.dir, "rewrite.partial")
		sum, err := rewriteSegment(path, draft, id)
		if err != nil {
			return files, err
		}
		if sum == "" {
			continue
		}
		t.known = false // the open segment has another length now
		if err := durable.Rename(draft, path); err != nil {
			return files, err
		}
		files = append(files, name)
	}
	return files, nil
}

// rewriteFacts are the facts of the entry about an archive that was written again.
type rewriteFacts struct {
	SHA256  string         `json:"sha256"`
	Was     string         `json:"was,omitempty"`
	Message hub.EnvelopeID `json:"message,omitempty"`
}

// rewriteArchives removes the text of a message from archives. The entry with the new
// sum is stored before the file gets its name: a process killed in between writes the
// same bytes again, with the same sum.
func (r *Records) rewriteArchives(ctx context.Context, caller hub.Caller, id hub.EnvelopeID, report *ForgetReport) error {
	archives, err := r.archiveList(ctx)
	if err != nil {
		return err
	}

	for _, a := range archives {
		path := filepath.Join(r.folders.Archives, filepath.Base(a.File))
		draft := path + ".partial"
		sum, err := rewriteSegment(path, draft, id)
		if err != nil {
			return err
		}
		if sum == "" {
			continue
		}

		err = r.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
			was, err := archiveSum(tx, a)
			if err != nil {
				return err
			}
			_, err = tx.Append(caller.Entry(r.clock.Now(), actions.ArchiveRewritten, a.File, map[string]any{"sha256": sum, "was": was, "message": id}))
			return err
		})
		if err != nil {
			return err
		}

		if err := durable.Rename(draft, path); err != nil {
			return err
		}
		report.Files = append(report.Files, a.File)
	}
	return nil
}

// archiveSum returns the SHA-256 that an archive has now: as it was listed, or as the
// newest entry in the store about it says.
func archiveSum(rd hub.Reader, a hub.Archive) (string, error) {
	e, err := entryAbout(rd, a.File, actions.ArchiveRewritten)
	if err != nil || e.Seq == 0 {
		return a.SHA256, err
	}
	var facts rewriteFacts
	err = json.Unmarshal(e.Facts, &facts)
	return facts.SHA256, err
}

// archiveList returns the archives, none if no folder for them was given.
func (r *Records) archiveList(ctx context.Context) (archives []hub.Archive, err error) {
	if r.folders.Archives == "" {
		return nil, nil
	}
	err = r.store.View(ctx, func(rd hub.Reader) (err error) {
		archives, err = rd.Archives()
		return err
	})
	return archives, err
}

// archivedEnvelope returns the envelope of a message in an archive, nil if it is in
// none.
func (r *Records) archivedEnvelope(ctx context.Context, id hub.EnvelopeID) (found *hub.Envelope, err error) {
	archives, err := r.archiveList(ctx)
	for _, a := range archives {
		path := filepath.Join(r.folders.Archives, filepath.Base(a.File))
		if held, err := fileHolds(path, string(id)); err != nil || !held {
			if err != nil {
				return nil, err
			}
			continue
		}
		_, err := readSegment(path, func(l line) error {
			if l.Message == nil || l.Message.ID != id {
				return nil
			}
			e, err := shape.DecodeEnvelope(l.Message.Envelope)
			found = &e
			return err
		})
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, err
}

// namedInArchives reports whether a message in an archive names content by its hash.
// The entry about the storing of the content does not: it is there with every artifact.
func (r *Records) namedInArchives(ctx context.Context, sum string) (named bool, err error) {
	archives, err := r.archiveList(ctx)
	for _, a := range archives {
		path := filepath.Join(r.folders.Archives, filepath.Base(a.File))
		held, err := fileHolds(path, sum)
		if err == nil && held {
			_, err = readSegment(path, func(l line) error {
				named = named || (l.Message != nil && bytes.Contains(l.Message.Envelope, []byte(sum)))
				return nil
			})
		}
		if err != nil || named {
			return named, err
		}
	}
	return false, err
}

// recordedLater returns the newest entry about a subject with an action, in the store
// or in an archive; its number is 0 if there is none. Entries in archives are searched
// only for the few subjects whose text or file differs from the first record.
func (v *verifier) recordedLater(r hub.Reader, subject string, action actions.Action) (hub.Entry, error) {
	found, err := entryAbout(r, subject, action)
	if err != nil || found.Seq > 0 {
		return found, err
	}
	for _, a := range v.Archives {
		// A file that cannot be read is a finding of readArchive.
		readSegment(v.archivePath(a), func(l line) error {
			if l.Entry != nil && l.Entry.Subject == subject && l.Entry.Action == action {
				found = *l.Entry
			}
			return nil
		})
	}
	return found, nil
}

// rewritten reports whether an archive was written again by the hub and has had this
// sum since.
func (v *verifier) rewritten(ctx context.Context, a hub.Archive, sum string) (ok bool, err error) {
	err = v.store.View(ctx, func(r hub.Reader) error {
		e, err := v.recordedLater(r, a.File, actions.ArchiveRewritten)
		var facts rewriteFacts
		ok = err == nil && e.Seq > 0 && json.Unmarshal(e.Facts, &facts) == nil && facts.SHA256 == sum
		return err
	})
	return ok, err
}
