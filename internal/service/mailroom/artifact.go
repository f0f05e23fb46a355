package mailroom

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Artifacts keeps content that is too large for a message, by its SHA-256.
type Artifacts interface {
	// Put stores the content of r. Content that is there already is not stored
	// twice.
	Put(r io.Reader) (path, sha256 string, size int64, err error)
	// Open returns stored content. It reports CodeNotFound when there is none.
	Open(sha256 string) (*os.File, error)
}

// MaxText is the most bytes of a text that becomes an artifact by itself.
const MaxText = 256 << 10

// textArtifact is the description of an artifact that holds the whole text of a
// message.
const textArtifact = "the whole text"

// isText reports whether an artifact holds the whole text of its message.
func isText(a hub.ArtifactRef) bool {
	return a.Description == textArtifact && a.SHA256 != "" && a.SizeBytes != nil
}

// StoreArtifact stores content that the actor may read from now on, and returns a
// reference to it.
func (m *Mailroom) StoreArtifact(ctx context.Context, actor hub.Caller, content io.Reader) (hub.ArtifactRef, error) {
	if m.artifacts == nil {
		return hub.ArtifactRef{}, hub.Errorf(hub.CodeNotEnabled, "mailroom.StoreArtifact", "this hub does not store artifacts")
	}
	path, sum, size, err := m.artifacts.Put(content)
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	ref := hub.ArtifactRef{Type: "file", Path: path, SHA256: sum, SizeBytes: &size}
	err = m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return addArtifact(tx, m.clock.Now(), actor, ref) })
	if err != nil {
		return hub.ArtifactRef{}, fmt.Errorf("mailroom: store an artifact: %w", err)
	}
	m.bus.Publish(hub.TopicJournal)
	return ref, nil
}

// OpenArtifact returns stored content that the actor may read: as an auditor, because
// it stored the content, or because it got a message or handoff that names it from an
// agent that may read it. To others it reports the same error as for content that does
// not exist.
func (m *Mailroom) OpenArtifact(ctx context.Context, actor hub.Caller, sum string) (*os.File, error) {
	const op = "mailroom.OpenArtifact"
	if m.artifacts == nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub does not store artifacts")
	}
	may := false
	err := m.store.View(ctx, func(r hub.Reader) (err error) {
		may, err = mayRead(r, actor, sum)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("mailroom: open an artifact: %w", err)
	}
	f, err := m.artifacts.Open(sum)
	if err == nil && !may {
		f.Close()
	}
	if hub.CodeOf(err) == hub.CodeNotFound || (err == nil && !may) {
		return nil, hub.Errorf(hub.CodeNotFound, op, "artifact %s does not exist or is not shared with you", sum).
			WithHint("ask its owner to share it in a message or handoff to you")
	}
	return f, err
}

// mayRead reports whether the actor may read an artifact.
func mayRead(r hub.Reader, actor hub.Caller, sum string) (bool, error) {
	if actor.Audits() {
		return true, nil
	}
	return r.ReadsArtifact(sum, actor.ID)
}

// Share lets agents read the artifacts that refs name, as far as the actor itself may
// read them: to know a hash is not enough to pass it on.
func (m *Mailroom) Share(tx hub.Tx, actor hub.Caller, refs []hub.ArtifactRef, with []hub.AgentID) error {
	for _, ref := range refs {
		if ref.SHA256 == "" {
			continue
		}
		if may, err := mayRead(tx, actor, ref.SHA256); err != nil || !may {
			if err != nil {
				return err
			}
			continue
		}
		for _, id := range with {
			if err := tx.AddArtifactReader(ref.SHA256, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// shareMessage shares the artifacts of a message with its recipients.
func (m *Mailroom) shareMessage(tx hub.Tx, actor hub.Caller, msg hub.Message, to []hub.AgentID) error {
	if msg.Context == nil {
		return nil
	}
	return m.Share(tx, actor, msg.Context.Artifacts, to)
}

// longText returns a text that does not fit into a payload, and leaves its beginning
// in its place. It returns "" for a shorter text.
func (m *Mailroom) longText(op string, text *string) (string, error) {
	long := *text
	if len(long) <= hub.MaxPayload || m.artifacts == nil {
		return "", nil
	}
	if len(long) > MaxText {
		return "", hub.Errorf(hub.CodePayloadTooLarge, op, "text is too long: %d bytes, limit %d", len(long), MaxText).
			WithHint("store it as a file and send the reference: {artifact.put}")
	}
	if !utf8.ValidString(long) {
		return "", nil // refused with the other texts that are no UTF-8
	}
	*text = beginning(long)
	return long, nil
}

// KeepText stores a text as the whole text of a message, and returns the reference for
// the context of that message.
func (m *Mailroom) KeepText(text string) (hub.ArtifactRef, error) {
	if m.artifacts == nil {
		return hub.ArtifactRef{}, hub.Errorf(hub.CodeNotEnabled, "mailroom.KeepText", "this hub does not store artifacts")
	}
	path, sum, size, err := m.artifacts.Put(strings.NewReader(text))
	return hub.ArtifactRef{Type: "file", Path: path, SHA256: sum, SizeBytes: &size, Description: textArtifact}, err
}

// Kept returns a reference to a text that KeepText stored. It reports CodeNotFound when there is none.
func (m *Mailroom) Kept(sum string) (hub.ArtifactRef, error) {
	if m.artifacts == nil {
		return hub.ArtifactRef{}, hub.Errorf(hub.CodeNotEnabled, "mailroom.Kept", "this hub does not store artifacts")
	}
	f, err := m.artifacts.Open(sum)
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	size := info.Size()
	return hub.ArtifactRef{Type: "file", Path: f.Name(), SHA256: sum, SizeBytes: &size, Description: textArtifact}, nil
}

// spill stores a long text as an artifact and adds a reference to the envelope.
func (m *Mailroom) spill(long string, e *hub.Envelope) (hub.ArtifactRef, error) {
	ref, err := m.KeepText(long)
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	c := hub.Context{}
	if e.Context != nil {
		c = *e.Context
	}
	c.Artifacts = append(slices.Clone(c.Artifacts), ref)
	e.Context = &c
	return ref, e.Validate()
}

// addArtifact lets the actor read content that it stored, and records it.
func addArtifact(tx hub.Tx, at hub.Time, actor hub.Caller, ref hub.ArtifactRef) error {
	if err := tx.AddArtifactReader(ref.SHA256, actor.ID); err != nil {
		return err
	}
	return record(tx, at, actor, actions.ArtifactPut, ref.SHA256, map[string]int64{"size_bytes": *ref.SizeBytes})
}

// beginning returns the first characters of a text, as a summary has room for.
func beginning(text string) string {
	n := 0
	for i := range text {
		if n++; n == maxSummary {
			return text[:i] + "…"
		}
	}
	return text
}

// partSize is the most bytes of one part of a text.
const partSize = 8 << 10

// parts returns the number of parts of a text with so many bytes.
func parts(size int64) int { return int(max(1, (size+partSize-1)/partSize)) }

// A Part is one part of the whole text of a message.
type Part struct {
	N    int    `json:"n"`  // from 1
	Of   int    `json:"of"` // the number of parts
	Text string `json:"text"`
}

// Read returns one message that the actor may see and, if n is positive, the n-th part
// of its whole text. It marks a message in the actor's inbox as delivered.
func (m *Mailroom) Read(ctx context.Context, actor hub.Caller, id hub.EnvelopeID, n int) (Inbox, error) {
	const op = "mailroom.Read"
	if n < 0 {
		return Inbox{}, hub.Errorf(hub.CodeInvalid, op, "part must be 1 or more, got %d", n)
	}

	out := Inbox{Messages: []hub.Envelope{}, Capabilities: m.Capabilities(), Warnings: m.warn(nil)}
	err := m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		msg, err := m.visible(tx, op, actor, id)
		if err != nil {
			return err
		}

		// Reading a message that the actor has not fetched yet delivers it.
		p, err := party(tx, id, actor.ID)
		if err == nil && p.State == hub.PartyUnread {
			if _, err = m.advance(tx, actor, id, hub.PartyDelivered, m.clock.Now()); err == nil {
				msg, err = tx.Message(id)
			}
		}
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound { // an auditor is no party
			return err
		}

		out.Messages = []hub.Envelope{msg.Envelope}
		if out.ShortIDs, err = shortIDs(tx, out.Messages); err != nil {
			return err
		}
		out.Unread, err = tx.CountMessages(hub.CountFilter{Inbox: actor.ID, Limit: maxUnread})
		return err
	})
	if err != nil {
		return Inbox{}, fmt.Errorf("mailroom: read: %w", err)
	}

	if n > 0 {
		if out.Part, err = m.part(ctx, op, actor, out.Messages[0], n); err != nil {
			return Inbox{}, fmt.Errorf("mailroom: read: %w", err)
		}
	}

	m.seen(ctx, actor, out.Messages)
	m.roster(ctx, actor, &out)
	return out, nil
}

// part returns the n-th part of the whole text of a message, which is its artifact
// with the whole text or else its first stored artifact. A part begins and ends
// between characters.
func (m *Mailroom) part(ctx context.Context, op string, actor hub.Caller, e hub.Envelope, n int) (*Part, error) {
	var refs []hub.ArtifactRef
	if e.Context != nil {
		refs = slices.DeleteFunc(slices.Clone(e.Context.Artifacts), func(a hub.ArtifactRef) bool { return a.SHA256 == "" })
	}
	if len(refs) == 0 {
		return nil, hub.Errorf(hub.CodeNotFound, op, "the message has no parts: its whole text is shown")
	}
	ref := refs[max(0, slices.IndexFunc(refs, isText))]

	f, err := m.OpenArtifact(ctx, actor, ref.SHA256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}

	out := &Part{N: n, Of: parts(info.Size())}
	if n > out.Of {
		return nil, hub.Errorf(hub.CodeNotFound, op, "no part %d: the text has %d", n, out.Of)
	}

	// The part takes the characters that begin in its bytes.
	from := int64(n-1) * partSize
	raw := make([]byte, partSize+utf8.UTFMax)
	got, err := f.ReadAt(raw, from)
	if err != nil && err != io.EOF {
		return nil, err
	}
	raw = raw[:got]
	end := min(partSize, len(raw))
	for end < len(raw) && !utf8.RuneStart(raw[end]) {
		end++
	}

	start := 0
	for n > 1 && start < end && !utf8.RuneStart(raw[start]) {
		start++
	}
	if out.Text = string(raw[start:end]); !utf8.ValidString(out.Text) {
		return nil, hub.Errorf(hub.CodeInvalid, op, "the artifact is not text").WithHint("fetch it as a file: {artifact.get} %s", ref.SHA256)
	}
	return out, nil
}
