package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	eventPage = 500              // entries read at once
	keepAlive = 15 * time.Second // a comment now and then keeps proxies from closing
)

// Events streams what happens as server-sent events: journal entries that the
// caller may see, each with its number as the event's id. A client that comes
// back with Last-Event-ID (or ?after=N) misses nothing; one that gives neither
// begins with what happens from now on.
func (h *Handler) Events(bus hub.Bus) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, ok := h.Admit(w, r)
		if !ok {
			return
		}
		after, err := h.startAt(r)
		if err != nil {
			h.failed(w, r, actor, "events", err)
			return
		}
		rc := http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no")
		fmt.Fprintf(w, ": events after %d\n\n", after)
		if rc.Flush() != nil {
			return
		}
		hints, cancel := bus.Subscribe(hub.TopicJournal)
		defer cancel()
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()
		for {
			// The key may have been revoked while the stream was open.
			if _, err := h.Actor(r); err != nil {
				return
			}
			for {
				entries, last, err := h.services.Journal.Events(r.Context(), actor, after, eventPage)
				if err != nil {
					h.log.Warn("event stream ended", "actor", actor.ID, "err", err)
					return
				}
				for _, e := range entries {
					data, err := json.Marshal(e)
					if err != nil {
						return
					}
					fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Action, data)
				}
				if last == after {
					break
				}
				after = last
			}
			if rc.Flush() != nil {
				return
			}
			select {
			case <-hints:
			case <-tick.C:
				fmt.Fprint(w, ": \n\n")
			case <-r.Context().Done():
				return
			case <-h.done:
				return
			}
		}
	})
}

// startAt returns the number after which a stream begins.
func (h *Handler) startAt(r *http.Request) (int64, error) {
	s := r.Header.Get("Last-Event-ID")
	if s == "" {
		s = r.URL.Query().Get("after")
	}
	head, err := h.services.Journal.Head(r.Context())
	if s == "" || err != nil {
		return head.Seq, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, hub.Errorf(hub.CodeInvalid, "events", "%q is not the number of an event", s)
	}
	if n > head.Seq {
		return 0, hub.Errorf(hub.CodeInvalid, "events", "there is no event %d yet: the newest is %d", n, head.Seq).
			WithHint("the number may come from another hub; begin with ?after=0")
	}
	return n, nil
}
