package coord

import (
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A PacketID names a context packet within its project.
type PacketID string

// shortPacket is the length of a short packet id.
const shortPacket = 8

// Short returns the end of id, by which readers that pay for every character can name the packet.
// The hub reads it where it reads the id, if no other packet of the project ends like it. The end
// of a UUIDv7 is random; its beginning is a time.
func (id PacketID) Short() string { return string(id[max(0, len(id)-shortPacket):]) }

// IsShort reports whether id has the length of a short packet id.
func (id PacketID) IsShort() bool { return len(id) == shortPacket }

// Valid reports whether id has the form that ProjectID.Valid wants.
func (id PacketID) Valid() bool { return safeID(string(id)) }

// A ContextType is the kind of content of a packet.
type ContextType string

// The types.
const (
	ContextCode        ContextType = "code_snippet"
	ContextTypes       ContextType = "type_definition"
	ContextAPI         ContextType = "api_spec"
	ContextErrors      ContextType = "error_catalog"
	ContextEnvironment ContextType = "env_config"
	ContextTest        ContextType = "test_case"
	ContextDependency  ContextType = "dependency_info"
	ContextProgress    ContextType = "implementation_status"
	ContextQuestion    ContextType = "question"
	ContextDecision    ContextType = "decision"
)

// PacketTypes lists every type.
var PacketTypes = []ContextType{
	ContextCode, ContextTypes, ContextAPI, ContextErrors, ContextEnvironment,
	ContextTest, ContextDependency, ContextProgress, ContextQuestion, ContextDecision,
}

// Known reports whether t is one of PacketTypes.
func (t ContextType) Known() bool { return slices.Contains(PacketTypes, t) }

// A Packet is context that one repository shares with the others of its project.
// It is immutable.
type Packet struct {
	Project   ProjectID       `json:"-"`
	ID        PacketID        `json:"packet_id"`
	FromRepo  RepoID          `json:"from_repo"`
	FromAgent AID             `json:"from_agent"`
	At        Instant         `json:"timestamp"`
	Type      ContextType     `json:"type"`
	Content   json.RawMessage `json:"content"` // an object, as received
	Related   []ContractID    `json:"related_contracts"`
	ReplyTo   PacketID        `json:"reply_to,omitempty"`
}

// MarshalJSON writes lists that are empty as [].
func (p Packet) MarshalJSON() ([]byte, error) {
	type plain Packet
	p.Related = listed(p.Related)
	return strictjson.Encode(plain(p))
}

// A FileRequest is the request of one repository for a file of another. It is
// stored on the hub that received it and never exchanged.
type FileRequest struct {
	Project     ProjectID `json:"project_id"`
	ID          string    `json:"request_id"`
	FromRepo    RepoID    `json:"from_repo"`
	FromAgent   AID       `json:"from_agent"`
	Description string    `json:"description"`
	Format      string    `json:"suggested_format,omitempty"`
	At          Instant   `json:"requested_at"`
	FulfilledAt Instant   `json:"fulfilled_at,omitzero"`
	File        string    `json:"file,omitempty"` // below the project's folder
}
