package contract

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// Relations is part of every request that shares a packet.
type Relations struct {
	As
	Related []coord.ContractID `json:"relatedContracts,omitempty"`
	ReplyTo coord.PacketID     `json:"replyTo,omitempty"`
}

// A NewPacket describes a new packet.
type NewPacket struct {
	InProject
	Relations
	Type    coord.ContextType `json:"type"`
	Content json.RawMessage   `json:"content"` // an object
}

// Share shares a packet with the other repositories of a project.
func (s *Service) Share(ctx context.Context, caller hub.Caller, n NewPacket) (coord.Packet, error) {
	const op = "contract.Share"
	if err := required(op, "type", string(n.Type), "content", string(n.Content)); err != nil {
		return coord.Packet{}, err
	}
	var out coord.Packet
	err := s.act(ctx, op, caller, n.Project, n.As, coord.PermitShare, func(se *session, p coord.Project, by coord.Repo) (err error) {
		out, err = se.share(op, p, by, n)
		return err
	})
	return out, err
}

// share stores a packet, records it and sends the notices.
func (se *session) share(op string, p coord.Project, by coord.Repo, n NewPacket) (coord.Packet, error) {
	content, err := federation.CompactContent(op, n.Content)
	if err != nil {
		return coord.Packet{}, err
	}

	packet := coord.Packet{
		Project: p.ID, ID: coord.PacketID(se.s.newID()), FromRepo: by.ID, FromAgent: se.s.aid(se.caller), At: coord.Instant{}.After(se.s.o.Clock),
		Type: n.Type, Content: content, Related: n.Related, ReplyTo: n.ReplyTo,
	}
	if n.ReplyTo != "" {
		parent, err := packetNamed(se.tx, op, p.ID, n.ReplyTo)
		if err != nil {
			return packet, err
		}
		packet.ReplyTo = parent.ID
		packet.At = later(packet.At, coord.InstantMicro(parent.At.Micro()+1)) // a reply is later than its parent
	}
	if err := federation.Check(packet); err != nil {
		return packet, err
	}

	// The packet counts against the limits of the project and against the rate of a peer.
	if err := se.s.roomForPacket(op, p, int64(len(content))); err != nil {
		return packet, err
	}
	if err := se.charge(op, Rate{Things: 1, Bytes: int64(len(content))}); err != nil {
		return packet, err
	}
	if err := se.tx.WriteCoordination().PutPacket(packet, coord.Packet{}); err != nil {
		return packet, err
	}
	return packet, se.recordPacket(p, packet, by.Name)
}

// packetNamed returns the packet of a project with an id, or the only one with that short id.
func packetNamed(r hub.Reader, op string, project coord.ProjectID, id coord.PacketID) (coord.Packet, error) {
	packet, err := r.Coordination().Packet(project, id)
	if hub.CodeOf(err) != hub.CodeNotFound {
		return packet, err
	}
	var found coord.PacketPage
	if id.IsShort() {
		if found, err = r.Coordination().Packets(coord.PacketQuery{Project: project, Short: string(id), Limit: 2}); err != nil {
			return packet, err
		}
	}
	switch len(found.Packets) {
	case 0:
		return packet, hub.Errorf(hub.CodeNotFound, op, "Packet %s not found", id).WithHint("{context.list} shows the packets of the project")
	case 1:
		return found.Packets[0], nil
	}
	return packet, hub.Errorf(hub.CodeConflict, op, "several packets end with %s", id).WithHint("give the whole id: {context.list} shows it")
}

// recordPacket records a packet and sends the notices.
func (se *session) recordPacket(p coord.Project, packet coord.Packet, by string) error {
	f := facts{Project: p.ID, Agent: packet.FromAgent, Source: se.source, Repo: packet.FromRepo, Action: string(packet.Type), Digest: packet.Digest()}
	change := hub.Change{Project: p.ID, Kind: hub.ChangePacket, Object: string(packet.ID)}
	if err := se.record(actions.ContextShared, change, f); err != nil {
		return err
	}
	n := notice{Event: "shared", Project: p.ID, Packet: packet.ID, Name: strings.ReplaceAll(string(packet.Type), "_", " "), By: by, Said: quotes(packet.Content), packet: &packet}
	if len(packet.Related) > 0 {
		n.Contract = packet.Related[0]
	}
	n.Reply = hub.ReplyPacket
	if packet.Type == coord.ContextQuestion {
		var q struct {
			Urgent bool   `json:"urgent"`
			Action string `json:"action"` // of a response to the contract
		}
		isRead := json.Unmarshal(packet.Content, &q) == nil
		n.Answer = true
		n.Urgent = isRead && q.Urgent
		if isRead && q.Action == ActionRequestChange && n.Contract != "" {
			n.Reply = hub.ReplyUpdate
		}
	}
	return se.tell(p, packet.FromRepo, n)
}

// roomForPacket refuses a packet more than a project may have.
func (s *Service) roomForPacket(op string, p coord.Project, bytes int64) error {
	if p.Tally.Packets >= s.o.Limits.Packets {
		return hub.Errorf(hub.CodeTooLarge, op, "the project is full (%d context packets)", p.Tally.Packets)
	}
	return s.roomForContent(op, p, bytes)
}

// A Question is the content of a question packet.
type Question struct {
	InProject
	Relations
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"` // nil if it is open
	Urgent   bool     `json:"urgent,omitempty"`
}

// Ask shares a question.
func (s *Service) Ask(ctx context.Context, caller hub.Caller, q Question) (coord.Packet, error) {
	if err := required("contract.Ask", "question", q.Question); err != nil {
		return coord.Packet{}, err
	}
	return s.ShareValue(ctx, caller, q.InProject, q.Relations, coord.ContextQuestion, struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
		Urgent   bool     `json:"urgent"`
	}{q.Question, q.Options, q.Urgent})
}

// A Decision is the content of a decision packet.
type Decision struct {
	InProject
	Relations
	Decision     string   `json:"decision"`
	Chosen       string   `json:"chosen"`
	Rationale    string   `json:"rationale"`
	Implications []string `json:"implications,omitempty"`
}

// Decide shares a decision.
func (s *Service) Decide(ctx context.Context, caller hub.Caller, d Decision) (coord.Packet, error) {
	if err := required("contract.Decide", "decision", d.Decision, "chosen", d.Chosen, "rationale", d.Rationale); err != nil {
		return coord.Packet{}, err
	}
	if d.Implications == nil {
		d.Implications = []string{}
	}
	return s.ShareValue(ctx, caller, d.InProject, d.Relations, coord.ContextDecision, struct {
		Decision     string   `json:"decision"`
		Chosen       string   `json:"chosen"`
		Rationale    string   `json:"rationale"`
		Implications []string `json:"implications"`
	}{d.Decision, d.Chosen, d.Rationale, d.Implications})
}

// ShareValue shares a packet whose content is v.
func (s *Service) ShareValue(ctx context.Context, caller hub.Caller, in InProject, r Relations, t coord.ContextType, v any) (coord.Packet, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return coord.Packet{}, err
	}
	return s.Share(ctx, caller, NewPacket{in, r, t, content})
}

// maxPackets is the largest page of packets, defaultPackets the default one.
const (
	maxPackets     = 500
	defaultPackets = 50
)

// Packets returns packets by time.
func (s *Service) Packets(ctx context.Context, _ hub.Caller, q coord.PacketQuery) (coord.PacketPage, error) {
	const op = "contract.Packets"
	if q.Limit == 0 {
		q.Limit = defaultPackets
	}
	if _, err := page(op, q.Limit, maxPackets); err != nil {
		return coord.PacketPage{}, err
	}
	if q.Type != "" && !q.Type.Known() {
		return coord.PacketPage{}, hub.Errorf(hub.CodeInvalid, op, "unknown context type %q", q.Type)
	}
	return readIn(ctx, s, op, q.Project, func(r hub.Reader, _ coord.Project) (coord.PacketPage, error) { return r.Coordination().Packets(q) })
}

// maxThread is the number of packets of a thread that are read.
const maxThread = 500

// Thread returns a packet, or the one that it answers, with the answers to it,
// oldest first. deep begins where the thread began and walks on to the answers
// to answers.
func (s *Service) Thread(ctx context.Context, _ hub.Caller, id coord.ProjectID, packet coord.PacketID, deep bool) ([]coord.Packet, error) {
	const op = "contract.Thread"
	return readIn(ctx, s, op, id, func(r hub.Reader, _ coord.Project) ([]coord.Packet, error) {
		root, err := packetNamed(r, op, id, packet)
		if err != nil {
			return nil, err
		}

		// Only a deep walk goes beyond the direct parent and the direct answers.
		steps := 1
		if deep {
			steps = maxThread
		}

		// A parent that was not synchronized yet ends the walk: the thread begins with the
		// packet that answers it.
		for up := 0; err == nil && root.ReplyTo != "" && up < steps; up++ {
			var parent coord.Packet
			if parent, err = r.Coordination().Packet(id, root.ReplyTo); hub.CodeOf(err) == hub.CodeNotFound {
				err = nil // not synchronized yet
				break
			}
			root = parent
		}
		if err != nil {
			return nil, err
		}

		out := []coord.Packet{root}
		seen := map[coord.PacketID]bool{root.ID: true}
		for i := 0; i < len(out) && i < steps && len(out) < maxThread; i++ {
			answers, err := r.Coordination().Packets(coord.PacketQuery{Project: id, ReplyTo: out[i].ID, Limit: maxThread - len(out)})
			if err != nil {
				return nil, err
			}
			for _, a := range answers.Packets {
				if !seen[a.ID] {
					seen[a.ID] = true
					out = append(out, a)
				}
			}
		}

		slices.SortStableFunc(out, func(a, b coord.Packet) int { return a.At.Compare(b.At) })
		return out, nil
	})
}
