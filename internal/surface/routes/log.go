package routes

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// serveLog serves the tree over the journal without authentication: the public keys that sign in it, the
// newest checkpoint and the tiles. They are hashes only. It also cosigns checkpoints of witnesses, whose
// signatures it checks.
func (s *Site) serveLog(mux *http.ServeMux) {
	mux.HandleFunc("GET /.well-known/parley-keys", func(w http.ResponseWriter, r *http.Request) {
		keys, err := s.o.Proofs.Keys(r.Context())
		if err == nil && len(keys) == 0 {
			err = hub.Errorf(hub.CodeNotFound, "keys", "this hub has no checkpoint yet")
		}
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, k := range keys {
			io.WriteString(w, k.Text+"\n")
		}
	})
	mux.HandleFunc("GET /checkpoint", func(w http.ResponseWriter, r *http.Request) {
		text, err := s.checkpoint(r.Context(), r.URL.Query().Get("since"))
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		io.WriteString(w, text)
	})
	mux.HandleFunc("POST /add-checkpoint", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCheckpoint))
		if err != nil {
			rpc.WriteError(w, hub.Errorf(hub.CodeTooLarge, "add-checkpoint", "the request is larger than %d bytes", maxCheckpoint))
			return
		}
		status, text, err := s.o.Proofs.Cosign(r.Context(), string(body))
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if status == http.StatusConflict {
			w.Header().Set("Content-Type", "text/x.tlog.size")
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
	})
	mux.HandleFunc("GET /witnessed", func(w http.ResponseWriter, r *http.Request) {
		note, err := s.o.Proofs.Seen(r.Context(), r.URL.Query().Get("log"))
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, note)
	})
	mux.HandleFunc("GET /tile/{path...}", func(w http.ResponseWriter, r *http.Request) {
		hashes, err := s.o.Proofs.Tile(r.Context(), r.PathValue("path"))
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(hashes)
	})
}

// maxCheckpoint is the most bytes of a request to cosign a checkpoint.
const maxCheckpoint = 64 << 10

// checkpoint returns the newest checkpoint; with a size, also the proof that it goes on from there.
func (s *Site) checkpoint(ctx context.Context, since string) (string, error) {
	if since == "" {
		c, err := s.o.Proofs.Newest(ctx)
		return c.Note, err
	}
	size, err := strconv.ParseInt(since, 10, 64)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, "checkpoint", "since=%.20q is not a number of rows", since)
	}
	g, err := s.o.Proofs.Since(ctx, size)
	return g.String(), err
}
