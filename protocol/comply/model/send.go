package model

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
)

// send sends an answer with its delays and its fault.
// It returns when the answer was sent or the agent has gone. A fault before the
// first part can still change the status of the response; later ones cannot.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, way *api, r *request, a *answer) {
	w.Header().Set("X-Request-Id", "req_"+a.id)
	switch {
	case a.fault != nil && a.fault.Do == Hang && len(a.parts) == 0:
		<-ctx.Done()
	// An error is sent with its status while no part of the answer was sent.
	case a.fault != nil && a.fault.Do == Error && a.fault.How != "":
		v := vendorFailure(way.name, a.fault.How)
		for name, value := range v.headers {
			w.Header().Set(name, value)
		}
		reply(w, v.status, v.body)
	case a.fault != nil && a.fault.Do == Error && (len(a.parts) == 0 || !r.stream):
		status, text := a.failure()
		// Agents that obey the header wait that long, which tests can see.
		if a.fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(a.fault.RetryAfter))
		}
		reply(w, status, way.failure(status, text))
	case r.stream:
		s.sendStream(ctx, way, exchange{newEvents(w), r, a})
	default:
		s.sendWhole(ctx, w, way, r, a)
	}
}

// failure returns the status and the text of an answer that is an error.
func (a *answer) failure() (status int, text string) {
	status = cmp.Or(a.fault.Status, http.StatusInternalServerError)
	return status, cmp.Or(a.fault.Text, "the script says: "+cmp.Or(http.StatusText(status), "error"))
}

// sendStream sends an answer as events.
func (s *Server) sendStream(ctx context.Context, way *api, x exchange) {
	to := way.stream(x)
	out := x.out
	a := x.a

	// The order of the calls is the contract of stream.
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
		panic(http.ErrAbortHandler) // aborts the connection; the server recovers it
	default:
		to.end()
	}
}

// sendWhole sends an answer in one piece.
// The delays of all pieces add up before the first byte.
func (s *Server) sendWhole(ctx context.Context, w http.ResponseWriter, way *api, r *request, a *answer) {
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
			w.Write([]byte("{\"broken\": \n")) // a failed write means that the agent has gone
			return
		case a.fault.How == failCut:
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("{"))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // aborts the connection; the server recovers it
		}
	}
	reply(w, http.StatusOK, way.whole(r, a))
}
