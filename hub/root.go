package hub

// A Root is a folder that the operator allows the hub to read, so that it can check
// the claims of handoffs about files and repositories in it.
type Root struct {
	Path    string  `json:"path"` // absolute and clean, without links when it was added
	AddedBy AgentID `json:"added_by"`
	AddedAt Time    `json:"added_at,omitzero"`
}
