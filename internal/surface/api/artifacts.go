package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/parley-agents/parley/hub"
)

// An ArtifactStore keeps content by its hash.
type ArtifactStore interface {
	// Put stores what r holds; what it returned is on disk.
	Put(r io.Reader) (path, sha256 string, size int64, err error)
	// Open reports CodeNotFound when there is no such content.
	Open(sha256 string) (*os.File, error)
}

// uploadTimeout is how long an upload may take.
const uploadTimeout = 5 * time.Minute

// An Artifact is content that was stored, as a reference to send.
type Artifact struct {
	Artifact hub.ArtifactRef `json:"artifact"`
}

// PutArtifact stores the body of a request and answers with a reference that
// can be sent in context.artifacts.
func (h *Handler) PutArtifact(store ArtifactStore) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, ok := h.Admit(w, r)
		if !ok {
			return
		}
		arriveWithin(w, uploadTimeout)
		path, sum, size, err := store.Put(r.Body)
		if err == nil {
			err = h.services.Journal.ArtifactPut(r.Context(), actor, sum, size)
		}
		if err != nil {
			h.failed(w, r, actor, "artifact.put", err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(Artifact{hub.ArtifactRef{Type: "file", Path: path, SHA256: sum, SizeBytes: &size}}) // a caller that is gone needs no answer
	})
}

// Artifact answers with stored content. Whoever knows the hash may read it.
func (h *Handler) Artifact(store ArtifactStore) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, ok := h.Admit(w, r)
		if !ok {
			return
		}
		f, err := store.Open(r.PathValue("sha256"))
		if err != nil {
			h.failed(w, r, actor, "artifact.get", err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		io.Copy(w, f) // a caller that is gone needs no answer
	})
}

// failed answers a request that is not JSON-RPC.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, actor hub.Caller, op string, err error) {
	code := hub.CodeOf(err)
	status := http.StatusServiceUnavailable
	switch code {
	case hub.CodeNotFound:
		status = http.StatusNotFound
	case hub.CodeTooLarge:
		status = http.StatusRequestEntityTooLarge
	case hub.CodeInvalid:
		status = http.StatusBadRequest
	}
	if code == hub.CodeDegraded || code == hub.CodeInternal {
		h.log.Error("call failed", "actor", actor.ID, "op", op, "code", code, "err", err)
	} else {
		h.services.Journal.Refused(r.Context(), actor.ID, op, code)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		status = http.StatusBadRequest
	}
	WriteError(w, status, err)
}
