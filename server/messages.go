package server

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// openWakes builds the wake machine over the sessions of agents and the channels of the
// options.
// Channels of one kind are tried in the order of this list.
func (s *Server) openWakes(ctx context.Context) (err error) {
	others := slices.Clone(s.opts.Channels)
	if people := s.notifier.Channel(); people != nil {
		others = append(others, people)
	}
	if s.gateway != nil {
		others = append(others, s.gateway.Channels()...)
	}

	o := wake.Options{Clock: s.clock, Bus: s.hints, Log: s.log, Limits: s.opts.Wakes, Stopping: s.stopping, Ended: process.Ended}
	o.Budget = func(rd hub.Reader, agent hub.AgentID) (string, hub.Time, error) { return s.usage.Blocked(rd, agent) }
	o.AsksTrust = func(name string) bool {
		c, err := cli.Lookup(name)
		return err == nil && c.Trust != ""
	}
	if s.postgres != nil {
		o.Machine = s.postgres.Machine()
		o.Away = s.postgres.Away
	}
	if s.wakes, err = wake.New(s.store, others, o); err != nil {
		return err
	}
	return s.wakes.Check(ctx)
}

// openNotifier builds the targets that tell people.
func (s *Server) openNotifier(context.Context) (err error) {
	s.notifier, err = notify.New(s.store, s.opts.Notify, notify.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Kinds: words(attention.Kinds()), Events: contract.EventKinds, HTTP: s.client,
	})
	return err
}

// runNotifier tells people what waits for them, until ctx ends.
func (s *Server) runNotifier(ctx context.Context) {
	s.notifier.Work(notify.Hub{Waiting: s.services.WaitingItems, EventText: s.eventText, Record: s.wakes.Record}).Run(ctx)
}

// eventText returns the name of the contract that an event is about.
func (s *Server) eventText(ctx context.Context, w notify.Wait) (string, error) {
	if w.Kind == contract.EventCanMerge {
		return "", nil
	}
	return s.contracts.ContractName(ctx, coord.ContractID(w.ID))
}

// people tells the targets of notices of the events of contracts.
type people struct{ *notify.Notifier }

func (p people) Tell(tx hub.Tx, kind, id, fact, command string) error {
	return p.Notifier.Tell(tx, notify.Wait{Kind: kind, ID: id, Fact: fact, Command: command})
}

// openGateway prepares the connection to the gateway of the options.
// The options are copied, because the caller's must not change.
func (s *Server) openGateway(context.Context) (err error) {
	o := *s.opts.Gateway
	o.Device = s.vault.DeviceKey()
	o.Version = s.opts.Version
	o.Log = s.log
	s.gateway, err = gateway.New(o)
	return err
}

// recheckChannels has the wake machine check its channels after each connection to the gateway,
// until ctx ends.
func (s *Server) recheckChannels(ctx context.Context) {
	for {
		select {
		case <-s.gateway.Connected():
			s.wakes.Recheck()
		case <-ctx.Done():
			return
		}
	}
}

// closeGateway ends the connection to the gateway.
func (s *Server) closeGateway() error {
	s.gateway.Close()
	return nil
}

// openMessages builds the mailroom.
func (s *Server) openMessages(context.Context) (err error) {
	o := &mailroom.Options{
		Features: s.features,
		Clock:    s.clock, Bus: s.hints, Log: s.log, Limits: s.opts.Limits, Router: s.wakes,
		Lenient: s.opts.Lenient, Stopping: s.stopping, Artifacts: s.content,
	}
	if s.gateway != nil {
		o.Capabilities = map[string]func() hub.Capability{"gateway": s.gateway.State, "workq": s.gateway.QueueState}
	}
	if !s.opts.NoInboxFiles {
		o.InboxDir = filepath.Join(s.opts.Home, home.InboxDir)
	}
	if s.postgres != nil {
		o.WaitsElsewhere = s.postgres.WaitsElsewhere
	}

	s.mail, err = mailroom.New(s.store, s.keys, o)
	return err
}

// openTalks builds the service of negotiations and disagreements.
// The mailroom and the deliberations need each other, so the mailroom gets its
// moderator after it was built.
func (s *Server) openTalks(context.Context) (err error) {
	o := &deliberation.Options{
		Clock: s.clock, Log: s.log, ResponseTime: s.opts.ResponseTime, Counters: s.opts.MaxCounters, Challenges: s.opts.MaxChallenges,
	}
	if s.teams != nil {
		o.Board = s.teams
	}
	if s.talks, err = deliberation.New(s.store, s.mail, o); err != nil {
		return err
	}
	s.mail.Moderate(s.talks)
	return nil
}
