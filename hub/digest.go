package hub

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// A digest gathers the members of a noun, each preceded by its length, so that
// no two different nouns give the same bytes, and hashes them in one piece.
type digest []byte

// newDigest begins the digest of one kind of noun.
func newDigest(kind string) *digest {
	d := make(digest, 0, 1024)
	d.put(kind)
	return &d
}

func (d *digest) put(members ...string) {
	for _, s := range members {
		*d = append(binary.BigEndian.AppendUint64(*d, uint64(len(s))), s...)
	}
}

// at puts a time, or nothing for the zero time.
func (d *digest) at(times ...Time) {
	for _, t := range times {
		if t.IsZero() {
			d.put("")
		} else {
			d.put(t.String())
		}
	}
}

// json puts v as encoding/json writes it. The nouns hold nothing that it
// could refuse.
func (d *digest) json(v any) {
	b, _ := json.Marshal(v)
	d.put(string(b))
}

func (d *digest) hex() string {
	sum := sha256.Sum256(*d)
	return hex.EncodeToString(sum[:])
}

// Digest returns the SHA-256, in hexadecimal, of everything in e that never
// changes: all but Status and UpdatedAt.
func (e Envelope) Digest() string {
	d := newDigest("envelope")
	d.put(string(e.ID), e.Protocol, e.Version, string(e.From), strconv.Itoa(len(e.To)))
	for _, to := range e.To {
		d.put(string(to))
	}
	d.put(e.Team, e.ThreadID, string(e.ReplyTo), string(e.Type), e.Topic, string(e.Priority))
	sequence := ""
	if e.Sequence != nil {
		sequence = strconv.FormatInt(*e.Sequence, 10)
	}
	d.put(sequence, string(e.Payload))
	d.put(string(e.Policy.Visibility), string(e.Policy.Sensitivity), string(e.Policy.HumanGate))
	d.json(e.Context)
	d.at(e.ExpiresAt, e.CreatedAt)
	d.put(string(e.Extra))
	return d.hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in h that never
// changes. Of the package it covers the hash.
func (h Handoff) Digest() string {
	d := newDigest("handoff")
	d.put(string(h.ID), h.ThreadID, h.TaskID, string(h.From), string(h.To), h.Title, h.Reason, h.Hash, string(h.Previous))
	d.put(strconv.FormatBool(h.Restricted), strconv.FormatBool(h.NeedsHuman))
	d.at(h.Deadline, h.InitiatedAt)
	if h.Team != "" { // handoffs of earlier versions have none
		d.put(string(h.Team))
	}
	return d.hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in s but N, which
// is known only to the store.
func (s HandoffStep) Digest() string {
	d := newDigest("step")
	d.put(string(s.State))
	d.at(s.At)
	d.put(string(s.Actor), s.Note, strconv.Itoa(len(s.Checks)))
	for _, c := range s.Checks {
		d.json(c)
	}
	return d.hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in k that never
// changes: all but RevokedAt. It tells nothing about the secret.
func (k Key) Digest() string {
	d := newDigest("key")
	d.put(string(k.ID), string(k.Agent), k.Label, k.Hash, k.Hint)
	d.at(k.CreatedAt, k.ExpiresAt)
	return d.hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in r as it is now.
func (r Run) Digest() string {
	d := newDigest("run")
	d.put(string(r.ID), string(r.Agent), string(r.By), r.Task, r.Dir, r.ThreadID, string(r.Handoff), string(r.Key))
	d.put(string(r.State), r.Session, r.StopReason, r.Reason, string(r.Report), string(r.Verdict), string(r.Evidence), string(r.Message))
	d.put(strconv.Itoa(len(r.Contradictions)))
	for _, c := range r.Contradictions {
		d.put(c.Kind, c.Claim, c.Found)
	}
	d.at(r.StartedAt, r.ExpiresAt, r.EndedAt)
	if r.VerdictBy != "" { // earlier versions recorded no author
		d.put(string(r.VerdictBy), string(r.ClaimedVerdict))
	}
	return d.hex()
}

// Digest returns the SHA-256, in hexadecimal, of c as it is now, without the
// contents that it had before or that lost.
func (c Contract) Digest() string {
	d := newDigest("contract")
	d.put(string(c.Project), string(c.ID), string(c.Type), c.Name, strconv.Itoa(c.Version), string(c.Status), string(c.Content), string(c.ProposedBy))
	d.put(c.CreatedAt.String(), c.UpdatedAt.String(), c.ReopenedAt.String(), strconv.Itoa(len(c.Implementations)), strconv.Itoa(len(c.Agreements)))
	for _, i := range c.Implementations {
		d.json(i)
	}
	for _, a := range c.Agreements {
		d.json(a)
	}
	return d.hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in p.
func (p Packet) Digest() string {
	d := newDigest("packet")
	d.put(string(p.Project), string(p.ID), string(p.FromRepo), string(p.FromAgent), p.At.String(), string(p.Type), string(p.Content), string(p.ReplyTo))
	for _, id := range p.Related {
		d.put(string(id))
	}
	return d.hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in t but its revision.
func (t Task) Digest() string { return wholeDigest("task", t) }

// Digest returns the SHA-256, in hexadecimal, of everything in d.
func (d Decision) Digest() string { return wholeDigest("decision", d) }

// Digest returns the SHA-256, in hexadecimal, of everything in p.
func (p TeamPolicy) Digest() string { return wholeDigest("policy", p) }

func wholeDigest(kind string, v any) string {
	d := newDigest(kind)
	d.json(v)
	return d.hex()
}
