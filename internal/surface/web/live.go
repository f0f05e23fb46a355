package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/parley-agents/parley/hub"
)

const (
	minGap    = 50 * time.Millisecond // between two renderings of a view
	renderCap = 20                    // a rendering is paid for with so many times its time, for each open view: all of them take one part in twenty of a core
	credit    = 2 * time.Second       // of that time, so that a few events after a pause are shown at once
	maxGap    = 3 * time.Second       // on a machine so busy that a rendering takes long
	keepAlive = 15 * time.Second      // between comments that keep a stream open
	refresh   = 30 * time.Second      // after which a view is rendered without an event: some states follow from time alone

	maxStreams  = 20 // of one session
	maxViews    = 50 // of the hub
	viewerViews = 30 // of them for viewers, so that operators always have some
)

// live holds the views that are open. One view serves every stream that shows the same
// address to callers who may see the same, so that the cost of an event does not grow
// with the number of open pages.
type live struct {
	mu      sync.Mutex // guards the fields below and the streams of each view
	views   map[viewKey]*view
	streams map[string]int // open ones by the id of their session
}

// A viewKey names a view: an address, and whether operators look at it.
type viewKey struct {
	operator bool
	address  string
}

// A view is an address that is rendered again after events.
type view struct {
	streams int           // guarded by live.mu
	end     func()        // stops the rendering
	done    chan struct{} // closed when it has stopped

	mu      sync.Mutex // guards the fields below
	current rendering
	changed chan struct{} // closed and replaced with each new rendering
}

// state returns the newest rendering, and a channel that is closed when there is a newer one.
func (v *view) state() (rendering, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current, v.changed
}

// isNew reports whether a rendering says something else than the newest.
func (v *view) isNew(next rendering) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current.n == 0 || v.current.title != next.title || v.current.waiting != next.waiting || !bytes.Equal(v.current.main, next.main)
}

// show replaces the rendering.
func (v *view) show(next rendering) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next.n = v.current.n + 1
	v.current = next
	close(v.changed)
	v.changed = make(chan struct{})
}

// size returns the number of views.
func (l *live) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.views)
}

// refusal returns why a session cannot follow an address now, "" if it can. The caller
// holds mu.
func (l *live) refusal(key viewKey, session string) string {
	if l.streams[session] >= maxStreams {
		return fmt.Sprintf("This session already has %d live pages. Close some of them, or reload this page to see changes.", maxStreams)
	}
	if l.views[key] != nil {
		return ""
	}
	ofViewers := 0
	for other := range l.views {
		if !other.operator {
			ofViewers++
		}
	}
	if len(l.views) >= maxViews || (!key.operator && ofViewers >= viewerViews) {
		return "The hub cannot keep more pages live. Reload this page to see changes."
	}
	return ""
}

// join adds a stream of a session to the view of an address, which it begins if no other
// stream shows it. It returns the function that removes the stream, or why there is none.
func (l *live) join(key viewKey, session string, begin func(context.Context, *view)) (v *view, leave func(), refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refusal := l.refusal(key, session); refusal != "" {
		return nil, nil, refusal
	}
	v = l.views[key]
	if v == nil {
		ctx, cancel := context.WithCancel(context.Background())
		v = &view{end: cancel, done: make(chan struct{}), changed: make(chan struct{})}
		l.views[key] = v
		go func() {
			defer close(v.done)
			begin(ctx, v)
		}()
	}
	v.streams++
	l.streams[session]++
	return v, func() { l.leave(key, session, v) }, ""
}

// leave removes a stream of a session, and the view with its last one.
func (l *live) leave(key viewKey, session string, v *view) {
	l.mu.Lock()
	if l.streams[session]--; l.streams[session] == 0 {
		delete(l.streams, session)
	}
	v.streams--
	last := v.streams == 0
	if last {
		delete(l.views, key)
	}
	l.mu.Unlock()
	if last {
		v.end()
		<-v.done
	}
}

// count returns how many streams are open.
func (l *live) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, of := range l.streams {
		n += of
	}
	return n
}

// follow renders a view after each event until ctx ends.
func (h *Handler) follow(ctx context.Context, v *view, from *visit, p page) {
	hints, cancel := h.Bus.Subscribe(hub.TopicJournal)
	defer cancel()
	tick := time.NewTicker(cmp.Or(p.every, refresh))
	defer tick.Stop()
	var owed time.Duration // for renderings so far

	for last := time.Now(); ; {
		// A page that did not change is not sent again.
		began := time.Now()
		err := hub.Contain("web", func() error {
			next, err := h.render(ctx, from, p)
			if err == nil && v.isNew(next) {
				if next.text, err = next.event(); err == nil {
					v.show(next)
				}
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			h.Log.Warn("an open page could not be rendered", "op", p.name, "code", hub.CodeOf(err), "err", err)
		}

		// A rendering costs renderCap times its duration for each open view; beyond its credit the
		// view waits until the time has passed.
		owed = min(credit+maxGap, max(0, owed-time.Since(last))+renderCap*time.Since(began)*time.Duration(h.live.size()))
		last = time.Now()
		select {
		case <-time.After(max(minGap, owed-credit)):
		case <-ctx.Done():
			return
		}

		select {
		case <-hints:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// stream answers GET /live?path=PATH&after=N: the page at an address each time that it
// changes, as server-sent events. The id of an event is the number of the newest journal
// entry that the page includes; a browser that comes back with it gets the page at once
// if it has changed since. Over the limits of streams and views it answers with 429.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, s session) {
	address := r.URL.Query().Get("path")
	at, err := h.pageAt(context.Background(), address) // the view may outlive this stream
	if err != nil {
		h.fail(w, r, s, err)
		return
	}

	// A browser that comes back names the last event that it got.
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("after")
	}
	seen, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		seen = -1
	}

	// All streams of one address and one role share a view.
	v, leave, refusal := h.live.join(viewKey{s.caller.IsOperator(), address}, s.ID, func(ctx context.Context, v *view) {
		h.follow(ctx, v, &visit{Handler: h, caller: s.caller, r: at.r}, at.page)
	})
	if refusal != "" {
		http.Error(w, refusal, http.StatusTooManyRequests)
		return
	}
	defer leave()

	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	fmt.Fprint(w, "retry: 1000\n\n")
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()

	for sent := 0; ; {
		// The session may have been revoked while the stream was open.
		if _, err := h.identify(r); err != nil {
			return
		}

		now, changed := v.state()
		isNew := now.n != sent && (sent > 0 || now.upTo > seen)
		if sent = now.n; isNew {
			if _, err := w.Write(h.personal(now.text, s)); err != nil {
				return
			}
		}
		if rc.Flush() != nil {
			return
		}

		select {
		case <-changed:
		case <-alive.C:
			fmt.Fprint(w, ": \n\n")
		case <-r.Context().Done():
			return
		case <-h.Stopping:
			return
		}
	}
}

// event returns a rendering as the text of an event, with the placeholders of a session.
func (r rendering) event() ([]byte, error) {
	data, err := json.Marshal(struct {
		Title   string `json:"title"`
		Waiting int    `json:"waiting"`
		Main    string `json:"main"`
	}{r.title, r.waiting, string(r.main)})
	return fmt.Appendf(nil, "id: %d\ndata: %s\n\n", r.seq, data), err
}

// A target is the page of an address, and the request for it with the values of its path.
type target struct {
	page
	r *http.Request
}

type targetKey struct{}

// nowhere takes the answer of the finder, which redirects addresses that are not clean.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// isLocal reports whether an address leads to a path of this site. Browsers take two
// slashes, and a slash with a backslash, for the beginning of a host name, and leave
// control characters out before they look.
func isLocal(address string) bool {
	control := func(r rune) bool { return unicode.IsControl(r) }
	switch {
	case !strings.HasPrefix(address, "/"), strings.ContainsFunc(address, control):
		return false
	case len(address) > 1 && (address[1] == '/' || address[1] == '\\'):
		return false
	}
	return true
}

// pageAt returns the page of an address of this site. Every address that comes from a
// form or a query passes it.
func (h *Handler) pageAt(ctx context.Context, address string) (target, error) {
	var out target
	r, err := http.NewRequestWithContext(context.WithValue(ctx, targetKey{}, &out), http.MethodGet, address, nil)
	if err != nil || !isLocal(address) {
		return out, hub.Errorf(hub.CodeInvalid, "web", "path must be an address on this page")
	}
	if _, pattern := h.finder.Handler(r); pattern != "" {
		h.finder.ServeHTTP(nowhere{}, r)
	}
	if out.r == nil {
		return out, hub.Errorf(hub.CodeNotFound, "web", "no page at this path")
	}
	return out, nil
}
