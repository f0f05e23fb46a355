package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/forge"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/surface/intake"
)

// openEvents builds the service that turns events from outside into messages.
func (s *Server) openEvents(context.Context) error {
	s.polls.again = make(chan struct{}, 1)
	s.polls.next = map[string]time.Time{}
	s.outside = event.New(s.store, s.mail, s.vault, &event.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Teams: s.teams != nil, AID: s.keys.AID, Remotes: publicRemotes, Changed: s.polls.kick,
	})
	return nil
}

// publicRemotes returns the addresses of the remotes of the repository in a folder, without those
// that are folders of this machine; none if they cannot be read.
func publicRemotes(ctx context.Context, folder string) []string {
	all, err := remotesOf(ctx, folder)
	if err != nil {
		return nil
	}
	isFolder := func(address string) bool { return strings.HasPrefix(address, "/") || strings.HasPrefix(address, ".") }
	return slices.DeleteFunc(all, isFolder)
}

// openSchedules builds the service that sends messages of the operator on a schedule.
func (s *Server) openSchedules(context.Context) error {
	s.schedules = schedule.New(s.store, s.mail, &schedule.Options{Clock: s.clock, Bus: s.hints, Log: s.log})
	return nil
}

// The most connections of webhooks, of all and of one network: a single machine that opens
// connections and sends nothing does not keep a vendor out.
const (
	maxHooks  = 256
	hookShare = 64
)

// openIntake begins to listen for webhooks, on an address of its own: whatever is reachable there is
// no door to the hub. The connections wait until Serve.
func (s *Server) openIntake(context.Context) error {
	l, err := net.Listen("tcp", s.opts.InAddr)
	if err != nil {
		return listenError(s.opts.InAddr, err)
	}
	secure := s.inTLS != nil
	s.inURL = baseURL(l.Addr(), secure)
	s.inListener = &boundedListener{Listener: l, most: maxHooks, share: hookShare, secure: secure, log: s.log}
	if secure {
		s.inListener = tls.NewListener(s.inListener, s.inTLS)
	}
	s.inHTTP = &http.Server{
		Handler:           intake.New(intake.Options{Events: s.outside, Clock: s.clock, Log: s.log, Rate: s.opts.inRate, Burst: s.opts.inBurst}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// closeIntake ends listening for webhooks.
func (s *Server) closeIntake() error {
	s.inListener.Close() // closed already if the server was serving
	return nil
}

// runIntake answers webhooks until ctx ends. Those under way are finished.
func (s *Server) runIntake(ctx context.Context) {
	failed := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- s.inHTTP.Serve(s.inListener) })
	defer serving.Wait()
	select {
	case err := <-failed:
		s.log.Error("webhooks are not answered any more", "err", err)
		return
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.inHTTP.Shutdown(grace); err != nil {
		s.inHTTP.Close()
	}
}

// InURL returns where the hub listens for webhooks; "" if it does not.
func (s *Server) InURL() string { return s.inURL }

// A pollWork asks vendors for events beside requests.
type pollWork struct {
	client forge.Client
	again  chan struct{} // receives after sources were changed

	mu   sync.Mutex           // guards next, and is held while vendors are asked
	next map[string]time.Time // when each repository is asked about again, by source and repository
}

// kick makes the work read the sources again.
func (w *pollWork) kick() {
	select {
	case w.again <- struct{}{}:
	default: // it does already
	}
}

const (
	pollRest    = 10 * time.Second // between two looks at the repositories that are due
	pollLease   = 2 * time.Minute
	pollFailure = 5 * time.Minute // until a repository is asked about again after an error
)

// runPolls asks vendors for the events of repositories until ctx ends. Of several hubs on one
// database one does.
func (s *Server) runPolls(ctx context.Context) {
	for {
		err := hub.Alone(ctx, s.store, "events.polls", pollLease, func(hub.Store) error { return s.pollAll(ctx) })
		if err != nil && ctx.Err() == nil {
			s.log.Warn("event sources were not polled, it is tried again", "err", err)
		}
		select {
		case <-time.After(pollRest):
		case <-s.polls.again:
		case <-ctx.Done():
			return
		}
	}
}

// pollAll asks about every repository that is due.
func (s *Server) pollAll(ctx context.Context) error {
	s.polls.mu.Lock()
	defer s.polls.mu.Unlock()
	all, err := s.outside.Polls(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		key := p.Source + " " + p.Repository
		if p.Position == nil {
			delete(s.polls.next, key) // it begins anew
		}
		now := s.clock()
		if s.polls.next[key].After(now) {
			continue
		}
		wait, err := s.poll(ctx, p)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("a repository cannot be polled", "source", p.Source, "repository", p.Repository, "err", err)
			wait = max(wait, pollFailure)
		}
		s.polls.next[key] = now.Add(max(wait, p.Every, forge.MinPoll))
	}
	return ctx.Err()
}

// poll asks about one repository and stores its new events, also if one of several lists cannot be
// read. It returns the time that the vendor wants before the next question.
func (s *Server) poll(ctx context.Context, p event.Poll) (time.Duration, error) {
	var from forge.Position
	if p.Position != nil {
		if err := json.Unmarshal(p.Position, &from); err != nil {
			return 0, err
		}
	}
	from.Since = p.Since
	got, asked := s.polls.client.Poll(ctx, forge.Question{Vendor: p.Vendor, API: p.API, Repository: p.Repository, Token: p.Token}, from)

	// A list has old events, too. Those that were stored before a failure are known the next time.
	fresh, err := s.outside.Unknown(ctx, p.Source, got.Events)
	if err != nil {
		return got.Wait, err
	}
	for _, e := range fresh {
		if _, err := s.outside.Receive(ctx, p.Source, e); err != nil {
			return got.Wait, err
		}
	}
	raw, err := json.Marshal(got.Position)
	if err != nil {
		return got.Wait, err
	}
	if err := s.outside.Polled(ctx, p, raw); err != nil {
		return got.Wait, err
	}
	return got.Wait, asked
}
