package peer

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// The paths of a hub's card, of its health, and of the registration of agents.
const (
	CardPath     = "/.well-known/agent.json"
	HealthPath   = "/health"
	RegisterPath = "/peers/register"
	PeersPath    = "/peers"
)

// Protocol is the version of coordination that this hub speaks.
const Protocol = "2.0"

// A Card is the public description of an agent, served without authentication.
type Card struct {
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	Version      string            `json:"version"`
	URL          string            `json:"url"`
	Protocols    map[string]string `json:"protocols"`
	Capabilities []string          `json:"capabilities"`
	Extensions   CardExtensions    `json:"extensions"`
}

// CardExtensions are the members that not every card has.
type CardExtensions struct {
	CACP CardCoordination `json:"cacp"`
}

// CardCoordination is the part of a card about coordination.
type CardCoordination struct {
	Repo                   string   `json:"repo"`
	Role                   string   `json:"role"`
	Language               string   `json:"language"`
	AgentID                string   `json:"agentId"`
	SupportedContractTypes []string `json:"supportedContractTypes"`
	SupportedContextTypes  []string `json:"supportedContextTypes,omitempty"`

	// Timestamps is "rfc3339" for agents that read time zones, and empty for
	// those that fail on one.
	Timestamps string `json:"timestamps,omitempty"`
	// Sync names the extension for synchronization that the agent offers; see
	// SyncBatches.
	Sync string `json:"sync,omitempty"`
}

// The values of Timestamps and Sync on the card of this hub: it reads time zones,
// takes many changes in one JSON-RPC batch and answers the cacp/sync methods.
const (
	RFC3339     = "rfc3339"
	SyncBatches = "batch-digest/1"
)

// A Self describes this hub.
type Self struct {
	AID      string
	URL      string // endpoint for peers
	Repo     string
	Role     string
	Language string
	Version  string // of the program

	ContractTypes []string
	ContextTypes  []string
}

// Card returns the card of the hub.
func (s Self) Card() Card {
	name, about := s.Repo, "Coding agent for "+s.Repo+" repository"
	if s.Repo == "" { // it speaks for its agents alone
		name, about = s.AID, "Hub of coding agents"
	}
	return Card{
		Name: "CACP Agent (" + name + ")", Description: about, Version: semantic(s.Version), URL: s.URL,
		Protocols:    map[string]string{"cacp": Protocol},
		Capabilities: nonEmpty(s.Language, s.Role),
		Extensions: CardExtensions{CACP: CardCoordination{
			Repo: s.Repo, Role: s.Role, Language: s.Language, AgentID: s.AID,
			SupportedContractTypes: list(s.ContractTypes), SupportedContextTypes: s.ContextTypes,
			Timestamps: RFC3339, Sync: SyncBatches,
		}},
	}
}

var semanticVersion = pattern.New(`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)

// semantic returns a version of the program as a semantic version: as it is if it is
// one, else as the build of version 0.0.0.
func semantic(version string) string {
	if v := strings.TrimPrefix(version, "v"); semanticVersion().MatchString(v) {
		return v
	}
	build := strings.Trim(regexp.MustCompile(`[^0-9A-Za-z.-]+`).ReplaceAllString(version, "-"), "-.")
	if build == "" {
		return "0.0.0"
	}
	return "0.0.0+" + build
}

// list returns s, or an empty list for none: a list on the wire is never null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func nonEmpty(words ...string) []string {
	out := []string{}
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}

// Compatible reports CodeUnreachable when the card's agent speaks another major
// version of coordination than this hub, or does not say which.
func (c Card) Compatible() error {
	const op = "peer.Compatible"
	v, ok := c.Protocols["cacp"]
	if !ok {
		return hub.Errorf(hub.CodeUnreachable, op, "the card of %q does not state its coordination version", c.Name).
			WithHint("its protocols.cacp must be 2.x")
	}
	ours, _, _ := strings.Cut(Protocol, ".")
	major, _, _ := strings.Cut(v, ".")
	if _, err := strconv.Atoi(major); err != nil || major != ours {
		return hub.Errorf(hub.CodeUnreachable, op, "%q speaks coordination %.20q; this hub speaks %s", c.Name, v, Protocol)
	}
	return nil
}

// Card fetches the card of the agent at an endpoint. It reports CodeUnreachable for
// anything else at its path, such as a manifest.
func (c *Client) Card(ctx context.Context, endpoint string) (Card, error) {
	const op = "peer.Card"
	a, err := c.do(ctx, call{method: http.MethodGet, url: endpoint + CardPath})
	if err != nil {
		return Card{}, err
	}
	if a.Status != http.StatusOK {
		return Card{}, hub.Errorf(hub.CodeUnreachable, op, "%s has no card: status %d", endpoint, a.Status)
	}
	return decodeCard(op, endpoint, a.Body)
}

// decodeCard reads the members of a card that coordination needs. Cards of other
// protocols differ in the rest.
func decodeCard(op, endpoint string, body []byte) (Card, error) {
	var in struct {
		Name, Description, Version, URL string
		AID                             string // of a manifest, which others serve under the same path
		Protocols                       map[string]json.RawMessage
		Capabilities                    json.RawMessage
		Extensions                      struct{ CACP json.RawMessage }
	}
	if json.Unmarshal(body, &in) != nil {
		return Card{}, hub.Errorf(hub.CodeUnreachable, op, "the card of %s is malformed", endpoint)
	}
	if in.AID != "" && in.Protocols == nil {
		return Card{}, hub.Errorf(hub.CodeUnreachable, op, "%s serves a manifest instead of a card", endpoint)
	}
	card := Card{Name: in.Name, Description: in.Description, Version: in.Version, URL: in.URL, Protocols: map[string]string{}, Capabilities: []string{}}
	for name, raw := range in.Protocols {
		var version string
		if json.Unmarshal(raw, &version) != nil {
			version = string(raw)
		}
		card.Protocols[name] = version
	}
	json.Unmarshal(in.Capabilities, &card.Capabilities) // some cards have an object here, which is ignored
	if in.Extensions.CACP != nil && json.Unmarshal(in.Extensions.CACP, &card.Extensions.CACP) != nil {
		return Card{}, hub.Errorf(hub.CodeUnreachable, op, "extensions.cacp in the card of %s is malformed", endpoint)
	}
	return card, nil
}

// Health checks that the agent at an endpoint is up and returns its id, empty if it
// gives none.
func (c *Client) Health(ctx context.Context, endpoint string) (agentID string, err error) {
	a, err := c.do(ctx, call{method: http.MethodGet, url: endpoint + HealthPath})
	if err != nil {
		return "", err
	}
	if a.Status != http.StatusOK {
		return "", hub.Errorf(hub.CodeUnreachable, "peer.Health", "%s is not healthy: status %d", endpoint, a.Status)
	}
	var v struct {
		AgentID string `json:"agentId"`
	}
	if json.Unmarshal(a.Body, &v) != nil {
		return "", hub.Errorf(hub.CodeUnreachable, "peer.Health", "the health of %s is malformed", endpoint)
	}
	return v.AgentID, nil
}
