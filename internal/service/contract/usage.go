package contract

import (
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A Rate is how much one peer may bring in a minute.
type Rate struct {
	Projects int
	Things   int   // changes of contracts and projects, packets, files and requests for them
	Bytes    int64 // of content and files
}

// A usage counts the changes that one peer brought: in the minute of its last call, and ever. It is
// stored with the changes themselves, so that a restart forgets neither.
type usage struct {
	Minute int64 `json:"minute"` // since 1970
	Rate   Rate  `json:"rate"`   // in that minute
	Things int   `json:"things"` // ever
	Bytes  int64 `json:"bytes"`  // ever
}

func usageKey(aid coord.AID) string { return "peer.usage/" + string(aid) }

// charge counts the bytes that the change at hand adds to the store, if another hub made it. It
// reports CodeRateLimited, with the time until the next minute, when that is more than
// a peer may bring in a minute. Copies that this hub fetched itself have no rate.
//
// A guest has a share, too: half of the limit of each project that it was invited to.
// It reports CodeTooLarge beyond that.
func (se *session) charge(op string, add Rate) error {
	who := se.source
	if who == "" && se.caller.Outside() && se.caller.Kind != hub.CallerAnyone {
		who = se.caller.AID
	}
	if who == "" {
		return nil
	}
	if se.used == nil {
		if err := se.loadUsage(who); err != nil {
			return err
		}
	}
	u := se.used
	l := se.s.o.Limits
	now := se.now.Time
	if minute := now.Unix() / 60; u.Minute != minute { // a clock that was set back begins anew
		u.Minute, u.Rate = minute, Rate{}
	}
	sum := Rate{u.Rate.Projects + add.Projects, u.Rate.Things + add.Things, u.Rate.Bytes + add.Bytes}
	tooManyBytes := sum.Bytes > l.Rate.Bytes && u.Rate.Bytes > 0
	isOverRate := sum.Projects > l.Rate.Projects || sum.Things > l.Rate.Things || tooManyBytes
	if isOverRate && !se.fetched {
		return hub.Errorf(hub.CodeRateLimited, op, "%s sent more than %d projects, %d changes or %d bytes in a minute", who, l.Rate.Projects, l.Rate.Things, l.Rate.Bytes).
			WithRetry(time.Unix((u.Minute+1)*60, 0).Sub(now))
	}
	if n := len(se.guestOf); n > 0 && (u.Things+add.Things > n*(l.Contracts+l.Packets)/2 || u.Bytes+add.Bytes > int64(n)*l.Bytes/2) {
		return hub.Errorf(hub.CodeTooLarge, op, "%s reached its quota on this hub: %d changes, %d bytes", who, u.Things, u.Bytes)
	}
	u.Rate = sum
	u.Things += add.Things
	u.Bytes += max(0, add.Bytes)
	se.charged = true
	return nil
}

// loadUsage reads the usage of a peer, and the projects that it is a guest of.
func (se *session) loadUsage(who coord.AID) error {
	p, err := se.tx.Peer(who)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	for _, g := range p.Grants {
		if !g.Host {
			se.guestOf = append(se.guestOf, g)
		}
	}
	text, err := se.tx.Meta(usageKey(who))
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	se.used, se.user = new(usage), who
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), se.used)
}

// putUsage stores the usage that the session counted.
func (se *session) putUsage() error {
	if !se.charged {
		return nil
	}
	text, err := json.Marshal(se.used)
	if err != nil {
		return err
	}
	return se.tx.PutMeta(usageKey(se.user), string(text))
}

// roomForProject refuses a project more than the hub keeps, and more than one peer may
// own of them. owner is the maker of the project.
func (se *session) roomForProject(op string, owner coord.AID) error {
	l := se.s.o.Limits
	all, err := se.tx.Coordination().Projects("", l.Projects)
	if err != nil {
		return err
	}
	if len(all) >= l.Projects {
		return hub.Errorf(hub.CodeTooLarge, op, "this hub reached its limit of %d projects", l.Projects)
	}
	if se.source == "" && !se.caller.Outside() {
		return nil
	}
	owned := 0
	for _, p := range all {
		if p.Owner == owner {
			owned++
		}
	}
	if owned >= l.PeerProjects {
		return hub.Errorf(hub.CodeTooLarge, op, "%s reached the limit of %d projects for one peer", owner, owned)
	}
	return se.charge(op, Rate{Projects: 1})
}
