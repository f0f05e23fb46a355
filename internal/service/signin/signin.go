// Package signin lets browsers sign in to the hub's page.
//
// A link has a code that works once and not for long. It is exchanged for a session,
// whose secret the browser keeps in a cookie and the store as a hash. The session of
// an operator is as good as the key with which its link was made, and ends with it; the
// session of a viewer reads.
//
// Browsers send a cookie to every port of its host. So the page is served under host
// names with a random label, which no program on another port of the machine knows: one
// for each key of an operator, and one for each invite of a viewer. A code works under
// its own label, and so does the session that it is exchanged for. A viewer who listens
// on another port of the own name therefore gets the own cookie and no other one.
package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	linkTime   = time.Minute         // a link of an operator
	inviteTime = 10 * time.Minute    // a link of a viewer, which has to reach that person
	lifetime   = 12 * time.Hour      // a session, unless the invite of a viewer says otherwise
	maxLife    = 30 * 24 * time.Hour // a session of a viewer
	maxLinks   = 32                  // that are not used yet; the oldest gives way
	maxOpen    = 64                  // sessions at a time; the oldest gives way
)

// Names of small facts in the store.
const (
	metaSeed     = "web.seed"     // from which the labels of operators follow
	metaSessions = "web.sessions" // a list
)

// Options changes how a Service works.
type Options struct {
	Clock  hub.Clock // default time.Now
	Bus    hub.Bus   // gets a hint after every change; may be nil
	Listen net.Addr  // the port of links is its port
	Secure bool      // the hub speaks TLS

	// Operator returns the operator who holds the key with a hash. It reports
	// CodeUnauthenticated when the key is not valid.
	Operator func(ctx context.Context, hash string) (hub.Caller, error)
}

// A Service makes links and keeps sessions. It is safe for concurrent use.
type Service struct {
	store hub.Store
	opts  Options
	seed  string // no label tells it

	mu    sync.Mutex          // guards the fields below
	links map[string]link     // by the hash of the code
	seen  map[string]hub.Time // last request of each session since the hub started
}

// A link can be exchanged for a session.
type link struct {
	session Session // as it will be, without a secret
	until   hub.Time
}

// A Session is a browser that is signed in.
type Session struct {
	ID     string    `json:"id"`               // a name, no secret
	Hash   string    `json:"hash,omitempty"`   // of the secret in the cookie; not in answers
	Key    string    `json:"key,omitempty"`    // hash of the operator's key; not in answers
	Label  string    `json:"label,omitempty"`  // of the host name under which it is valid; not in answers
	Viewer string    `json:"viewer,omitempty"` // empty for an operator
	Person string    `json:"person,omitempty"` // the name of a further operator
	Client string    `json:"client,omitempty"` // the browser, in its own words
	Begun  hub.Time  `json:"begun,omitzero"`
	Until  hub.Time  `json:"until,omitzero"`
	Seen   *hub.Time `json:"seen,omitempty"` // its last request since the hub started; in answers alone
}

// New returns a service for the page of a hub. At the first start it makes the seed of
// the labels.
func New(ctx context.Context, store hub.Store, opts Options) (*Service, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	s := &Service{store: store, opts: opts, links: map[string]link{}, seen: map[string]hub.Time{}}
	read := func(r hub.Reader) (string, error) { return hub.ReadMeta[string](r, metaSeed) }
	seed, err := hub.Read(ctx, store, read)
	if err == nil && seed == "" {
		err = store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
			if seed, err = read(tx); err == nil && seed == "" {
				seed = rand.Text() + rand.Text()
				err = hub.WriteMeta(tx, metaSeed, seed)
			}
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("signin: the names of the page: %w", err)
	}
	s.seed = seed
	return s, nil
}

// The form of host names of the page: a label of 128 random bits below localhost, which
// browsers take for this machine.
const (
	suffix    = ".localhost"
	alphabet  = "abcdefghijklmnopqrstuvwxyz234567"
	labelSize = 26
)

// newLabel returns a label that no one can guess.
func newLabel() string { return strings.ToLower(rand.Text()) }

// operatorLabel returns the label of the operator who holds the key with a hash: the
// same as long as the key is valid, so that addresses can be kept.
func (s *Service) operatorLabel(hash string) string {
	mac := hmac.New(sha256.New, []byte(s.seed))
	mac.Write([]byte(hash))
	return base32.NewEncoding(alphabet).WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil))[:labelSize]
}

// Label returns the label in the Host header of a request for the page, and "" for a
// request for anything else. Every label leads to the sign-in page; only a session that
// was made under it leads further.
func Label(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	label, below := strings.CutSuffix(strings.ToLower(host), suffix)
	if !below || len(label) != labelSize || strings.Trim(label, alphabet) != "" {
		return ""
	}
	return label
}

// A Link signs one browser in, once.
type Link struct {
	URL      string `json:"url"`  // of the sign-in page; it holds no secret
	Code     string `json:"code"` // to be posted there
	ExpiresS int    `json:"expires_s"`
	Viewer   string `json:"viewer,omitempty"`
}

// Open makes a link for the operator who calls.
func (s *Service) Open(ctx context.Context, actor hub.Caller) (Link, error) {
	const op = "signin.Open"
	if err := actor.OperatorOnly(op); err != nil {
		return Link{}, err
	}
	keys, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Key, error) { return r.Keys(hub.Operator) })
	if err != nil {
		return Link{}, fmt.Errorf("signin: open: %w", err)
	}
	i := slices.IndexFunc(keys, func(k hub.Key) bool { return k.ID == actor.Key })
	if i < 0 {
		return Link{}, hub.Errorf(hub.CodeDenied, op, "only the operator's key can create a link")
	}
	hash := keys[i].Hash
	return s.link(Session{Key: hash, Label: s.operatorLabel(hash), Person: actor.Person()}, linkTime, lifetime), nil
}

// Invite makes a link for a viewer, whose session lives for some time; 0 for the default.
func (s *Service) Invite(ctx context.Context, actor hub.Caller, name string, life time.Duration) (Link, error) {
	const op = "signin.Invite"
	if err := actor.OperatorOnly(op); err != nil {
		return Link{}, err
	}
	if !hub.AgentID(name).Valid() {
		return Link{}, hub.Errorf(hub.CodeInvalid, op, "%q is not a valid viewer name", name).
			WithHint("use 1 to 64 characters from a-z, 0-9, dot, dash and underscore, starting with a letter or digit")
	}
	if life == 0 {
		life = lifetime
	}
	if life < time.Minute || life > maxLife {
		return Link{}, hub.Errorf(hub.CodeInvalid, op, "for must be between a minute and 30 days")
	}
	err := s.update(ctx, func(tx hub.Tx, now hub.Time) error {
		_, err := tx.Append(actor.Entry(now, actions.WebInvited, "", map[string]any{"viewer": name, "for_s": int(life.Seconds())}))
		return err
	})
	if err != nil {
		return Link{}, fmt.Errorf("signin: invite: %w", err)
	}
	return s.link(Session{Viewer: name, Label: newLabel()}, inviteTime, life), nil
}

// link keeps a link in memory: it does not outlive the hub.
func (s *Service) link(session Session, wait, life time.Duration) Link {
	code := rand.Text()
	now := s.opts.Clock.Now()
	session.Until = hub.At(now.Time.Add(life)) // moved to the sign-in by Exchange
	session.Begun = now
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest string
	for hash, l := range s.links {
		if now.After(l.until.Time) {
			delete(s.links, hash)
		} else if oldest == "" || l.until.Before(s.links[oldest].until.Time) {
			oldest = hash
		}
	}
	if len(s.links) >= maxLinks {
		delete(s.links, oldest)
	}
	s.links[hub.HashSecret(code)] = link{session, now.Add(wait)}
	return Link{URL: s.signInURL(session.Label), Code: code, ExpiresS: int(wait.Seconds()), Viewer: session.Viewer}
}

// signInURL returns the address of the sign-in page under a label.
func (s *Service) signInURL(label string) string {
	u := url.URL{Scheme: "http", Host: label + suffix, Path: "/sign-in"}
	if s.opts.Secure {
		u.Scheme = "https"
	}
	if _, port, err := net.SplitHostPort(s.opts.Listen.String()); err == nil {
		u.Host = net.JoinHostPort(u.Host, port)
	}
	return u.String()
}

// An Attempt is a code that a browser posts.
type Attempt struct {
	Code   string
	Label  string // of the host name to which it is posted
	File   bool   // it comes from a page without an origin, as the file of parley open is
	Client string // the browser, in its own words
}

// Exchange returns a new session and its secret for the code of a link, which is used
// up by that. A code of a viewer is taken from the page itself alone: any page in a
// browser can post one without an origin.
func (s *Service) Exchange(ctx context.Context, a Attempt) (Session, string, error) {
	l, err := s.take(a)
	if err != nil {
		return Session{}, "", err
	}

	made := l.session
	life := made.Until.Sub(made.Begun.Time)
	secret := rand.Text() + rand.Text()
	made.ID = "web-" + strings.ToLower(rand.Text()[:8])
	made.Hash = hub.HashSecret(secret)
	made.Client = strings.ToValidUTF8(a.Client[:min(len(a.Client), 200)], "")

	actor, err := s.caller(ctx, made)
	if err != nil {
		return Session{}, "", err
	}

	err = s.update(ctx, func(tx hub.Tx, now hub.Time) error {
		made.Begun, made.Until = now, now.Add(life)
		open, err := sessions(tx, now)
		if err != nil {
			return err
		}

		// At the limit, the oldest session ends.
		if len(open) >= maxOpen {
			open = open[len(open)-maxOpen+1:]
		}
		if err := hub.WriteMeta(tx, metaSessions, append(open, made)); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(now, actions.WebSignedIn, made.ID, nil))
		return err
	})
	if err != nil {
		return Session{}, "", fmt.Errorf("signin: exchange: %w", err)
	}
	return made, secret, nil
}

// take returns the link of a code and removes it. A code that is posted to another name
// than its own stays: a person may have taken an old address.
func (s *Service) take(a Attempt) (link, error) {
	const op = "signin.Exchange"
	hash := hub.HashSecret(strings.TrimSpace(a.Code))
	now := s.opts.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.links[hash]
	switch {
	case !known, now.After(l.until.Time), l.session.Label != a.Label:
		return link{}, hub.Errorf(hub.CodeUnauthenticated, op, "the code is unknown, already used, expired or for another address").
			WithHint("run parley open again: a code works once, within a minute, at the address printed with it")
	case a.File && l.session.Viewer != "":
		return link{}, hub.Errorf(hub.CodeDenied, op, "a viewer's code must be entered on the sign-in page")
	}
	delete(s.links, hash)
	return l, nil
}

// update changes the store and tells the bus.
func (s *Service) update(ctx context.Context, fn func(tx hub.Tx, now hub.Time) error) error {
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return fn(tx, s.opts.Clock.Now()) })
	if err == nil && s.opts.Bus != nil {
		s.opts.Bus.Publish(hub.TopicJournal)
	}
	return err
}

// sessions returns the sessions that have not expired, the oldest first. One without a
// label was made when all had the same host name, and is over.
func sessions(r hub.Reader, now hub.Time) ([]Session, error) {
	open, err := hub.ReadMeta[[]Session](r, metaSessions)
	return slices.DeleteFunc(open, func(s Session) bool { return s.Label == "" || !now.Before(s.Until.Time) }), err
}

// caller returns the person of a session as a caller.
func (s *Service) caller(ctx context.Context, session Session) (hub.Caller, error) {
	if session.Viewer != "" {
		return hub.ViewerCaller(session.Viewer), nil
	}
	return s.opts.Operator(ctx, session.Key)
}

// Identify returns the session with a secret under a label, and its person as a caller.
// It reports CodeUnauthenticated for a secret of no session, for a session of another
// label, and for a session whose operator's key was revoked.
func (s *Service) Identify(ctx context.Context, label, secret string) (Session, hub.Caller, error) {
	now := s.opts.Clock.Now()
	open, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]Session, error) { return sessions(r, now) })
	if err != nil {
		return Session{}, hub.Caller{}, fmt.Errorf("signin: identify: %w", err)
	}
	hash := hub.HashSecret(secret)
	i := slices.IndexFunc(open, func(s Session) bool { return s.Hash == hash && s.Label == label })
	if i < 0 {
		return Session{}, hub.Caller{}, hub.Errorf(hub.CodeUnauthenticated, "signin.Identify", "you are not signed in").WithHint("run: parley open")
	}
	caller, err := s.caller(ctx, open[i])
	if err != nil {
		return Session{}, hub.Caller{}, err
	}
	caller.Session = open[i].ID
	s.mu.Lock()
	s.seen[open[i].ID] = now
	s.mu.Unlock()
	return open[i], caller, nil
}

// Sessions returns the open sessions, the oldest first, without hashes and labels: to
// know the label of another operator is to be able to take that cookie. Only the
// operator may.
func (s *Service) Sessions(ctx context.Context, actor hub.Caller) ([]Session, error) {
	if err := actor.OperatorOnly("signin.Sessions"); err != nil {
		return nil, err
	}
	now := s.opts.Clock.Now()
	open, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]Session, error) { return sessions(r, now) })
	if err != nil {
		return nil, fmt.Errorf("signin: sessions: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range open {
		open[i].Hash = ""
		open[i].Key = ""
		open[i].Label = ""
		if at, ok := s.seen[open[i].ID]; ok {
			open[i].Seen = &at
		}
	}
	return open, nil
}

// Revoke ends the session with an id, or all if it is "", and returns how many ended.
// Only the operator may; SignOut is for the person of the session.
func (s *Service) Revoke(ctx context.Context, actor hub.Caller, id string) (int, error) {
	const op = "signin.Revoke"
	if err := actor.OperatorOnly(op); err != nil {
		return 0, err
	}
	return s.end(ctx, op, actor, id)
}

// SignOut ends a session.
func (s *Service) SignOut(ctx context.Context, actor hub.Caller, id string) error {
	_, err := s.end(ctx, "signin.SignOut", actor, id)
	return err
}

func (s *Service) end(ctx context.Context, op string, actor hub.Caller, id string) (int, error) {
	n := 0
	err := s.update(ctx, func(tx hub.Tx, now hub.Time) error {
		n = 0
		open, err := sessions(tx, now)
		if err != nil {
			return err
		}
		kept := make([]Session, 0, len(open))
		for _, o := range open {
			if id != "" && o.ID != id {
				kept = append(kept, o)
				continue
			}
			n++
			if _, err := tx.Append(actor.Entry(now, actions.WebSignedOut, o.ID, nil)); err != nil {
				return err
			}
		}
		if n == 0 && id != "" {
			return hub.Errorf(hub.CodeNotFound, op, "no open session with id %q", id).WithHint("parley hub viewer lists the sessions")
		}
		return hub.WriteMeta(tx, metaSessions, kept)
	})
	if err != nil {
		return 0, fmt.Errorf("signin: end: %w", err)
	}
	return n, nil
}
