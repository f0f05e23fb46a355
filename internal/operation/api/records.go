package api

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/records"
)

// Records is what a hub keeps as a whole: it can be checked, thinned out and
// copied.
type Records interface {
	// Verify compares everything with the records.
	Verify(ctx context.Context) (records.Audit, error)
	// VerifyFor does so for some time, and can be resumed.
	VerifyFor(ctx context.Context, span time.Duration, resume string) (records.Audit, error)
	// Archive moves old entries and messages into a file.
	Archive(ctx context.Context, actor hub.Caller, opts records.ArchiveOptions) (records.ArchiveReport, error)
	// Export writes everything as JSONL into a folder that does not exist yet.
	Export(ctx context.Context, dir string, restricted bool) (records.Manifest, error)
	// Backup copies the home into a folder that does not exist yet.
	Backup(ctx context.Context, dir string) error
	// RebuildTree makes the tree over the journal again, and returns the number of its leaves.
	RebuildTree(ctx context.Context) (int64, error)
	Forget(ctx context.Context, caller hub.Caller, id hub.EnvelopeID) (records.ForgetReport, error)
}

// AuditParams choose journal entries. Empty members do not restrict.
type AuditParams struct {
	After  int64            `json:"after,omitempty"` // number of the last entry seen
	Actor  hub.AgentID      `json:"actor,omitempty"`
	Action actions.Action   `json:"action,omitempty"`
	Limit  strictjson.Count `json:"limit,omitzero"`
	Last   bool             `json:"last,omitempty"`   // the newest in place of the oldest
	Before int64            `json:"before,omitempty"` // with last: the newest before this number
}

// An AuditPage is a part of the journal, oldest first.
type AuditPage struct {
	Entries []hub.Entry `json:"entries"`
	Next    int64       `json:"next"`            // after this one the page that follows begins; 0 at the end
	Older   int64       `json:"older,omitempty"` // with last: before this one the page of older entries begins; 0 at the end
	Head    hub.Head    `json:"head"`
}

const (
	auditPage = 50
	maxAudit  = 1000
	scanPage  = 1000 // entries looked at at a time
)

func audit(ctx context.Context, s *Services, a hub.Caller, p AuditParams) (AuditPage, error) {
	const op = "parley/audit"
	if p.Limit == 0 {
		p.Limit = auditPage
	}
	if p.Limit < 0 || p.Limit > maxAudit || p.After < 0 {
		return AuditPage{}, hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, and after must not be negative", maxAudit)
	}

	head, err := s.Journal.Head(ctx)
	if err != nil {
		return AuditPage{}, err
	}
	out := AuditPage{Entries: []hub.Entry{}, Head: head}

	fits := func(e hub.Entry) bool {
		return (p.Actor == "" || e.Actor == p.Actor) && (p.Action == "" || e.Action == p.Action)
	}
	if p.Last {
		return out, out.readBack(ctx, s, a, p, fits)
	}

	// The journal is read in parts until the page is full; one fitting entry beyond it proves that
	// there is a next page.
	for after := p.After; ; {
		entries, last, err := s.Journal.Events(ctx, a, after, scanPage)
		if err != nil {
			return AuditPage{}, err
		}
		for _, e := range entries {
			if !fits(e) {
				continue
			}
			if len(out.Entries) == int(p.Limit) {
				out.Next = out.Entries[p.Limit-1].Seq
				return out, nil
			}
			out.Entries = append(out.Entries, e)
		}
		if last == after {
			return out, nil
		}
		after = last
	}
}

// readBack fills a page with the newest entries that fit. It reads the journal from its
// end, a part at a time, because the numbers of entries have no gaps.
func (out *AuditPage) readBack(ctx context.Context, s *Services, a hub.Caller, p AuditParams, fits func(hub.Entry) bool) error {
	end := out.Head.Seq + 1
	if p.Before > 0 {
		end = min(end, p.Before)
	}
	for size := int64(p.Limit); end > p.After+1; size = scanPage {
		begin := max(p.After, end-1-size)
		entries, _, err := s.Journal.Events(ctx, a, begin, int(end-1-begin))
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(entries) {
			if e.Seq >= end || !fits(e) {
				continue
			}
			if len(out.Entries) == int(p.Limit) {
				out.Older = out.Entries[p.Limit-1].Seq
				slices.Reverse(out.Entries)
				return nil
			}
			out.Entries = append(out.Entries, e)
		}
		end = begin + 1
	}
	slices.Reverse(out.Entries)
	return nil
}

// VerifyParams are the parameters of parley/audit/verify.
type VerifyParams struct {
	ForMS  int64  `json:"for_ms,omitempty"` // milliseconds after which it pauses and answers with its progress; 0 to go to the end
	Resume string `json:"resume,omitempty"` // id of a verification that paused, or "last"; needs for_ms
}

const maxVerify = 10 * time.Minute // of one call

func verify(ctx context.Context, s *Services, a hub.Caller, p VerifyParams) (records.Audit, error) {
	if !a.Audits() {
		return records.Audit{}, hub.Errorf(hub.CodeDenied, "parley/audit/verify", "only the operator and auditors can verify the records")
	}
	switch {
	case p.ForMS < 0 || p.ForMS > maxVerify.Milliseconds():
		return records.Audit{}, hub.Errorf(hub.CodeInvalid, "parley/audit/verify", "for_ms must be between 0 and %d", maxVerify.Milliseconds())
	case p.ForMS > 0:
		return s.Records.VerifyFor(ctx, time.Duration(p.ForMS)*time.Millisecond, p.Resume)
	case p.Resume != "":
		return records.Audit{}, hub.Errorf(hub.CodeInvalid, "parley/audit/verify", "resume needs for_ms")
	}
	return s.Records.Verify(ctx)
}

// ArchiveParams are the parameters of parley/archive.
type ArchiveParams struct {
	KeepS  strictjson.Count `json:"keep_s,omitzero"` // seconds that anything is kept; default 90 days
	DryRun bool             `json:"dry_run,omitempty"`
}

func archive(ctx context.Context, s *Services, a hub.Caller, p ArchiveParams) (records.ArchiveReport, error) {
	if int64(p.KeepS) > int64(100*365*24*time.Hour/time.Second) {
		return records.ArchiveReport{}, hub.Errorf(hub.CodeInvalid, "parley/archive", "keep_s is not a valid time span")
	}
	return s.Records.Archive(ctx, a, records.ArchiveOptions{Keep: time.Duration(p.KeepS) * time.Second, DryRun: p.DryRun})
}

// CopyParams say where a copy goes, on the hub's machine.
type CopyParams struct {
	Path       string `json:"path"`
	Restricted bool   `json:"restricted,omitempty"` // an export has restricted packages, too
}

func (p CopyParams) check(op string) error {
	if !filepath.IsAbs(p.Path) {
		return hub.Errorf(hub.CodeInvalid, op, "path must be absolute, got %q", p.Path)
	}
	return nil
}

func export(ctx context.Context, s *Services, _ hub.Caller, p CopyParams) (records.Manifest, error) {
	if err := p.check("parley/export"); err != nil {
		return records.Manifest{}, err
	}
	return s.Records.Export(ctx, p.Path, p.Restricted)
}

// A BackupCopy names a copy of a hub.
type BackupCopy struct {
	Path string `json:"path"`
}

func backup(ctx context.Context, s *Services, _ hub.Caller, p CopyParams) (BackupCopy, error) {
	if err := p.check("parley/backup"); err != nil {
		return BackupCopy{}, err
	}
	return BackupCopy{p.Path}, s.Records.Backup(ctx, p.Path)
}

func forget(ctx context.Context, s *Services, a hub.Caller, p IDParams) (records.ForgetReport, error) {
	id, err := s.Mail.Resolve(ctx, "parley/forget", a, p.ID)
	if err != nil {
		return records.ForgetReport{}, err
	}
	got, err := s.Records.Forget(ctx, a, id)
	if err == nil {
		err = s.Mail.RenderFiles(ctx, id)
	}
	return got, err
}
