// Package notify tells people outside of the hub what waits for them: by a command, or
// by a webhook in the form of Slack, Discord, ntfy or plain JSON.
//
// A thing that begins or ends to wait, an event, or a message for the delivery channel of
// people is an entry of the journal with the subject Subject. A target is a cursor over those
// entries, in the store: it goes on where it stands, so that a target that is down loses
// nothing, and each target has a goroutine of its own, so that it delays nothing else.
// Entries have no text of agents; a notice takes it from what waits, or what the event is
// about, when it is sent, and leaves out text of high sensitivity.
//
// A notice may arrive twice, after a crash between its answer and the cursor; its id is
// then the same.
package notify

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// Subject is the subject of the journal entries about things that wait for people.
const Subject = "people"

// Words of Target.Events besides the kinds of waits and of events.
const (
	EventMessage = "message" // a message takes the delivery channel of people
	EventEnded   = "ended"   // a thing that the target was told of waits no more
)

// The templates of a webhook.
const (
	TemplateJSON    = "json"
	TemplateSlack   = "slack"
	TemplateDiscord = "discord"
	TemplateNtfy    = "ntfy"
)

var templates = []string{TemplateJSON, TemplateSlack, TemplateDiscord, TemplateNtfy}

// A Target is a way to tell a person. It has a command or a URL.
type Target struct {
	Name     string
	Command  []string      // the program and its arguments, in which {title} and {text} are replaced; the text is on its standard input, too
	URL      string        // of a webhook; whoever knows it can post there, so it is shown nowhere
	Template string        // of the webhook; default json
	Secret   []byte        // signs the webhook; required for json
	Events   []string      // kinds of waits and of events, EventMessage and EventEnded; all if empty
	Quiet    string        // hours without notices, as in 22:00-07:00 in the time of the hub's machine; "" for none
	Batch    time.Duration // how long a notice waits for others; default 10 seconds
	GiveUp   time.Duration // after which a notice becomes a dead letter; default a day

	from, until time.Duration // of quiet hours, since midnight
}

// A Wait is one thing that waits for a person, or an event that a person is told of.
type Wait struct {
	Kind    string      `json:"kind"`
	ID      string      `json:"id"`
	Agent   hub.AgentID `json:"agent,omitempty"`
	Fact    string      `json:"fact"`              // a sentence of the hub
	Text    string      `json:"text,omitempty"`    // words of an agent; never stored, and never sent if Private
	Private bool        `json:"private,omitempty"` // its text must not leave the hub
	Command string      `json:"command,omitempty"` // that answers it
	Urgent  bool        `json:"urgent,omitempty"`  // its notice waits for no others
}

func (w Wait) key() string { return w.Kind + " " + w.ID }

// Waiting is everything that waits.
type Waiting struct {
	Items   []Wait
	Partial []string // kinds of which Items has a part only, so that none of them ends
}

// A Poster sends a document over HTTP to addresses that the hub may call, and returns
// the status of the answer. Errors name the host, never the whole address.
type Poster interface {
	Post(ctx context.Context, url string, header http.Header, body []byte) (status int, err error)
	// CheckEndpoint reports why an address is never called; nil if it may be.
	CheckEndpoint(url string) error
}

// Options are the parts that a Notifier works with. All but Log and Location are required.
type Options struct {
	Clock    hub.Clock
	Bus      hub.Bus
	Log      *slog.Logger
	Location *time.Location // of quiet hours; default the machine's
	Kinds    []string       // the kinds of waits
	Events   []string       // the kinds of events
	HTTP     Poster
}

// A Hub is what the work of a notifier asks of its hub.
type Hub struct {
	// Waiting returns the things that wait for people.
	Waiting func(context.Context) (Waiting, error)
	// EventText returns the words of an agent about an event, such as the name of a
	// contract; "" if there are none.
	EventText func(context.Context, Wait) (string, error)
	// Record records how far an attempt of the delivery channel has come.
	Record func(tx hub.Tx, agent hub.AgentID, id string, o channel.Outcome) error
}

// A Worker finds what waits and tells the targets of a notifier. Its Run makes all of it.
type Worker struct {
	*Notifier
	hub Hub
}

// Work returns the worker that tells people of what waits on a hub.
func (n *Notifier) Work(on Hub) *Worker { return &Worker{n, on} }

// A Notifier tells people. It is safe for concurrent use.
type Notifier struct {
	store   hub.Store
	targets []Target
	o       Options
}

const (
	maxBatch   = 20 // things in one notice
	maxTargets = 50
	watchGap   = time.Second            // between two looks at what waits
	sendGap    = 200 * time.Millisecond // between two looks of a target at the journal
	watchEvery = 15 * time.Second       // without an event: some waits follow from time alone
	flapTime   = 10 * time.Minute       // in which a thing that waits again is the same wait
	leaseTime  = time.Minute
	sendTime   = 15 * time.Second
	firstRetry = time.Second // doubled after each failure
	maxRetry   = 5 * time.Minute
	maxText    = 200 // characters of an agent in a notice
)

var targetName = pattern.New(`^[a-z0-9][a-z0-9_-]{0,39}$`)

// New returns a notifier for targets.
func New(store hub.Store, targets []Target, o Options) (*Notifier, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	n := &Notifier{store: store, o: o}
	if len(targets) > maxTargets {
		return nil, hub.Errorf(hub.CodeInvalid, "notify.New", "notify: more than %d targets", maxTargets)
	}
	for _, t := range targets {
		if err := n.check(&t); err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, "notify.New", "notify: target %.40q: %w", t.Name, err)
		}
		n.targets = append(n.targets, t)
	}
	return n, nil
}

// check completes a target.
func (n *Notifier) check(t *Target) error {
	words := slices.Concat(n.o.Kinds, n.o.Events, []string{EventMessage, EventEnded})
	t.Batch, t.GiveUp = cmp.Or(t.Batch, 10*time.Second), cmp.Or(t.GiveUp, 24*time.Hour)
	if t.URL != "" {
		t.Template = cmp.Or(t.Template, TemplateJSON)
	}
	switch {
	case !targetName().MatchString(t.Name):
		return fmt.Errorf("the name is too long, or has characters other than a-z, 0-9, - and _")
	case slices.ContainsFunc(n.targets, func(o Target) bool { return o.Name == t.Name }):
		return fmt.Errorf("two targets have this name")
	case (t.URL == "") == (len(t.Command) == 0):
		return fmt.Errorf("it needs either a command or a url")
	case t.URL == "" && (t.Template != "" || len(t.Secret) > 0):
		return fmt.Errorf("a command cannot have a template or a secret")
	case t.URL != "" && !slices.Contains(templates, t.Template):
		return fmt.Errorf("unknown template %q: use one of %v", t.Template, templates)
	case t.Template == TemplateJSON && len(t.Secret) < 16:
		return fmt.Errorf("the secret of a signed webhook must have at least 16 bytes")
	case t.Batch < 0 || t.Batch > time.Hour || t.GiveUp < 0:
		return fmt.Errorf("batch must be between 0 and an hour, and give_up must not be negative")
	}
	for _, e := range t.Events {
		if !slices.Contains(words, e) {
			return fmt.Errorf("unknown event %q: use one of %v", e, words)
		}
	}
	return t.readQuiet()
}

// isTimeOfDay reports whether a day has the given hour and minute.
func isTimeOfDay(hour, minute int) bool {
	return hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59
}

// readQuiet reads the quiet hours.
func (t *Target) readQuiet() error {
	if t.Quiet == "" {
		return nil
	}
	var h1, m1, h2, m2 int
	n, err := fmt.Sscanf(t.Quiet, "%d:%d-%d:%d", &h1, &m1, &h2, &m2)
	hasForm := err == nil && n == 4 && t.Quiet == fmt.Sprintf("%02d:%02d-%02d:%02d", h1, m1, h2, m2)
	if !hasForm || !isTimeOfDay(h1, m1) || !isTimeOfDay(h2, m2) {
		return fmt.Errorf("quiet: %q is not of the form 22:00-07:00", t.Quiet)
	}
	t.from, t.until = time.Duration(h1*60+m1)*time.Minute, time.Duration(h2*60+m2)*time.Minute
	return nil
}

// quietUntil returns the end of the quiet hours that include a time; the time itself if
// none do.
func (t Target) quietUntil(at time.Time) time.Time {
	if t.from == t.until {
		return at
	}
	day := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, at.Location())
	end := func(day time.Time) time.Time {
		return time.Date(day.Year(), day.Month(), day.Day(), 0, int(t.until/time.Minute), 0, 0, at.Location())
	}
	since := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	switch {
	case t.from < t.until && since >= t.from && since < t.until, t.from > t.until && since < t.until:
		return end(day)
	case t.from > t.until && since >= t.from:
		return end(day.AddDate(0, 0, 1))
	}
	return at
}

// wants reports whether a target is told of an event.
func (t Target) wants(event string) bool {
	return len(t.Events) == 0 || slices.Contains(t.Events, event)
}

func (t Target) cursor() string { return "notify." + t.Name }

// Cursors returns the names of the cursors with which targets follow the journal.
func (n *Notifier) Cursors() []string {
	var out []string
	for _, t := range n.targets {
		out = append(out, t.cursor())
	}
	return out
}

// Run works until ctx ends, and returns when its goroutines have. A failure is logged
// and tried again.
func (n *Worker) Run(ctx context.Context) {
	if len(n.targets) == 0 {
		<-ctx.Done()
		return
	}
	var all sync.WaitGroup
	all.Go(func() {
		n.follow(ctx, "notify", watchGap, func(s hub.Store) (hub.Time, error) { return n.later(), n.Watch(ctx, s) })
	})
	for i := range n.targets {
		t := &n.targets[i]
		all.Go(func() {
			n.follow(ctx, t.cursor(), sendGap, func(s hub.Store) (hub.Time, error) { return n.Deliver(ctx, s, t.Name) })
		})
	}
	all.Wait()
}

// follow runs a consumer of the journal until ctx ends. work returns when it wants to be
// called without a hint.
func (n *Worker) follow(ctx context.Context, name string, gap time.Duration, work func(hub.Store) (hub.Time, error)) {
	hub.Follow(ctx, n.store, n.o.Bus, hub.Consumer{
		Name: name, Lease: leaseTime, Gap: gap,
		Step: func(_ context.Context, store hub.Store) (time.Duration, error) {
			next, err := work(store)
			return min(watchEvery, max(0, next.Sub(n.o.Clock()))), err
		},
		Failed: func(err error) {
			n.o.Log.Warn("people could not be notified, trying again", "op", name, "code", hub.CodeOf(err), "err", err)
		},
	})
}
