// Package intake is where webhooks come in: POST /in/NAME, on a listener of its own that serves
// nothing else.
//
// A request passes these checks, the cheapest first, and is counted with the one that it fails:
//
//	method and path   404 and 405; they are not counted
//	bounds            429: requests of an address and of a source, and bodies that are read at a time
//	size              413: a body has at most MaxBody bytes
//	signature         401: in the form of the vendor, in constant time
//	form              400: the body is one of the vendor
//
// Then the event service stores it in one transaction, and the answer is 200, also for a
// repetition. No answer says more than that: an address without a source and one with a wrong
// signature can be told apart, but no secret, no agent and no text can be read here.
//
// Addresses from which a right signature came lately are bounded alone, and have places of their own
// for bodies. All other addresses share the bound of their source. So a flood from many addresses
// costs the hub little and does not keep out a vendor that is known.
//
// Nothing of a refused request is logged or stored but its count. The package is tested through a
// hub in package server.
package intake

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/forge"
	"github.com/parley-agents/parley/internal/service/event"
)

// Prefix begins the path of every request.
const Prefix = "/in/"

const (
	// MaxBody is the most bytes of a body.
	MaxBody = 1 << 20

	maxReading  = 16               // bodies of known addresses, and as many of others, that are read at a time
	waitReading = 2 * time.Second  // that a further one waits for its turn
	readTime    = 10 * time.Second // of a body
	storeTime   = 30 * time.Second // of the transaction
)

// Options says how a handler works.
type Options struct {
	Events *event.Service
	Clock  hub.Clock
	Log    *slog.Logger

	Rate  float64 // requests a second of one source and address in the long run; default 5
	Burst int     // requests at once; default 200
}

// sourceShare is how many times more a source may be sent by all addresses together that are not
// known than by one.
const sourceShare = 4

// A Handler serves webhooks.
type Handler struct {
	o         Options
	addresses *buckets // requests of each source and address
	sources   *buckets // requests of each source from addresses that are not known
	known     *knownAddresses

	// Each has an element for a body that is being read.
	reading      chan struct{} // from addresses that are not known
	readingKnown chan struct{}
}

// New returns a handler.
func New(o Options) *Handler {
	if o.Rate == 0 {
		o.Rate = 5
	}
	if o.Burst == 0 {
		o.Burst = 200
	}
	return &Handler{
		o:         o,
		addresses: newBuckets(o.Rate, o.Burst),
		sources:   newBuckets(sourceShare*o.Rate, sourceShare*o.Burst),
		known:     newKnownAddresses(),

		reading:      make(chan struct{}, maxReading),
		readingKnown: make(chan struct{}, maxReading),
	}
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, Prefix)
	if !ok || !hub.AgentID(name).Valid() {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	door, err := h.o.Events.Door(r.Context(), name)
	if err != nil {
		h.fail(w, name, err)
		return
	}

	// Everything below costs memory and time, so it is bounded first.
	from := name + " " + Network(r.RemoteAddr) // headers that a proxy may add are not read: anybody can send them
	isKnown := h.known.has(from, h.o.Clock())
	if wait := h.bound(name, from, isKnown); wait > 0 {
		h.refuse(w, name, hub.EventTooMany, http.StatusTooManyRequests, wait)
		return
	}
	if r.ContentLength > MaxBody {
		h.refuse(w, name, hub.EventTooLarge, http.StatusRequestEntityTooLarge, 0)
		return
	}
	places := h.reading
	if isKnown {
		places = h.readingKnown
	}
	release, ok := begin(r.Context(), places)
	if !ok {
		h.refuse(w, name, hub.EventTooMany, http.StatusTooManyRequests, time.Second)
		return
	}
	defer release()
	h.take(w, r, door, from)
}

// bound takes a request from the bounds of its address and, unless the address is known, of its
// source. It returns 0, or the time until such a request may come again.
func (h *Handler) bound(name, from string, isKnown bool) time.Duration {
	now := h.o.Clock()
	if wait := h.addresses.take(from, now); wait > 0 || isKnown {
		return wait
	}
	return h.sources.take(name, now)
}

// begin waits for one of the places for bodies. release gives it back.
func begin(ctx context.Context, places chan struct{}) (release func(), ok bool) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, waitReading)
	defer cancel()
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	case <-ctx.Done():
		return nil, false
	}
}

// take reads a body, checks its signature and stores its event. from is the source with the address
// of the sender, which is known after a right signature.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, door event.Door, from string) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime)) // a slow sender loses its connection
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			h.refuse(w, door.Name, hub.EventTooLarge, http.StatusRequestEntityTooLarge, 0)
			return
		}
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}

	if forge.Verify(door.Vendor, door.Secret, r.Header, body, h.o.Clock()) != nil {
		h.refuse(w, door.Name, hub.EventForged, http.StatusUnauthorized, 0)
		return
	}
	h.known.add(from, h.o.Clock())
	e, err := forge.Parse(forge.Hook{Vendor: door.Vendor, Header: r.Header, Body: body, Fields: door.Fields})
	if err != nil {
		h.refuse(w, door.Name, hub.EventUnreadable, http.StatusBadRequest, 0)
		return
	}

	// The vendor may give up earlier than the store: the transaction goes on, and the repetition
	// that follows finds the event.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTime)
	defer cancel()
	got, err := h.o.Events.Receive(ctx, door.Name, e)
	if err != nil {
		h.fail(w, door.Name, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, string(got.Outcome)+"\n")
}

// refuse counts a request and answers it with a status. wait is the time after which it may come
// again; 0 if it never may.
func (h *Handler) refuse(w http.ResponseWriter, name string, outcome hub.EventOutcome, status int, wait time.Duration) {
	h.o.Events.Count(name, outcome)
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	}
	http.Error(w, string(outcome), status)
}

// fail answers a request whose source does not exist, or that the hub cannot store now.
func (h *Handler) fail(w http.ResponseWriter, name string, err error) {
	if hub.CodeOf(err) == hub.CodeNotFound {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	h.o.Log.Warn("an event was not stored", "source", name, "err", err)
	w.Header().Set("Retry-After", "60")
	http.Error(w, "the hub cannot store the event now", http.StatusServiceUnavailable)
}

// Network returns the part of an address that one caller has: the whole of it, and for IPv6 its
// network. An address with a port loses the port.
func Network(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.To4() != nil {
		return host
	}
	return ip.Mask(net.CIDRMask(64, 128)).String()
}
