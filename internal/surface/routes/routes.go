// Package routes serves the paths of a hub that are no operations: health, card, methods, peers, events, artifacts,
// schemas, metrics, the tree over the journal and the handshake of operators. It also bounds which hosts and
// origins may call the hub.
//
// Each page identifies its caller through the door of package rpc, or is public. The pages decide nothing: they
// call a service and write its answer.
package routes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/handshake"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/surface/mcptools"
)

// A Store is a store that knows whether it can be changed.
type Store interface {
	hub.Store
	Fault(ctx context.Context) error
}

// Options are the services behind the pages, and the facts about the hub that they tell.
type Options struct {
	Store    Store
	Self     peer.Self
	Vault    *vault.Vault
	Tools    *mcptools.Handler
	Journal  *journal.Journal
	Peers    *peers.Service
	Syncer   func() *peer.Syncer // of the hub now
	Mail     *mailroom.Mailroom
	Landings *landing.Service
	Proofs   *proof.Log
	Login    *handshake.Hub
	Gateway  *gateway.Client // nil without one
	Bus      hub.Bus
	Log      *slog.Logger

	Addr     string            // where the hub listens
	Local    bool              // it listens on loopback: local programs may read the metrics
	Hosts    []string          // further names under which the hub is called
	Cert     *x509.Certificate // nil without TLS
	Version  string
	Without  []hub.Feature
	Began    time.Time
	Stopping <-chan struct{} // closed when the hub begins to stop
}

// A Site serves the paths of a hub.
type Site struct{ o Options }

// New returns the handler of the paths of a hub. Requests for a host name of the hub's page go to page.
func New(o Options, door *rpc.Door, meters *Meters, page http.Handler) http.Handler {
	s := &Site{o}
	return s.guard(cleanPaths(s.routes(door, meters)), page)
}

const (
	// Bounds of single requests. Those of bodies of operations are in their tables.
	eventPage     = 500              // journal entries read at once
	keepAlive     = 15 * time.Second // between comments that keep proxies from closing a stream
	uploadTimeout = 5 * time.Minute  // for the body of an upload
	registerBody  = 16 << 10         // bytes of a peer's registration
)

// routes returns the handler of every path of the hub. Others may know the hub
// under a path of its own; its door and its pages about itself are there, too.
// A page that is not of package rpc goes through door.Page as well: it identifies
// the caller, bounds the kinds of callers and records refusals. Pages without it
// are public: the card, the health, the methods, the schemas and, on loopback, the
// metrics.
func (s *Site) routes(door *rpc.Door, meters *Meters) http.Handler {
	mux := http.NewServeMux()
	bases := []string{""}
	if u, err := url.Parse(s.o.Self.URL); err == nil {
		if base := strings.TrimRight(u.Path, "/"); base != "" {
			bases = append(bases, base)
			mux.Handle("POST "+base, door)
		}
	}

	card := s.o.Self.Card()
	for _, base := range bases {
		mux.Handle("POST "+base+"/{$}", door)
		mux.HandleFunc("GET "+base+peer.CardPath, func(w http.ResponseWriter, _ *http.Request) { rpc.WriteJSON(w, http.StatusOK, card) })
		mux.HandleFunc("GET "+base+peer.HealthPath, s.health)
		mux.HandleFunc("GET "+base+"/methods", func(w http.ResponseWriter, _ *http.Request) { listMethods(w, door.Methods(), s.o.Without) })
		mux.Handle("GET "+base+"/peers", door.Page("peers", rpc.Identified, s.listPeers))
		mux.Handle("POST "+base+peer.RegisterPath, door.Page("peers/register", rpc.Everybody, s.registerPeer(door)))
	}

	s.serveManifest(mux)
	mux.Handle("POST "+handshake.ChallengePath, door.Page("operator/challenge", rpc.Everybody, s.challenge))
	mux.Handle("POST "+handshake.TokenPath, door.Page("operator/token", rpc.Everybody, s.grant))
	mux.Handle("/mcp", door.Page("mcp", rpc.Local, s.o.Tools.Serve))
	mux.Handle("GET /events", door.Page("events", rpc.Local, s.events(door)))
	mux.Handle("POST /artifacts", door.Page("artifact.put", rpc.Local, s.putArtifact))
	mux.Handle("GET /artifacts/{sha256}", door.Page("artifact.get", rpc.Local, s.getArtifact))
	mux.HandleFunc("GET /schema/{name...}", getSchema)
	s.serveLog(mux)

	// On loopback every local program may read the metrics; elsewhere they need a key.
	var metrics http.Handler = meters
	if !s.o.Local {
		metrics = door.Page("metrics", rpc.Local, func(w http.ResponseWriter, r *http.Request, _ hub.Caller) error {
			meters.ServeHTTP(w, r)
			return nil
		})
	}
	mux.Handle("GET /metrics", metrics)

	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This is a Parley hub. Its page has its own host name: run parley open on this machine.", http.StatusNotFound)
	})
	return mux
}

// cleanPaths serves a path with needless slashes or dots as the clean one, and
// never with a redirect: agents do not follow one.
func cleanPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clean := path.Clean("/" + r.URL.Path)
		if r.URL.RawPath != "" {
			clean = r.URL.Path // an escaped path is a name
		}
		if clean != "/" && clean != r.URL.Path && strings.HasSuffix(r.URL.Path, "/") {
			clean += "/"
		}
		if clean != r.URL.Path {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = clean, ""
		}
		next.ServeHTTP(w, r)
	})
}

// guard refuses requests that a page in a browser could have been tricked into
// making: those for another host, and those from another origin. Requests for a host
// name of the hub's page go to site, which checks their origin, and nowhere else.
// It runs before any handler reads the body. A request without an Origin header
// comes from a program, or from the same page, and is let through; keys protect the
// rest.
func (s *Site) guard(next, site http.Handler) http.Handler {
	allowed := map[string]bool{}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, s.o.Hosts...) {
		allowed[strings.ToLower(h)] = true
	}
	if host, _, err := net.SplitHostPort(s.o.Addr); err == nil && host != "" {
		allowed[strings.ToLower(host)] = true
	}
	if u, err := url.Parse(s.o.Self.URL); err == nil {
		allowed[strings.ToLower(u.Hostname())] = true
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The deferred call must be direct: recover works in the deferred function
		// only.
		defer s.endPanic(r)
		// A request in chunks may have a length, too, which net/http ignores. A proxy in
		// front could take the length for the end of the request, and the rest of the
		// body for the next one. So there is no next one.
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}

		if signin.Label(r.Host) != "" {
			site.ServeHTTP(w, r)
			return
		}

		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		if !allowed[host] {
			rpc.WriteError(w, hub.Errorf(hub.CodeDenied, "http", "%q is not a host name of this hub", host).
				WithHint("use the address that the hub prints when it starts, or add the name under hosts in its configuration"))
			return
		}

		own := "http://" + r.Host
		if r.TLS != nil {
			own = "https://" + r.Host
		}
		if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, own) {
			rpc.WriteError(w, hub.Errorf(hub.CodeDenied, "http", "calls from other web pages are refused"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// endPanic ends a panic of a handler: it is logged, and the connection is closed,
// because a part of the answer may have gone out.
func (s *Site) endPanic(r *http.Request) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p) // logged where it was thrown
	default:
		s.o.Log.Error("panic while a request was answered", "op", r.Method+" "+r.Pattern, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		panic(http.ErrAbortHandler)
	}
}

// Healthy is the status of a hub that can work.
const Healthy = "healthy"

// health reports whether the hub can work, and its names.
// It needs no key, so it tells states and numbers but no reason that could hold a
// path or an address, except for a hub that cannot work.
func (s *Site) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()

	// The hub is degraded when its journal or its store cannot be used.
	status, code := Healthy, http.StatusOK
	head, err := s.o.Journal.Head(ctx)
	peers := 0
	if err == nil {
		peers, err = s.peerCount(ctx)
	}
	if err == nil {
		err = s.o.Store.Fault(ctx)
	}
	if err != nil {
		status, code = "degraded", http.StatusServiceUnavailable
	}

	answer := map[string]any{
		"status": status, "agentId": s.o.Self.AID, "repo": s.o.Self.Repo, "peerCount": peers, "version": s.o.Version, "journal": head.Seq, "uptime_s": int(time.Since(s.o.Began).Seconds()),
	}
	if off := FailedChannels(s.o.Mail); len(off) > 0 {
		answer["failed_channels"] = slices.Sorted(maps.Keys(off)) // why is for those who can log in
	}
	if s.o.Gateway != nil {
		answer["gateway"], answer["workq"] = s.o.Gateway.State().State, s.o.Gateway.QueueState().State
	}

	if err != nil {
		problem := rpc.Describe(err, rpc.Commands)
		answer["problem"], answer["hint"] = problem.Message, problem.Hint
	}
	rpc.WriteJSON(w, code, answer)
}

// FailedChannels returns the channels that are off because their last check or attempt
// failed, with the reason of each.
func FailedChannels(mail *mailroom.Mailroom) map[string]string {
	off := map[string]string{}
	for name, c := range mail.Capabilities() {
		if c.State == hub.Failed {
			off[name] = c.Detail
		}
	}
	return off
}

// peerCount returns how many peers are kept in step.
func (s *Site) peerCount(ctx context.Context) (int, error) {
	n := 0
	err := s.o.Store.View(ctx, func(r hub.Reader) error {
		peers, err := r.Peers()
		for _, p := range peers {
			if p.State == hub.PeerApproved {
				n++
			}
		}
		return err
	})
	return n, err
}

// listMethods answers GET /methods: the name of each operation that can be called,
// and its help. Operations of features that are off are not listed.
func listMethods(w http.ResponseWriter, methods []*rpc.Method, off []hub.Feature) {
	type operation struct {
		Method     string           `json:"method"`
		Tool       string           `json:"tool,omitempty"`
		Doc        string           `json:"doc"`
		Permission string           `json:"permission"` // that callers need in a project; else operator or anyone
		Callers    []hub.CallerKind `json:"callers"`
	}
	var names []string
	var operations []operation
	for _, m := range methods {
		if !rpc.Offered(m.Spec, off) {
			continue
		}
		permission := cmp.Or(string(m.Permission), "anyone")
		if len(m.Callers) == 1 {
			permission = string(m.Callers[0])
		}
		names = append(names, m.Method)
		operations = append(operations, operation{m.Method, m.Tool, api.Narrow(m.Spec, off).Doc, permission, m.Callers})
	}
	slices.Sort(names)
	rpc.WriteJSON(w, http.StatusOK, map[string]any{"methods": names, "operations": operations})
}

// getSchema answers GET /schema/NAME with a published schema as it is shipped.
func getSchema(w http.ResponseWriter, r *http.Request) {
	text, err := schema.Text(r.PathValue("name"))
	if err != nil {
		rpc.WriteError(w, hub.Errorf(hub.CodeNotFound, "schema", "%w", err))
		return
	}
	w.Header().Set("Content-Type", "application/schema+json")
	w.Write(text)
}

// serveManifest serves the signed manifest of this hub, by which others check its id. A
// hub whose id is not that of a domain has none.
func (s *Site) serveManifest(mux *http.ServeMux) {
	aid, err := peer.ParseAID(s.o.Self.AID)
	if err != nil {
		return
	}
	m, err := s.o.Self.Manifest(s.o.Vault.SigningKey(), hub.At(time.Now()), false)
	if err != nil {
		return
	}
	signed, err := m.Sign(s.o.Vault.Sign)
	if err != nil {
		return
	}
	mux.HandleFunc("GET "+aid.ManifestPath(), func(w http.ResponseWriter, _ *http.Request) { rpc.WriteJSON(w, http.StatusOK, signed) })
}

// listPeers answers GET /peers: to the operator everything, to other callers the
// names, addresses and health of the peers that were not removed.
func (s *Site) listPeers(w http.ResponseWriter, r *http.Request, c hub.Caller) error {
	if c.Kind == hub.CallerLegacyPeer || c.Kind == hub.CallerToken {
		return hub.Errorf(hub.CodeDenied, "peers", "%s cannot list this hub's peers", c.AID)
	}
	all, err := s.o.Syncer().Standings(r.Context())
	if err != nil {
		return err
	}
	if !c.IsOperator() {
		all = slices.DeleteFunc(all, func(p federation.PeerStatus) bool { return p.State == hub.PeerRemoved })
		for i, p := range all {
			all[i] = federation.PeerStatus{Trust: p.Trust, Identity: p.Identity, Lag: p.Lag, Healthy: p.Healthy, Peer: hub.Peer{AID: p.AID, Endpoint: p.Endpoint, Repo: p.Repo, State: p.State, Health: p.Health, Seen: p.Seen, AddedAt: p.AddedAt}}
		}
	}
	rpc.WriteJSON(w, http.StatusOK, coordination.Peers{Peers: all})
	return nil
}

// registerPeer answers POST /peers/register, with which a peer makes itself
// known. A caller without a key may be vouched for by the directory; a key that
// is shown must be valid.
// A key that is not valid is refused although a caller without one is not: the
// sender believes that it was identified.
func (s *Site) registerPeer(door *rpc.Door) rpc.Page {
	const op = "peers/register"
	return func(w http.ResponseWriter, r *http.Request, c hub.Caller) error {
		if !door.RequireJSON(w, r) {
			return nil
		}

		if c.Kind == hub.CallerGuest && (r.Header.Get("Authorization") != "" || r.Header.Get("X-Project-Token") != "") {
			return hub.Errorf(hub.CodeUnauthenticated, op, "the key is not valid on this hub").WithHint("register without a key, or with the peer's key")
		}

		var in peers.NewPeer
		body, err := rpc.ReadBody(w, r, registerBody)
		if err == nil {
			err = rpc.Decode(op, rpc.Tolerant, bytes.TrimSpace(body), &in)
		}
		if err == nil && (in.AID == "" || in.Endpoint == "") {
			err = hub.Errorf(hub.CodeInvalid, op, "agentId and endpoint required")
		}
		if err != nil {
			return err
		}

		p, err := s.o.Peers.RegisterPeer(r.Context(), c, in)
		if err != nil {
			return err
		}
		count, err := s.peerCount(r.Context())
		if err != nil {
			return err
		}
		rpc.WriteJSON(w, http.StatusOK, map[string]any{"status": "registered", "peerCount": count, "state": p.State}) // pending until the operator approves it
		return nil
	}
}

// An Artifact is the answer to POST /artifacts: stored content, as a reference to
// send.
type Artifact struct {
	Artifact hub.ArtifactRef `json:"artifact"`
}

// putArtifact answers POST /artifacts: it stores the body and answers with a
// reference that can be sent in context.artifacts.
func (s *Site) putArtifact(w http.ResponseWriter, r *http.Request, c hub.Caller) error {
	rpc.ArriveWithin(w, uploadTimeout)
	ref, err := s.o.Mail.StoreArtifact(r.Context(), c, r.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = hub.Errorf(hub.CodeInvalid, "artifact.put", "the upload ended early")
	}
	if err != nil {
		return err
	}
	rpc.WriteJSON(w, http.StatusOK, Artifact{ref})
	return nil
}

// getArtifact answers GET /artifacts/SHA256 to callers that may read the content.
// The content is foreign. Its type is neither guessed here nor by a browser.
func (s *Site) getArtifact(w http.ResponseWriter, r *http.Request, c hub.Caller) error {
	f, err := s.o.Mail.OpenArtifact(r.Context(), c, r.PathValue("sha256"))
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := io.Copy(w, f); err != nil {
		return nil // a caller that went away needs no answer
	}
	return s.o.Landings.Fetched(r.Context(), c, r.PathValue("sha256"))
}

// events answers GET /events with journal entries that the caller may see, as
// server-sent events, each with its number as the event's id. A client that comes
// back with Last-Event-ID (or ?after=N) misses nothing; one that gives neither
// begins with the next entry.
// The bus only wakes the loop; the entries come from the store, from the number of
// the last one on. A lost hint therefore delays events until the next tick, and
// loses none.
func (s *Site) events(door *rpc.Door) rpc.Page {
	return func(w http.ResponseWriter, r *http.Request, c hub.Caller) error {
		after, err := s.startAt(r)
		if err != nil {
			return err
		}

		rc := http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no")
		fmt.Fprintf(w, ": events after %d\n\n", after)
		if rc.Flush() != nil {
			return nil
		}

		// Subscribed before the first read: an entry in between is hinted at.
		hints, cancel := s.o.Bus.Subscribe(hub.TopicJournal)
		defer cancel()
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()

		for {
			// The key may have been revoked while the stream was open.
			if _, err := door.Identify(r); err != nil {
				return nil
			}
			if after, err = s.writeEvents(w, r, c, after); err != nil {
				s.o.Log.Warn("event stream ended", "actor", c.ID, "err", err)
				return nil
			}
			if rc.Flush() != nil {
				return nil
			}

			select {
			case <-hints:
			case <-tick.C:
				fmt.Fprint(w, ": \n\n")
			case <-r.Context().Done():
				return nil
			case <-s.o.Stopping:
				return nil
			}
		}
	}
}

// writeEvents writes the entries after a number, and returns the number of the
// last entry of the journal.
// It writes page after page until a page brings nothing new, so the memory of a
// stream does not depend on how far behind it is.
func (s *Site) writeEvents(w http.ResponseWriter, r *http.Request, c hub.Caller, after int64) (int64, error) {
	for {
		entries, last, err := s.o.Journal.Events(r.Context(), c, after, eventPage)
		if err != nil {
			return after, err
		}
		for _, e := range entries {
			data, err := json.Marshal(e)
			if err != nil {
				return after, err
			}
			fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Action, data)
		}
		if last == after {
			return after, nil
		}
		after = last
	}
}

// startAt returns the number after which a stream begins.
func (s *Site) startAt(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	head, err := s.o.Journal.Head(r.Context())
	if text == "" || err != nil {
		return head.Seq, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, hub.Errorf(hub.CodeInvalid, "events", "%q is not an event number", text)
	}
	if n > head.Seq {
		return 0, hub.Errorf(hub.CodeInvalid, "events", "no event with number %d yet; the newest is %d", n, head.Seq).
			WithHint("the number may be from another hub; start with ?after=0")
	}
	return n, nil
}
