package hub

// A Copy is one thing of a project as one hub sends it to another. Exactly one
// of its last four members is set.
type Copy struct {
	Project ProjectID `json:"projectId"`

	Head     *Project  `json:"project,omitempty"` // with its repositories, without what else it holds
	Repo     *Repo     `json:"repo,omitempty"`
	Contract *Contract `json:"contract,omitempty"` // with History and Conflicts
	Packet   *Packet   `json:"packet,omitempty"`
}

// Naive returns c with times for peers that know no zones.
func (c Copy) Naive() Copy {
	switch {
	case c.Head != nil:
		c.Head = ptr(c.Head.Naive())
	case c.Repo != nil:
		c.Repo = ptr(c.Repo.Naive())
	case c.Contract != nil:
		c.Contract = ptr(c.Contract.Naive())
	case c.Packet != nil:
		c.Packet = ptr(c.Packet.Naive())
	}
	return c
}

func ptr[T any](v T) *T { return &v }

// A SyncStatus says what became of a copy.
type SyncStatus string

// The statuses.
const (
	SyncCreated SyncStatus = "created"
	SyncUpdated SyncStatus = "updated"
	SyncSkipped SyncStatus = "skipped" // it said nothing new
	SyncError   SyncStatus = "error"   // it could not be taken; see Reason
)

// A Synced says what became of one copy.
type Synced struct {
	Status  SyncStatus `json:"status"`
	Reason  string     `json:"reason,omitempty"`
	Code    Code       `json:"code,omitempty"`    // of an error
	Version int        `json:"version,omitempty"` // of a contract, as it is here now
	Behind  bool       `json:"behind,omitempty"`  // what is here now has something that the copy had not
}

// A Summary tells two hubs whether they hold the same of a project, and if not
// then where they differ, without sending it.
type Summary struct {
	Project   ProjectID      `json:"projectId"`
	Head      string         `json:"head"` // hash of the project with its repositories
	Contracts []ContractSum  `json:"contracts"`
	Buckets   []PacketBucket `json:"buckets"` // those that are not empty, by number
	Next      ContractID     `json:"next,omitempty"`
}

// A ContractSum is the hash of all that hubs exchange about a contract.
type ContractSum struct {
	ID  ContractID `json:"id"`
	Sum string     `json:"sum"`
}

// A PacketBucket stands for the packets whose ids have a hash that begins with
// one byte.
type PacketBucket struct {
	N     int    `json:"n"` // the byte
	Count int    `json:"count"`
	Sum   string `json:"sum"` // over the ids, in any order
}
