package federation

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A Redemption is sent by a hub that was invited: its identity, and the key that
// it expects from the inviting hub.
type Redemption struct {
	Invite   string    `json:"invite"`
	AID      coord.AID `json:"agentId"`
	Endpoint string    `json:"endpoint"`
	Repo     string    `json:"repoName"`
	Key      string    `json:"key"` // secret
}

// A Welcome is the answer to a Redemption: the identity of the inviting hub, the
// scope of the invite, and the key that it expects from now on.
type Welcome struct {
	AID         coord.AID          `json:"agentId"`
	Endpoint    string             `json:"endpoint"`
	Repo        string             `json:"repoName"`
	Project     coord.ProjectID    `json:"projectId"`
	ForRepo     string             `json:"forRepo"` // the repository that the guest may claim
	Permissions []coord.Permission `json:"permissions"`
	Key         string             `json:"key"` // secret
}

// A PeerStatus is a peer and how far it is behind.
type PeerStatus struct {
	hub.Peer
	Trust       Trust         `json:"trust"`
	Identity    Identity      `json:"identity"`
	Healthy     bool          `json:"isHealthy"` // the name that the reference implementation has for a health of up
	Lag         int64         `json:"lag"`       // changes that it has not been sent
	CatchUp     bool          `json:"catchUp,omitempty"`
	Tries       int           `json:"tries,omitempty"`
	NextTry     coord.Instant `json:"nextTry,omitzero"`
	DeadLetters int           `json:"deadLetters,omitempty"` // changes that the peer did not take since the last comparison; up to 1,000
	Refused     int           `json:"refused,omitempty"`     // copies of the peer that this hub did not take since then
}

// A Discovery is an agent as an exchange describes it. Nothing but the
// exchange's word supports it.
type Discovery struct {
	AID         string  `json:"aid"`
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Score       float64 `json:"score,omitempty"`
	Verified    bool    `json:"verified"` // by the exchange
	Endpoint    string  `json:"endpoint,omitempty"`
	Version     string  `json:"version,omitempty"` // of coordination; empty if it does not coordinate
	Key         string  `json:"key,omitempty"`     // that it signs with
}

// A Registration is the answer of an exchange to the manifest of this hub.
type Registration struct {
	AID      string `json:"aid"`
	Verified bool   `json:"verified"`
	Existed  bool   `json:"existed"` // the exchange knew the agent already
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// ParseEndpoint checks the address of a hub as far as its text goes and returns
// it without a slash at the end.
func ParseEndpoint(s string) (string, error) {
	const op = "federation.ParseEndpoint"
	u, err := url.Parse(s)
	switch {
	case len(s) > 2048:
		return "", hub.Errorf(hub.CodeInvalid, op, "an endpoint must be at most 2048 bytes")
	case err != nil:
		return "", hub.Errorf(hub.CodeInvalid, op, "%q is not a URL", s)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", hub.Errorf(hub.CodeInvalid, op, "%q is not an http or https URL", s)
	case u.Hostname() == "" || u.Opaque != "":
		return "", hub.Errorf(hub.CodeInvalid, op, "%q has no host", s)
	case u.Port() != "" && !validPort(u.Port()):
		return "", hub.Errorf(hub.CodeInvalid, op, "the port in %q is not between 1 and 65535", s)
	case u.User != nil:
		return "", hub.Errorf(hub.CodeInvalid, op, "an endpoint must not contain a user name or password")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", hub.Errorf(hub.CodeInvalid, op, "an endpoint must not contain a query or fragment")
	}
	return strings.TrimRight(u.String(), "/"), nil
}
