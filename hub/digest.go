package hub

import (
	"strconv"

	"github.com/parley-agents/parley/internal/ground/digest"
)

// putTimes adds times to a digest, and nothing for a zero time.
func putTimes(d *digest.Digest, times ...Time) {
	for _, t := range times {
		if t.IsZero() {
			d.Put("")
		} else {
			d.Put(t.String())
		}
	}
}

// Digest returns the SHA-256, in hexadecimal, of everything in e that never
// changes: all but Status and UpdatedAt.
func (e Envelope) Digest() string {
	d := digest.New("envelope")
	d.Put(string(e.ID), e.Protocol, e.Version, string(e.From), strconv.Itoa(len(e.To)))
	for _, to := range e.To {
		d.Put(string(to))
	}
	d.Put(e.Team, e.ThreadID, string(e.ReplyTo), string(e.Type), e.Topic, string(e.Priority))
	sequence := ""
	if e.Sequence != nil {
		sequence = strconv.FormatInt(*e.Sequence, 10)
	}
	d.Put(sequence, string(e.Payload))
	d.Put(string(e.Policy.Visibility), string(e.Policy.Sensitivity), string(e.Policy.HumanGate))
	d.JSON(e.Context)
	putTimes(d, e.ExpiresAt, e.CreatedAt)
	d.Put(string(e.Extra))
	return d.Hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in h that never
// changes. Of the package it covers the hash.
func (h Handoff) Digest() string {
	d := digest.New("handoff")
	d.Put(string(h.ID), h.ThreadID, h.TaskID, string(h.From), string(h.To), h.Title, h.Reason, h.Hash, string(h.Previous))
	d.Put(strconv.FormatBool(h.Restricted), strconv.FormatBool(h.NeedsHuman))
	putTimes(d, h.Deadline, h.InitiatedAt)
	if h.Team != "" { // handoffs of earlier versions have none
		d.Put(string(h.Team))
	}
	return d.Hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in s but N, which
// is known only to the store.
func (s HandoffStep) Digest() string {
	d := digest.New("step")
	d.Put(string(s.State))
	putTimes(d, s.At)
	d.Put(string(s.Actor), s.Note, strconv.Itoa(len(s.Checks)))
	for _, c := range s.Checks {
		d.JSON(c)
	}
	return d.Hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in k that never
// changes: all but RevokedAt. It tells nothing about the secret.
func (k Key) Digest() string {
	d := digest.New("key")
	d.Put(string(k.ID), string(k.Agent), k.Label, k.Hash, k.Hint)
	putTimes(d, k.CreatedAt, k.ExpiresAt)
	return d.Hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in r as it is now.
func (r Run) Digest() string {
	d := digest.New("run")
	d.Put(string(r.ID), string(r.Agent), string(r.By), r.Task, r.Dir, r.ThreadID, string(r.Handoff), string(r.Key))
	d.Put(string(r.State), r.Session, r.StopReason, r.Reason, string(r.Report), string(r.Verdict), string(r.Evidence), string(r.Message))
	d.Put(strconv.Itoa(len(r.Contradictions)))
	for _, c := range r.Contradictions {
		d.Put(c.Kind, c.Claim, c.Found)
	}
	putTimes(d, r.StartedAt, r.ExpiresAt, r.EndedAt)
	if r.VerdictBy != "" { // earlier versions recorded no author
		d.Put(string(r.VerdictBy), string(r.ClaimedVerdict))
	}
	return d.Hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in t but its revision.
func (t Task) Digest() string { return wholeDigest("task", t) }

// Digest returns the SHA-256, in hexadecimal, of everything in d.
func (d Decision) Digest() string { return wholeDigest("decision", d) }

// Digest returns the SHA-256, in hexadecimal, of everything in p.
func (p TeamPolicy) Digest() string { return wholeDigest("policy", p) }

func wholeDigest(kind string, v any) string {
	d := digest.New(kind)
	d.JSON(v)
	return d.Hex()
}
