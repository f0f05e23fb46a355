// Package federation holds the forms in which hubs exchange projects, and the
// limits that a project keeps on every hub: one hub must be able to store what
// another one accepted.
//
// A [Copy] is one thing of a project as it is sent. Its decoders refuse repeated
// names and names that differ only in case, and check every limit, so that a
// service merges checked values only. The package decides nothing about trust or
// about merging.
package federation

import (
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A Copy is one thing of a project as one hub sends it to another. Exactly one
// of its last four members is set.
type Copy struct {
	Project coord.ProjectID `json:"projectId"`

	Head     *coord.Project  `json:"project,omitempty"` // with its repositories, without contracts and packets
	Repo     *coord.Repo     `json:"repo,omitempty"`
	Contract *coord.Contract `json:"contract,omitempty"` // with History and Conflicts
	Packet   *coord.Packet   `json:"packet,omitempty"`

	// Sum is that of the whole contract, if the copy leaves versions out that the
	// receiver has.
	Sum string `json:"sum,omitempty"`
}

// Lacking returns the copy of a contract without the versions that have one of the
// sums, which the receiver has.
func (c Copy) Lacking(sums []string) Copy {
	if c.Contract == nil || len(sums) == 0 {
		return c
	}
	c.Sum = c.Contract.Sum()
	part := c.Contract.WithoutVersions(sums)
	c.Contract = &part
	return c
}

// Change returns the change that the copy is of. Its kind is the middle of the
// method that sends the copy: cacp/contract/sync.
func (c Copy) Change() hub.Change {
	out := hub.Change{Project: c.Project}
	switch {
	case c.Head != nil:
		out.Kind, out.Object = hub.ChangeProject, string(c.Project)
	case c.Repo != nil:
		out.Kind, out.Object = hub.ChangeRepo, string(c.Repo.ID)
	case c.Contract != nil:
		out.Kind = hub.ChangeContract
		out.Object = string(c.Contract.ID)
		out.Version = c.Contract.Version
	case c.Packet != nil:
		out.Kind, out.Object = hub.ChangePacket, string(c.Packet.ID)
	}
	return out
}

// A SyncStatus is the outcome of a merge of one copy.
type SyncStatus string

// The statuses.
const (
	SyncCreated SyncStatus = "created"
	SyncUpdated SyncStatus = "updated"
	SyncSkipped SyncStatus = "skipped" // it said nothing new
	SyncError   SyncStatus = "error"   // it could not be taken; see Reason
)

// A SyncResult is the answer to one copy.
type SyncResult struct {
	Status  SyncStatus `json:"status"`
	Reason  string     `json:"reason,omitempty"`
	Code    hub.Code   `json:"code,omitempty"`    // of an error
	Version int        `json:"version,omitempty"` // of a contract, as it is here now
	Behind  bool       `json:"behind,omitempty"`  // the stored thing has something that the copy lacks

	Retry time.Duration `json:"-"` // until a copy that was one too many may be sent again
}

// A Summary tells two hubs whether they hold the same of a project, and if not
// then where they differ, without sending it.
type Summary struct {
	Project   coord.ProjectID      `json:"projectId"`
	Head      string               `json:"head"` // hash of the project with its repositories
	Contracts []coord.ContractSum  `json:"contracts"`
	Buckets   []coord.PacketBucket `json:"buckets"` // those that are not empty, by number
	Next      coord.ContractID     `json:"next,omitempty"`
}

// The parameters and results of the calls with which two hubs compare.
type (
	// ProjectsParams ask for the projects after one, by id.
	ProjectsParams struct {
		After coord.ProjectID `json:"after,omitempty"`
	}
	// A ProjectsPage lists projects. Next is where the next page begins, or "".
	ProjectsPage struct {
		Projects []coord.ProjectID `json:"projects"`
		Next     coord.ProjectID   `json:"next,omitempty"`

		// Sums has one hash for each project. Hubs of older releases send none.
		Sums map[coord.ProjectID]string `json:"sums,omitempty"`
	}
	// SummaryParams ask for a summary with the contracts after one.
	SummaryParams struct {
		Project coord.ProjectID  `json:"projectId"`
		After   coord.ContractID `json:"after,omitempty"`
	}
	// PacketsParams ask for the ids of the packets in some buckets.
	PacketsParams struct {
		Project coord.ProjectID `json:"projectId"`
		Buckets []int           `json:"buckets"` // of a summary
		After   coord.PacketID  `json:"after,omitempty"`
	}
	// A PacketsPage lists packets by id.
	PacketsPage struct {
		Packets []coord.PacketID `json:"packets"`
		Next    coord.PacketID   `json:"next,omitempty"`
	}
	// CopiesParams ask for copies of some things.
	CopiesParams struct {
		Project   coord.ProjectID    `json:"projectId"`
		Head      bool               `json:"head,omitempty"`
		Contracts []coord.ContractID `json:"contracts,omitempty"`
		Packets   []coord.PacketID   `json:"packets,omitempty"`

		// Have holds the sums of the versions that the caller has; they are left out.
		Have map[coord.ContractID][]string `json:"have,omitempty"`
	}
	// VersionsParams ask for the versions of some contracts.
	VersionsParams struct {
		Project   coord.ProjectID    `json:"projectId"`
		Contracts []coord.ContractID `json:"contracts"`
	}
	// A VersionsPage holds the sums of the versions of the contracts that are there.
	VersionsPage struct {
		Versions map[coord.ContractID][]string `json:"versions"`
	}
	// A CopiesPage holds the copies that fit into one answer.
	CopiesPage struct {
		Copies []Copy `json:"copies"`
		Left   int    `json:"left"` // number of requested copies that did not fit
	}
)

// A ProjectCopy is a whole project as one hub sends it to another.
type ProjectCopy struct {
	coord.Project
	Contracts []coord.Contract
	Packets   []coord.Packet
}

// MarshalJSON writes the project as the protocol has it: whole.
func (p ProjectCopy) MarshalJSON() ([]byte, error) {
	type plain coord.Project
	p.Repos = notNil(p.Repos)
	return strictjson.Encode(struct {
		plain
		Contracts []coord.Contract `json:"contracts"`
		Packets   []coord.Packet   `json:"context_history"`
	}{plain(p.Project), notNil(p.Contracts), notNil(p.Packets)})
}

// UnmarshalJSON reads a project with everything in it. The contracts know
// their project afterwards.
func (p *ProjectCopy) UnmarshalJSON(b []byte) error {
	type plain coord.Project
	var in struct {
		plain
		Contracts []coord.Contract `json:"contracts"`
		Packets   []coord.Packet   `json:"context_history"`
	}
	if _, err := strictjson.DecodeOpen(b, &in); err != nil {
		return err
	}
	*p = ProjectCopy{coord.Project(in.plain), in.Contracts, in.Packets}
	for i := range p.Contracts {
		p.Contracts[i].Project = p.ID
	}
	for i := range p.Packets {
		p.Packets[i].Project = p.ID
	}
	return nil
}

// Naive returns v with times for peers that know no zones.
func Naive[T coord.Project | coord.Repo | coord.Contract | coord.Packet](v T) T {
	switch v := any(&v).(type) {
	case *coord.Project:
		naive(&v.CreatedAt, &v.UpdatedAt)
		v.Environments = slices.Clone(v.Environments)
		for i := range v.Environments {
			naive(&v.Environments[i].At)
		}
		v.Stamps = coord.Stamps{} // agents that know no zones keep none

		// The lists are copied, because v shares them with the value of the caller.
		v.Repos = slices.Clone(v.Repos)
		for i := range v.Repos {
			naive(&v.Repos[i].ClaimedAt, &v.Repos[i].UpdatedAt)
		}

	case *coord.Repo:
		naive(&v.ClaimedAt, &v.UpdatedAt)
	case *coord.Packet:
		naive(&v.At)

	case *coord.Contract:
		naive(&v.CreatedAt, &v.UpdatedAt, &v.ReopenedAt)
		v.Stamps = coord.Stamps{}
		v.Implementations, v.Agreements = slices.Clone(v.Implementations), slices.Clone(v.Agreements)
		for i := range v.Implementations {
			naive(&v.Implementations[i].StartedAt, &v.Implementations[i].CompletedAt)
		}
		for i := range v.Agreements {
			naive(&v.Agreements[i].At)
		}
		v.Terms = naiveTerms(v.Terms)
		for _, versions := range []*[]coord.ContractVersion{&v.History, &v.Conflicts} {
			*versions = slices.Clone(*versions)
			for i := range *versions {
				naive(&(*versions)[i].At)
			}
		}
	}

	return v
}

// naiveTerms returns terms with times for peers that know no zones.
func naiveTerms(t coord.Terms) coord.Terms {
	naive(&t.WrittenAt)
	t.Uses = slices.Clone(t.Uses)
	for i := range t.Uses {
		naive(&t.Uses[i].Declared, &t.Uses[i].At)
	}
	t.Asks = slices.Clone(t.Asks)
	for i := range t.Asks {
		naive(&t.Asks[i].At)
	}
	t.Ends = slices.Clone(t.Ends)
	for i := range t.Ends {
		naive(&t.Ends[i].At)
	}
	t.Tests = slices.Clone(t.Tests)
	for i := range t.Tests {
		naive(&t.Tests[i].At)
	}
	t.Words = slices.Clone(t.Words)
	for i := range t.Words {
		naive(&t.Words[i].At)
	}
	if t.Handover != nil {
		handover := *t.Handover
		naive(&handover.At)
		t.Handover = &handover
	}
	if t.InForce != nil {
		force := *t.InForce
		naive(&force.Since)
		t.InForce = &force
	}
	return t
}

func naive(times ...*coord.Instant) {
	for _, t := range times {
		*t = t.Naive()
	}
}

// Naive returns c with times for peers that know no zones.
func (c Copy) Naive() Copy {
	c.Head = naiveCopy(c.Head)
	c.Repo = naiveCopy(c.Repo)
	c.Contract = naiveCopy(c.Contract)
	c.Packet = naiveCopy(c.Packet)
	return c
}

func naiveCopy[T coord.Project | coord.Repo | coord.Contract | coord.Packet](v *T) *T {
	if v == nil {
		return nil
	}
	copied := Naive(*v)
	return &copied
}

// notNil returns a list that is written as [] and never as null.
func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
