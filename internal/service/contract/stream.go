package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/federation"
)

// WriteOptions changes how a project is written. The zero value works.
type WriteOptions struct {
	Naive bool            // times for peers that read no time zones
	Extra json.RawMessage // an object whose members come after those of the protocol
}

// WriteProject writes a whole project as the protocol has it. It reads page by
// page, so that a large project takes no more memory than a small one; a change
// meanwhile may be in it or not. Nothing is written when there is no such project.
func (s *Service) WriteProject(ctx context.Context, caller hub.Caller, id hub.ProjectID, w io.Writer, opts WriteOptions) error {
	p, err := s.Project(ctx, caller, id)
	if err != nil {
		return err
	}
	if opts.Naive {
		p = federation.Naive(p)
	}
	head, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 32<<10)
	out.Write(bytes.TrimSuffix(head, []byte("}")))
	out.WriteString(`,"contracts":[`)
	first := true
	item := func(v json.Marshaler) error {
		b, err := v.MarshalJSON()
		if err != nil {
			return err
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		_, err = out.Write(b)
		return err
	}
	if err := s.writeContracts(ctx, id, opts.Naive, item); err != nil {
		return err
	}
	out.WriteString(`],"context_history":[`)
	first = true
	if err := s.writePackets(ctx, id, opts.Naive, item); err != nil {
		return err
	}
	out.WriteByte(']')
	if extra := bytes.TrimPrefix(bytes.TrimSpace(opts.Extra), []byte("{")); len(extra) > 1 {
		out.WriteByte(',')
		out.Write(extra)
	} else {
		out.WriteByte('}')
	}
	return out.Flush()
}

// streamPage is the number of things that WriteProject holds in memory.
const streamPage = 64

func (s *Service) writeContracts(ctx context.Context, id hub.ProjectID, naive bool, item func(json.Marshaler) error) error {
	q := hub.ContractQuery{Project: id, Limit: streamPage}
	for {
		var found []hub.Contract
		err := s.store.View(ctx, func(r hub.Reader) (err error) {
			if found, err = r.Contracts(q); err != nil {
				return err
			}
			for i, c := range found {
				if found[i], err = withVersions(r, c); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, c := range found {
			if naive {
				c = federation.Naive(c)
			}
			if err := item(c); err != nil {
				return err
			}
		}
		if len(found) < streamPage {
			return nil
		}
		q.After = found[len(found)-1].ID
	}
}

func (s *Service) writePackets(ctx context.Context, id hub.ProjectID, naive bool, item func(json.Marshaler) error) error {
	q := hub.PacketQuery{Project: id, Limit: streamPage}
	for {
		var found hub.PacketPage
		err := s.store.View(ctx, func(r hub.Reader) (err error) {
			found, err = r.Packets(q)
			return err
		})
		if err != nil {
			return err
		}
		for _, p := range found.Packets {
			if naive {
				p = federation.Naive(p)
			}
			if err := item(p); err != nil {
				return err
			}
		}
		if found.Next == "" {
			return nil
		}
		q.Cursor = found.Next
	}
}
