package coord

import (
	"strconv"

	"github.com/parley-agents/parley/internal/ground/digest"
)

// Digest returns the SHA-256, in hexadecimal, of c as it is now, without the
// contents that it had before or that lost.
func (c Contract) Digest() string {
	d := digest.New("contract")
	d.Put(string(c.Project), string(c.ID), string(c.Type), c.Name, strconv.Itoa(c.Version), string(c.Status), string(c.Content), string(c.ProposedBy))
	d.Put(c.CreatedAt.String(), c.UpdatedAt.String(), c.ReopenedAt.String(), strconv.Itoa(len(c.Implementations)), strconv.Itoa(len(c.Agreements)))
	for _, i := range c.Implementations {
		d.JSON(i)
	}
	for _, a := range c.Agreements {
		d.JSON(a)
	}
	if !c.Terms.IsZero() {
		d.JSON(c.Terms)
	}
	return d.Hex()
}

// Digest returns the SHA-256, in hexadecimal, of everything in p.
func (p Packet) Digest() string {
	d := digest.New("packet")
	d.Put(string(p.Project), string(p.ID), string(p.FromRepo), string(p.FromAgent), p.At.String(), string(p.Type), string(p.Content), string(p.ReplyTo))
	for _, id := range p.Related {
		d.Put(string(id))
	}
	return d.Hex()
}
