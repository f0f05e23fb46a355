package server

import (
	"io"
	"net/http"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// serveLog serves the tree over the journal to everybody: the public keys that sign in it, the newest
// checkpoint and the tiles. They are hashes only.
func (s *Server) serveLog(mux *http.ServeMux) {
	mux.HandleFunc("GET /.well-known/parley-keys", func(w http.ResponseWriter, r *http.Request) {
		keys, err := s.proofs.Keys(r.Context())
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
		c, err := s.proofs.Newest(r.Context())
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		io.WriteString(w, c.Note)
	})
	mux.HandleFunc("GET /tile/{path...}", func(w http.ResponseWriter, r *http.Request) {
		hashes, err := s.proofs.Tile(r.Context(), r.PathValue("path"))
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(hashes)
	})
}
