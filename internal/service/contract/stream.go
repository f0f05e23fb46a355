package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// WriteProject writes a whole project as the protocol has it, and then the members
// of extra, an object or nil. It reads page by page, so that a large project takes
// no more memory than a small one; a change meanwhile may be in it or not. Nothing
// is written when there is no such project.
func (s *Service) WriteProject(ctx context.Context, caller hub.Caller, id coord.ProjectID, w io.Writer, extra json.RawMessage) error {
	p, err := s.Project(ctx, caller, id)
	if err != nil {
		return err
	}
	head, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 32<<10)
	out.Write(bytes.TrimSuffix(head, []byte("}")))
	out.WriteString(`,"contracts":[`)
	if err := writeItems(ctx, s.store, out, s.contractPages(id)); err != nil {
		return err
	}
	out.WriteString(`],"context_history":[`)
	if err := writeItems(ctx, s.store, out, s.packetPages(id)); err != nil {
		return err
	}
	out.WriteByte(']')
	if extra := bytes.TrimPrefix(bytes.TrimSpace(extra), []byte("{")); len(extra) > 1 {
		out.WriteByte(',')
		out.Write(extra)
	} else {
		out.WriteByte('}')
	}
	return out.Flush()
}

// streamPage is the number of things that WriteProject holds in memory.
const streamPage = 64

// writeItems writes the things of all pages, separated by commas. next returns a
// page and whether there is another one; each page is read in a snapshot of its own.
func writeItems[T json.Marshaler](ctx context.Context, store hub.Store, out *bufio.Writer, next func(hub.Reader) ([]T, bool, error)) error {
	for more, first := true, true; more; {
		var page []T
		err := store.View(ctx, func(r hub.Reader) (err error) {
			page, more, err = next(r)
			return err
		})
		if err != nil {
			return err
		}
		for _, v := range page {
			b, err := v.MarshalJSON()
			if err != nil {
				return err
			}
			if !first {
				out.WriteByte(',')
			}
			first = false
			if _, err := out.Write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// contractPages returns the pages of a project's contracts as they are shown, with
// their versions.
func (s *Service) contractPages(id coord.ProjectID) func(hub.Reader) ([]coord.Contract, bool, error) {
	q := coord.ContractQuery{Project: id, Limit: s.pageOf(streamPage)}
	return func(r hub.Reader) ([]coord.Contract, bool, error) {
		found, err := r.Coordination().Contracts(q)
		for i, c := range found {
			if err == nil {
				found[i], err = withVersions(r, c)
			}
			found[i].Stamps = coord.Stamps{} // hubs exchange them with copies
			q.After = c.ID
		}
		return found, len(found) == q.Limit, err
	}
}

// packetPages returns the pages of a project's packets.
func (s *Service) packetPages(id coord.ProjectID) func(hub.Reader) ([]coord.Packet, bool, error) {
	q := coord.PacketQuery{Project: id, Limit: s.pageOf(streamPage)}
	return func(r hub.Reader) ([]coord.Packet, bool, error) {
		found, err := r.Coordination().Packets(q)
		q.Cursor = found.Next
		return found.Packets, found.Next != "", err
	}
}
