package coord

import "slices"

// A Grant bounds a peer, or the holder of a project token, to some permissions in
// one project.
type Grant struct {
	Project     ProjectID    `json:"projectId"`
	Repos       []string     `json:"repos,omitempty"` // names of the repositories that it may claim
	Permissions []Permission `json:"permissions"`     // none permit nothing

	// Host marks the peer that invited this hub to the project. It passes on the
	// changes of all repositories, and this hub has the permissions Ours there.
	Host bool         `json:"host,omitempty"`
	Ours []Permission `json:"ours,omitempty"`

	// Evidence bounds the holder of a project token that sends results of tests. Without bounds its
	// results count as said.
	Evidence *EvidenceBounds `json:"-"`
}

// EvidenceBounds are the bounds of a project token with the permission evidence.
type EvidenceBounds struct {
	Repo   string   `json:"repo"`   // name of the repository
	Checks []string `json:"checks"` // names of its checks
	Branch string   `json:"branch,omitempty"`
}

// Permits reports whether the grant holds a permission. Every grant permits to send
// copies: what a copy changes decides then. One that permits to read permits to
// compare.
func (g Grant) Permits(need Permission) bool {
	switch need {
	case PermitSync:
		return true
	case PermitCompare:
		need = PermitRead
	case PermitClaim:
		if len(g.Repos) > 0 {
			return true
		}
		need = PermitWrite
	}
	return slices.Contains(g.Permissions, need)
}

// GrantIn returns the grant of a list for a project.
func GrantIn(grants []Grant, project ProjectID) (Grant, bool) {
	i := slices.IndexFunc(grants, func(g Grant) bool { return g.Project == project })
	if i < 0 {
		return Grant{}, false
	}
	return grants[i], true
}
