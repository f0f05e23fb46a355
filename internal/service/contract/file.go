package contract

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A NewFile describes a file to share.
type NewFile struct {
	Project     coord.ProjectID
	As          As
	Name        string
	ContentType string
	Purpose     string
	Content     string // base64, without blanks
}

// A File is a stored file.
type File struct {
	SavedTo string `json:"savedTo"` // below the hub's folder for shared files
	Size    int    `json:"size"`
	SHA256  string `json:"sha256"`
}

// ShareFile stores a file in the project's folder.
func (s *Service) ShareFile(ctx context.Context, caller hub.Caller, n NewFile) (File, error) {
	return s.keepFile(ctx, "contract.ShareFile", caller, n, func(*session, coord.Project, File) error { return nil })
}

// FulfilRequest stores a file that a repository requested.
func (s *Service) FulfilRequest(ctx context.Context, caller hub.Caller, requestID string, n NewFile) (File, error) {
	const op = "contract.FulfilRequest"
	return s.keepFile(ctx, op, caller, n, func(se *session, p coord.Project, f File) error {
		r, err := se.tx.Coordination().FileRequest(p.ID, requestID)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return hub.Errorf(hub.CodeNotFound, op, "Request %s not found", requestID)
		}
		if err != nil {
			return err
		}
		if !r.FulfilledAt.IsZero() {
			return hub.Errorf(hub.CodeConflict, op, "Request %s is already fulfilled", requestID)
		}
		r.FulfilledAt, r.File = r.At.After(s.o.Clock), f.SavedTo
		return se.tx.WriteCoordination().PutFileRequest(r)
	})
}

// sharedBytes is the key under which the store counts the bytes of shared files, and
// fileOverhead the bytes that each counts beside its content.
const (
	sharedBytes  = "files.bytes"
	fileOverhead = 4096
)

// keepFile writes a file and then records it in one transaction with and. A file that
// cannot be recorded is removed again.
func (s *Service) keepFile(ctx context.Context, op string, caller hub.Caller, n NewFile, and func(*session, coord.Project, File) error) (File, error) {
	if s.o.Files == nil {
		return File{}, hub.Errorf(hub.CodeNotEnabled, op, "shared files are not enabled on this hub")
	}
	data, err := s.decodeFile(op, n)
	if err != nil {
		return File{}, err
	}

	sum := sha256.Sum256(data)
	f := File{Size: len(data), SHA256: hex.EncodeToString(sum[:])}

	// The permission is checked before the file is written, and again in the transaction that
	// records it.
	if err := s.act(ctx, op, caller, n.Project, n.As, coord.PermitFiles, func(*session, coord.Project, coord.Repo) error { return nil }); err != nil {
		return File{}, err // before anything is written
	}
	if f.SavedTo, err = s.save(op, n, data); err != nil {
		return File{}, err
	}

	err = s.act(ctx, op, caller, n.Project, n.As, coord.PermitFiles, func(se *session, p coord.Project, by coord.Repo) error {
		if err := se.countFile(op, int64(f.Size)+fileOverhead); err != nil {
			return err
		}
		if err := se.charge(op, Rate{Things: 1, Bytes: int64(f.Size)}); err != nil {
			return err
		}
		if err := and(se, p, f); err != nil {
			return err
		}
		se.changed = true
		return se.note(actions.FileShared, f.SHA256, hub.OutcomeOK, facts{Project: p.ID, Repo: by.ID, Agent: s.aid(caller), Digest: f.SHA256, Action: n.Purpose})
	})
	if err != nil {
		return File{}, errors.Join(err, s.o.Files.Remove(f.SavedTo))
	}
	return f, nil
}

// decodeFile checks a file before it is decoded, and decodes it strictly.
func (s *Service) decodeFile(op string, n NewFile) ([]byte, error) {
	switch {
	case n.Name == "":
		return nil, hub.Errorf(hub.CodeInvalid, op, "file.name required")
	case !n.Project.Valid():
		return nil, hub.Errorf(hub.CodeInvalid, op, "projectId %q is not a valid id", n.Project)
	case len(n.Purpose) > federation.MaxName || len(n.ContentType) > federation.MaxName:
		return nil, hub.Errorf(hub.CodeTooLarge, op, "purpose and contentType must be at most %d bytes each", federation.MaxName)
	case base64.StdEncoding.DecodedLen(len(n.Content)) > s.o.Limits.File+2:
		return nil, hub.Errorf(hub.CodeTooLarge, op, "file.content is too large: about %d bytes, at most %d are allowed", base64.StdEncoding.DecodedLen(len(n.Content)), s.o.Limits.File)
	case strings.ContainsAny(n.Content, "\r\n"):
		return nil, hub.Errorf(hub.CodeInvalid, op, "file.content: base64 must not contain line breaks")
	}
	data, err := base64.StdEncoding.Strict().DecodeString(n.Content)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "file.content is not valid base64: %v", err)
	}
	if len(data) > s.o.Limits.File {
		return nil, hub.Errorf(hub.CodeTooLarge, op, "file.content is too large: %d bytes, at most %d are allowed", len(data), s.o.Limits.File)
	}
	return data, nil
}

// save writes a file into the project's folder, under a new name, which it returns.
func (s *Service) save(op string, n NewFile, data []byte) (string, error) {
	if err := s.o.Files.Mkdir(string(n.Project), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", hub.Errorf(hub.CodeDegraded, op, "cannot create the project's folder: %v", err)
	}
	name := path.Join(string(n.Project), s.newID()[24:]+"-"+baseName(n.Name))
	f, err := s.o.Files.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", hub.Errorf(hub.CodeDegraded, op, "cannot create the file: %v", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(hub.Errorf(hub.CodeDegraded, op, "cannot write the file: %v", err), s.o.Files.Remove(name))
	}
	return name, nil
}

// baseName returns the last part of a path of either kind, with every character
// replaced that has a meaning to a shell or a file system.
func baseName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	clean := []byte(name[max(0, len(name)-100):])
	for i, c := range clean {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			clean[i] = '_'
		}
	}
	return string(clean)
}

// countFile adds to the bytes of shared files.
func (se *session) countFile(op string, n int64) error {
	text, err := se.tx.Meta(sharedBytes)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	total, _ := strconv.ParseInt(text, 10, 64) // "" is 0
	if total+n > se.s.o.Limits.Shared {
		return hub.Errorf(hub.CodeTooLarge, op, "the space for shared files is full (%d bytes)", se.s.o.Limits.Shared)
	}
	return se.tx.PutMeta(sharedBytes, strconv.FormatInt(total+n, 10))
}

// RequestFile requests a file from the other repositories of a project. Project,
// Description and Format must be given.
func (s *Service) RequestFile(ctx context.Context, caller hub.Caller, as As, r coord.FileRequest) (coord.FileRequest, error) {
	const op = "contract.RequestFile"
	switch {
	case strings.TrimSpace(r.Description) == "":
		return r, hub.Errorf(hub.CodeInvalid, op, "description required")
	case len(r.Description) > federation.MaxText || len(r.Format) > federation.MaxName:
		return r, hub.Errorf(hub.CodeTooLarge, op, "description must be at most %d bytes, suggestedFormat at most %d", federation.MaxText, federation.MaxName)
	}

	// The hub sets the id and the state of a request; the input cannot.
	r.ID = s.newID()
	r.FulfilledAt = coord.Instant{}
	r.File = ""
	err := s.act(ctx, op, caller, r.Project, as, coord.PermitFiles, func(se *session, p coord.Project, by coord.Repo) error {
		r.FromRepo = by.ID
		r.FromAgent = s.aid(caller)
		r.At = coord.Instant{}.After(s.o.Clock)

		open, err := se.tx.Coordination().FileRequests(p.ID, s.o.Limits.Requests)
		if err != nil {
			return err
		}
		if len(open) >= s.o.Limits.Requests {
			return hub.Errorf(hub.CodeTooLarge, op, "the project has too many open file requests (%d)", len(open))
		}

		if err := se.charge(op, Rate{Things: 1, Bytes: int64(len(r.Description))}); err != nil {
			return err
		}
		if err := se.tx.WriteCoordination().PutFileRequest(r); err != nil {
			return err
		}
		if err := se.note(actions.FileRequested, r.ID, hub.OutcomeOK, facts{Project: p.ID, Repo: by.ID, Agent: r.FromAgent}); err != nil {
			return err
		}
		return se.tell(p, by.ID, notice{Event: "asks for a file", Project: p.ID, By: by.Name})
	})
	return r, err
}

// FileRequests returns the requests of a project, newest first.
func (s *Service) FileRequests(ctx context.Context, _ hub.Caller, id coord.ProjectID) ([]coord.FileRequest, error) {
	return readIn(ctx, s, "contract.FileRequests", id, func(r hub.Reader, _ coord.Project) ([]coord.FileRequest, error) {
		return r.Coordination().FileRequests(id, s.o.Limits.Requests)
	})
}
