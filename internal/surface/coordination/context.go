package coordination

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/contract"
)

// Relations is part of the parameters of everything that is shared.
type Relations struct {
	Related []hub.ContractID `json:"relatedContracts,omitempty"`
	ReplyTo hub.PacketID     `json:"replyTo,omitempty"`
}

// ShareParams are the parameters of cacp/context/share.
type ShareParams struct {
	InProject
	Relations
	Type    hub.ContextType `json:"type"`
	Content json.RawMessage `json:"content"`
}

// Shared is the answer to everything that shares.
type Shared struct {
	Packet hub.PacketID `json:"packetId"`
	Status string       `json:"status"`
}

func shared(p hub.Packet, err error) (Shared, error) { return Shared{p.ID, "shared"}, err }

func share(ctx context.Context, s *Services, c hub.Caller, p ShareParams) (Shared, error) {
	if err := required("cacp/context/share", "type", string(p.Type), "content", string(p.Content)); err != nil {
		return Shared{}, err
	}
	return shared(s.Contracts.Share(ctx, c, contract.NewPacket{
		Project: p.Project, Type: p.Type, Content: p.Content, Related: p.Related, ReplyTo: p.ReplyTo,
	}))
}

// CodeParams are the parameters of cacp/context/shareCode.
type CodeParams struct {
	InProject
	Relations
	Language    string `json:"language"`
	File        string `json:"file"`
	Snippet     string `json:"snippet"`
	Explanation string `json:"explanation,omitempty"`
}

func shareCode(ctx context.Context, s *Services, c hub.Caller, p CodeParams) (Shared, error) {
	if err := required("cacp/context/shareCode", "language", p.Language, "file", p.File, "snippet", p.Snippet); err != nil {
		return Shared{}, err
	}
	return s.shareValue(ctx, c, p.InProject, p.Relations, hub.ContextCode, map[string]string{
		"language": p.Language, "file": p.File, "snippet": p.Snippet, "explanation": p.Explanation,
	})
}

// TypesParams are the parameters of cacp/context/shareTypes.
type TypesParams struct {
	InProject
	Relations
	Language    string `json:"language"`
	Definitions string `json:"definitions"`
	File        string `json:"file,omitempty"`
	Explanation string `json:"explanation,omitempty"`
}

func shareTypes(ctx context.Context, s *Services, c hub.Caller, p TypesParams) (Shared, error) {
	if err := required("cacp/context/shareTypes", "language", p.Language, "definitions", p.Definitions); err != nil {
		return Shared{}, err
	}
	return s.shareValue(ctx, c, p.InProject, p.Relations, hub.ContextTypes, map[string]string{
		"language": p.Language, "definitions": p.Definitions, "file": p.File, "explanation": p.Explanation,
	})
}

// shareValue shares content that the hub encodes.
func (s *Services) shareValue(ctx context.Context, c hub.Caller, p InProject, r Relations, t hub.ContextType, content map[string]string) (Shared, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return Shared{}, err
	}
	return shared(s.Contracts.Share(ctx, c, contract.NewPacket{Project: p.Project, Type: t, Content: raw, Related: r.Related, ReplyTo: r.ReplyTo}))
}

// Question are the parameters of cacp/context/askQuestion.
type Question struct {
	InProject
	Relations
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
	Urgent   bool     `json:"urgent,omitempty"`
}

func ask(ctx context.Context, s *Services, c hub.Caller, p Question) (Shared, error) {
	return shared(s.Contracts.Ask(ctx, c, contract.Question{
		Project: p.Project, Question: p.Question, Options: p.Options, Urgent: p.Urgent, Related: p.Related, ReplyTo: p.ReplyTo,
	}))
}

// Decision are the parameters of cacp/context/recordDecision.
type Decision struct {
	InProject
	Relations
	Decision     string   `json:"decision"`
	Chosen       string   `json:"chosen"`
	Rationale    string   `json:"rationale"`
	Implications []string `json:"implications,omitempty"`
}

func decide(ctx context.Context, s *Services, c hub.Caller, p Decision) (Shared, error) {
	return shared(s.Contracts.Decide(ctx, c, contract.Decision{
		Project: p.Project, Decision: p.Decision, Chosen: p.Chosen, Rationale: p.Rationale, Implications: p.Implications,
		Related: p.Related, ReplyTo: p.ReplyTo,
	}))
}

// ContextParams are the parameters of cacp/context/list.
type ContextParams struct {
	InProject
	Type     hub.ContextType `json:"type,omitempty"`
	Contract hub.ContractID  `json:"contractId,omitempty"`
	Since    hub.Instant     `json:"since,omitzero"` // with a zone or without
	Limit    int             `json:"limit,omitempty"`
	Cursor   string          `json:"cursor,omitempty"` // next of the page before, for older packets
}

// Context is the answer to cacp/context/list.
type Context struct {
	Packets []hub.Packet `json:"packets"`        // oldest first
	Next    string       `json:"next,omitempty"` // the cursor of the page with older packets
}

// contextPage is how many packets a list has unless asked for otherwise.
const contextPage = 50

func listContext(ctx context.Context, s *Services, c hub.Caller, p ContextParams) (Context, error) {
	if p.Limit == 0 {
		p.Limit = contextPage
	}
	page, err := s.Contracts.Packets(ctx, c, hub.PacketQuery{
		Project: p.Project, Type: p.Type, Contract: p.Contract, Since: p.Since, Newest: true, Cursor: p.Cursor, Limit: p.Limit,
	})
	out := Context{Packets: make([]hub.Packet, len(page.Packets)), Next: page.Next}
	for i, packet := range page.Packets {
		out.Packets[len(page.Packets)-1-i] = packet
	}
	return out, err
}

// ThreadParams are the parameters of cacp/context/getThread.
type ThreadParams struct {
	InProject
	Packet hub.PacketID `json:"packetId"`
	Deep   bool         `json:"deep,omitempty"` // answers to answers too
}

// Thread is the answer to cacp/context/getThread.
type Thread struct {
	Thread []hub.Packet `json:"thread"` // oldest first
}

func thread(ctx context.Context, s *Services, c hub.Caller, p ThreadParams) (Thread, error) {
	if err := required("cacp/context/getThread", "packetId", string(p.Packet)); err != nil {
		return Thread{}, err
	}
	found, err := s.Contracts.Thread(ctx, c, p.Project, p.Packet, p.Deep)
	return Thread{found}, err
}
