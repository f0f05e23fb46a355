package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/surface/intake"
)

// openEvents builds the service that turns events from outside into messages.
func (s *Server) openEvents(context.Context) error {
	s.outside = event.New(s.store, s.mail, s.vault, &event.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Teams: s.teams != nil, AID: s.keys.AID, Remotes: git.PublicRemotes, Changed: func() { s.polls.Kick() },
	})
	s.polls = intake.NewPoller(s.store, s.outside, s.clock, s.log)
	return nil
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
