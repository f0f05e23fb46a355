package model

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
)

// send sends an answer, with its delays and what goes wrong in it.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, way *api, r *request, a *answer) {
	w.Header().Set("X-Request-Id", "req_"+a.id)
	switch {
	case a.fault != nil && a.fault.Do == Hang && len(a.parts) == 0:
		<-ctx.Done()
	case a.fault != nil && a.fault.Do == Error && (len(a.parts) == 0 || !r.stream):
		status, text := a.failure()
		if a.fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(a.fault.RetryAfter))
		}
		reply(w, status, way.failure(status, text))
	case r.stream:
		s.pour(ctx, newEvents(w), way, r, a)
	default:
		s.hand(ctx, w, way, r, a)
	}
}

// failure is the status and the text of an answer that is an error.
func (a *answer) failure() (status int, text string) {
	status = cmp.Or(a.fault.Status, http.StatusInternalServerError)
	return status, cmp.Or(a.fault.Text, "the script says: "+cmp.Or(http.StatusText(status), "error"))
}

// pour sends an answer as events.
func (s *Server) pour(ctx context.Context, out *events, way *api, r *request, a *answer) {
	to := way.stream(out, r, a)
	to.begin()
	for _, p := range a.parts {
		to.open(p)
		for _, chunk := range p.chunks {
			if pause(ctx, p.delay) != nil || out.err != nil {
				return
			}
			to.delta(p, chunk)
		}
		to.close(p)
	}
	if a.fault == nil {
		to.end()
		return
	}
	switch {
	case a.fault.Do == Hang:
		<-ctx.Done()
	case a.fault.Do == Error:
		to.fail(a.failure())
	case a.fault.How == failSSE:
		out.raw("data: {\"broken\": \n\n")
		to.end()
	case a.fault.How == failCut:
		p := part{kind: textPart, text: "This is cut", chunks: []string{"This is cu"}}
		to.open(p)
		to.delta(p, p.chunks[0])
		panic(http.ErrAbortHandler) // how a handler ends a connection; the server takes it
	default:
		to.end()
	}
}

// hand sends an answer in one piece.
func (s *Server) hand(ctx context.Context, w http.ResponseWriter, way *api, r *request, a *answer) {
	for _, p := range a.parts {
		for range p.chunks {
			if pause(ctx, p.delay) != nil {
				return
			}
		}
	}
	if a.fault != nil {
		switch {
		case a.fault.Do == Hang:
			<-ctx.Done()
			return
		case a.fault.How == failSSE:
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte("{\"broken\": \n")) // whoever asked is gone if it fails
			return
		case a.fault.How == failCut:
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("{"))
			panic(http.ErrAbortHandler) // how a handler ends a connection; the server takes it
		}
	}
	reply(w, http.StatusOK, way.whole(r, a))
}
