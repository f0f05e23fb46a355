package peer

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A Manifest describes an agent to an exchange.
type Manifest struct {
	AID          string               `json:"aid"`
	Name         string               `json:"name"`
	Description  string               `json:"description"`
	Owner        ManifestOwner        `json:"owner"`
	Capabilities []ManifestCapability `json:"capabilities"`
	Invocation   ManifestInvocation   `json:"invocation"`
	Privacy      ManifestPrivacy      `json:"privacy"`
	Security     ManifestSecurity     `json:"security"`
	Metadata     ManifestMetadata     `json:"metadata"`
	UpdatedAt    hub.Time             `json:"updatedAt,omitzero"`
}

// ManifestOwner is the organization that runs an agent.
type ManifestOwner struct {
	Org     string `json:"org"`
	Site    string `json:"site"`
	Contact string `json:"contact"`
}

// ManifestCapability is one capability of an agent.
type ManifestCapability struct {
	ID          string `json:"id"`
	Description string `json:"description"`
}

// ManifestInvocation lists the ways to call an agent.
type ManifestInvocation struct {
	Protocols      []ManifestProtocol `json:"protocols"`
	Authentication []string           `json:"authentication"`
}

// ManifestProtocol is one way to call an agent.
type ManifestProtocol struct {
	Type          string `json:"type"`
	Version       string `json:"version,omitempty"`
	Endpoint      string `json:"endpoint"`
	TransportType string `json:"transportType,omitempty"`
	HealthCheck   string `json:"healthCheck,omitempty"`
}

// ManifestPrivacy describes the use of data.
type ManifestPrivacy struct {
	DataRetentionDays int      `json:"dataRetentionDays"` // -1 for no limit
	DataRegions       []string `json:"dataRegions"`
	DataSharing       string   `json:"dataSharing"`
	GDPRCompliant     bool     `json:"gdprCompliant"`
	CCPACompliant     bool     `json:"ccpaCompliant"`
}

// ManifestSecurity holds the keys with which an agent signs.
type ManifestSecurity struct {
	SigningKeys ManifestKeys `json:"signingKeys"`
}

// ManifestKeys holds the key in use as ed25519: and the key in base64.
type ManifestKeys struct {
	Current string `json:"current"`
}

// ManifestMetadata holds further members.
type ManifestMetadata struct {
	Tags []string             `json:"tags,omitempty"`
	CACP ManifestCoordination `json:"cacp"`
}

// ManifestCoordination describes the agent for coordination.
type ManifestCoordination struct {
	Endpoint               string   `json:"endpoint,omitempty"`
	Role                   string   `json:"role"`
	Languages              []string `json:"languages"`
	SupportedContractTypes []string `json:"supported_contract_types"`
	MaxConcurrentProjects  int      `json:"max_concurrent_projects"`
}

// maxProjects is the limit in a manifest, which requires one.
const maxProjects = 100

// Manifest returns the hub's manifest for an exchange. key is the public half of the
// hub's signing key. strict leaves out the protocol entry of type cacp, which the
// published schema of manifests does not know but agents of the reference
// implementation look for.
func (s Self) Manifest(key ed25519.PublicKey, now hub.Time, strict bool) (Manifest, error) {
	const op = "peer.Manifest"
	aid, err := ParseAID(s.AID)
	if err == nil {
		err = aid.Validate()
	}
	if err != nil {
		return Manifest{}, hub.Errorf(hub.CodeInvalid, op, "an exchange needs an agent id that follows the protocol: %w", err).
			WithHint("start the hub with --aid aid://your-domain/name@1.0.0")
	}

	endpoint, err := federation.ParseEndpoint(s.URL)
	if err != nil {
		return Manifest{}, err
	}
	if len(key) != ed25519.PublicKeySize {
		return Manifest{}, hub.Errorf(hub.CodeInvalid, op, "a manifest needs a signing key")
	}

	// A manifest needs a description of at least 20 characters.
	name := "Parley hub for " + cmp.Or(s.Repo, aid.Name)
	about := name
	if len(about) < 20 {
		about = name + ": " + about
	}
	site := "https://" + strings.ToLower(aid.Domain)

	m := Manifest{
		AID: s.AID, Name: shorten.Bytes(name, 100), Description: shorten.Bytes(about, 1000),
		Owner:        ManifestOwner{Org: aid.Domain, Site: site, Contact: site},
		Capabilities: []ManifestCapability{{"cacp.coordinate", "Agrees on interfaces between repositories and keeps them in step."}},
		Invocation: ManifestInvocation{
			Protocols: []ManifestProtocol{
				{Type: "cacp", Version: Protocol, Endpoint: endpoint, TransportType: "http"},
				{Type: "rest", Version: Protocol, Endpoint: endpoint, HealthCheck: endpoint + HealthPath},
			},
			Authentication: []string{"api_key", "jwt"},
		},
		Privacy:  ManifestPrivacy{DataRetentionDays: -1, DataRegions: []string{"unspecified"}, DataSharing: "partners"},
		Security: ManifestSecurity{ManifestKeys{"ed25519:" + base64.StdEncoding.EncodeToString(key)}},
		Metadata: ManifestMetadata{
			Tags: nonEmpty("cacp", s.Role, s.Language),
			CACP: ManifestCoordination{
				Role: s.Role, Languages: nonEmpty(s.Language), SupportedContractTypes: list(s.ContractTypes), MaxConcurrentProjects: maxProjects,
			},
		},
		UpdatedAt: now,
	}

	if strict {
		m.Metadata.CACP.Endpoint, m.Invocation.Protocols = endpoint, m.Invocation.Protocols[1:]
	}
	return m, nil
}

// listing is an entry of an exchange in any known form.
type listing struct {
	AID         string          `json:"aid"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Score       float64         `json:"score"`
	Verified    bool            `json:"verified"`
	Manifest    json.RawMessage `json:"manifest"`
}

// found decodes an entry. ok is false if it has no agent id.
func (l listing) found() (federation.Discovery, bool) {
	f := federation.Discovery{AID: l.AID, Name: shorten.Bytes(l.Name, 200), Description: shorten.Bytes(l.Description, 2000), Score: l.Score, Verified: l.Verified}

	var m struct {
		AID, Name, Description string
		Invocation             struct {
			Protocols []struct {
				Type, Endpoint string
				Version        json.RawMessage
			}
		}
		Security struct{ SigningKeys struct{ Current string } }
		Metadata struct{ CACP struct{ Endpoint string } }
	}
	if l.Manifest != nil && json.Unmarshal(l.Manifest, &m) == nil {
		f.AID = cmp.Or(f.AID, m.AID)
		f.Name = cmp.Or(f.Name, shorten.Bytes(m.Name, 200))
		f.Description = cmp.Or(f.Description, shorten.Bytes(m.Description, 2000))
		f.Key = shorten.Bytes(m.Security.SigningKeys.Current, 200)
		f.Endpoint = m.Metadata.CACP.Endpoint
		if f.Endpoint != "" {
			f.Version = Protocol
		}

		// An entry of type cacp counts before the endpoint in the metadata.
		for _, p := range m.Invocation.Protocols {
			if strings.EqualFold(p.Type, "cacp") {
				f.Endpoint, f.Version = p.Endpoint, Protocol
				if s := strings.Trim(string(p.Version), `"`); s != "" && s != "null" {
					f.Version = shorten.Bytes(s, 20)
				}
				break
			}
		}
	}

	// An entry needs a valid agent id. An invalid endpoint is left out.
	if _, err := ParseAID(f.AID); err != nil {
		return federation.Discovery{}, false
	}
	if endpoint, err := federation.ParseEndpoint(f.Endpoint); err == nil {
		f.Endpoint = endpoint
	} else {
		f.Endpoint, f.Version = "", ""
	}
	return f, true
}
