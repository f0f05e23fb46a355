package coordination

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/contract"
)

// Shared is the answer to everything that shares.
type Shared struct {
	Packet coord.PacketID `json:"packetId"`
	Status string         `json:"status"`
}

func shared(p coord.Packet, err error) (Shared, error) { return Shared{p.ID, "shared"}, err }

// CodeParams are the parameters of cacp/context/shareCode.
type CodeParams struct {
	InProject
	contract.Relations
	Language    string `json:"language"`
	File        string `json:"file"`
	Snippet     string `json:"snippet"`
	Explanation string `json:"explanation,omitempty"`
}

func shareCode(ctx context.Context, s *Services, c hub.Caller, p CodeParams) (Shared, error) {
	if err := required("cacp/context/shareCode", "language", p.Language, "file", p.File, "snippet", p.Snippet); err != nil {
		return Shared{}, err
	}
	return shared(s.Contracts.ShareValue(ctx, c, p.InProject, p.Relations, coord.ContextCode, map[string]string{
		"language": p.Language, "file": p.File, "snippet": p.Snippet, "explanation": p.Explanation,
	}))
}

// TypesParams are the parameters of cacp/context/shareTypes.
type TypesParams struct {
	InProject
	contract.Relations
	Language    string `json:"language"`
	Definitions string `json:"definitions"`
	File        string `json:"file,omitempty"`
	Explanation string `json:"explanation,omitempty"`
}

func shareTypes(ctx context.Context, s *Services, c hub.Caller, p TypesParams) (Shared, error) {
	if err := required("cacp/context/shareTypes", "language", p.Language, "definitions", p.Definitions); err != nil {
		return Shared{}, err
	}
	return shared(s.Contracts.ShareValue(ctx, c, p.InProject, p.Relations, coord.ContextTypes, map[string]string{
		"language": p.Language, "definitions": p.Definitions, "file": p.File, "explanation": p.Explanation,
	}))
}

// ContextParams are the parameters of cacp/context/list.
type ContextParams struct {
	InProject
	Type     coord.ContextType `json:"type,omitempty"`
	Contract coord.ContractID  `json:"contractId,omitempty"`
	Since    coord.Instant     `json:"since,omitzero"` // with a zone or without
	Limit    strictjson.Count  `json:"limit,omitzero"`
	Cursor   string            `json:"cursor,omitempty"` // next of the page before, for older packets
}

// Context is the answer to cacp/context/list.
type Context struct {
	Packets []coord.Packet `json:"packets"`        // oldest first
	Next    string         `json:"next,omitempty"` // the cursor of the page with older packets
}

// contextPage is how many packets a list has unless asked for otherwise.
const contextPage = 50

func listContext(ctx context.Context, s *Services, c hub.Caller, p ContextParams) (Context, error) {
	if p.Limit == 0 {
		p.Limit = contextPage
	}
	page, err := s.Contracts.Packets(ctx, c, coord.PacketQuery{
		Project: p.Project, Type: p.Type, Contract: p.Contract, Since: p.Since, Newest: true, Cursor: p.Cursor, Limit: int(p.Limit),
	})
	out := Context{Packets: make([]coord.Packet, len(page.Packets)), Next: page.Next}
	for i, packet := range page.Packets {
		out.Packets[len(page.Packets)-1-i] = packet
	}
	return out, err
}

// ThreadParams are the parameters of cacp/context/getThread.
type ThreadParams struct {
	InProject
	Packet coord.PacketID `json:"packetId"`
	Deep   bool           `json:"deep,omitempty"` // answers to answers too
}

// Thread is the answer to cacp/context/getThread.
type Thread struct {
	Thread []coord.Packet `json:"thread"` // oldest first
}

func thread(ctx context.Context, s *Services, c hub.Caller, p ThreadParams) (Thread, error) {
	if err := required("cacp/context/getThread", "packetId", string(p.Packet)); err != nil {
		return Thread{}, err
	}
	found, err := s.Contracts.Thread(ctx, c, p.Project, p.Packet, p.Deep)
	return Thread{found}, err
}
