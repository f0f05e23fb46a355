package coord

// A Permission is the right to call some operations in a project.
type Permission string

// The permissions that a project token or an invite can grant.
const (
	PermitRead      Permission = "project:read"
	PermitWrite     Permission = "project:write"
	PermitPropose   Permission = "contract:propose"
	PermitRespond   Permission = "contract:respond"
	PermitShare     Permission = "context:share"
	PermitImplement Permission = "implementation:update"
	PermitFiles     Permission = "file:share"
	PermitEvidence  Permission = "evidence" // record results of tests that were run
	PermitDeploy    Permission = "deploy"   // record deployments
)

// The permissions that follow from others. No token and no invite names them.
const (
	PermitSync    Permission = "peer:sync"    // send copies to this hub
	PermitCompare Permission = "peer:compare" // read the differences between two hubs; a legacy peer may not
	PermitClaim   Permission = "repo:claim"   // claim a repository: that of an invite, or with project:write every one
)

// Permissions lists every permission of the protocol. Another hub that invited this one has
// them all.
var Permissions = []Permission{PermitRead, PermitWrite, PermitPropose, PermitRespond, PermitShare, PermitImplement, PermitFiles}

// Grantable lists every permission that a token or an invite can name: those of the protocol,
// and those of CI.
var Grantable = []Permission{PermitRead, PermitWrite, PermitPropose, PermitRespond, PermitShare, PermitImplement, PermitFiles, PermitEvidence, PermitDeploy}

// Contributor lists the permissions of a token or an invite that names none.
var Contributor = []Permission{PermitRead, PermitPropose, PermitRespond, PermitShare, PermitImplement}
