package access

import (
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A Permission is something that a project token or an invite allows.
type Permission string

// The permissions.
const (
	PermitRead      Permission = "project:read"
	PermitWrite     Permission = "project:write"
	PermitPropose   Permission = "contract:propose"
	PermitRespond   Permission = "contract:respond"
	PermitShare     Permission = "context:share"
	PermitImplement Permission = "implementation:update"
	PermitFiles     Permission = "file:share"
)

// Permissions lists every permission.
var Permissions = []Permission{PermitRead, PermitWrite, PermitPropose, PermitRespond, PermitShare, PermitImplement, PermitFiles}

// Contributor is what somebody gets who takes part in a project, unless asked
// for otherwise.
var Contributor = []Permission{PermitRead, PermitPropose, PermitRespond, PermitShare, PermitImplement}

// Known reports whether p is one of Permissions.
func (p Permission) Known() bool { return slices.Contains(Permissions, p) }

// permitSync is needed for calls between hubs. No token grants it.
const permitSync Permission = "peer:sync"

// needs is which permission each method of coordination needs. A method that is
// not in it is for agents of this hub.
var needs = map[string]Permission{
	"cacp/project/get":              PermitRead,
	"cacp/project/list":             PermitRead,
	"cacp/project/export":           PermitRead,
	"cacp/contract/get":             PermitRead,
	"cacp/contract/list":            PermitRead,
	"cacp/contract/diff":            PermitRead,
	"cacp/contract/check":           PermitRead,
	"cacp/contract/conflicts":       PermitRead,
	"cacp/context/list":             PermitRead,
	"cacp/context/getThread":        PermitRead,
	"cacp/implementation/getStatus": PermitRead,
	"cacp/file/listRequests":        PermitRead,

	"cacp/project/create":       PermitWrite,
	"cacp/project/join":         PermitWrite,
	"cacp/project/updateStatus": PermitWrite,
	"cacp/project/addRepo":      PermitWrite,
	"cacp/project/setPolicy":    PermitWrite,

	"cacp/contract/propose": PermitPropose,
	"cacp/contract/update":  PermitPropose,
	"cacp/contract/respond": PermitRespond,

	"cacp/context/share":          PermitShare,
	"cacp/context/askQuestion":    PermitShare,
	"cacp/context/recordDecision": PermitShare,
	"cacp/context/shareCode":      PermitShare,
	"cacp/context/shareTypes":     PermitShare,

	"cacp/implementation/start":    PermitImplement,
	"cacp/implementation/complete": PermitImplement,
	"cacp/implementation/verify":   PermitImplement,

	"cacp/file/share":          PermitFiles,
	"cacp/file/request":        PermitFiles,
	"cacp/file/fulfillRequest": PermitFiles,

	"cacp/project/sync":  permitSync,
	"cacp/repo/sync":     permitSync,
	"cacp/contract/sync": permitSync,
	"cacp/context/sync":  permitSync,
	"cacp/peer/announce": permitSync,
	"cacp/sync/projects": permitSync,
	"cacp/sync/summary":  permitSync,
	"cacp/sync/packets":  permitSync,
	"cacp/sync/copies":   permitSync,
}

// legacyMethods is all that a peer may do that cannot send a key.
var legacyMethods = []string{"cacp/project/sync", "cacp/repo/sync", "cacp/contract/sync", "cacp/context/sync", "cacp/peer/announce"}

// checkPermissions reports CodeInvalid unless every one is known, and returns
// them as they are kept.
func checkPermissions(op string, list []Permission) ([]string, error) {
	if len(list) == 0 {
		list = Contributor
	}
	var out []string
	for _, p := range list {
		if !p.Known() {
			return nil, hub.Errorf(hub.CodeInvalid, op, "%q is not a permission", p).WithHint("the permissions are %s", join(Permissions))
		}
		if !slices.Contains(out, string(p)) {
			out = append(out, string(p))
		}
	}
	return out, nil
}
