package coord

import (
	"cmp"
	"maps"
	"slices"
)

// A Stamp is one write to one member of a project or of a contract.
type Stamp struct {
	Member  string  `json:"member"`            // one of the Member constants
	Value   string  `json:"value"`             // that was written
	Version int     `json:"version,omitempty"` // of the contract; 0 for a project
	At      Instant `json:"at"`                // no two writes of a hub to one thing have the same time
	By      AID     `json:"by"`                // the hub that made the write
}

// The members that have stamps. The status of a contract has the same name as
// that of a project.
const (
	MemberName      = "name"
	MemberObjective = "objective"
	MemberStatus    = "status"
	MemberPolicy    = "agreement_policy"
	MemberBreaking  = "breaking_policy"
)

// Compare orders stamps: by member, then version, time, value and hub. Of the
// stamps of one member the greatest is the one whose value the member has. Statuses
// of contracts are in the order of a contract's life, as they are when copies tie.
func (s Stamp) Compare(o Stamp) int {
	life := func(s Stamp) int { return slices.Index(ContractStatuses, ContractStatus(s.Value)) }
	return cmp.Or(cmp.Compare(s.Member, o.Member), cmp.Compare(s.Version, o.Version), s.At.Compare(o.At),
		cmp.Compare(life(s), life(o)), cmp.Compare(s.Value, o.Value), cmp.Compare(s.By, o.By))
}

// Stamps tell two copies of one thing which writes each of them includes. Writes
// holds, in order, the writes that no later write replaced: one for each member that
// was ever written, and more when hubs wrote a member without knowing each other's
// write. Seen is the time of the last write of each hub that the copy includes,
// replaced or not. Every write in Writes is covered by Seen.
type Stamps struct {
	Writes []Stamp         `json:"writes"`
	Seen   map[AID]Instant `json:"seen"`
}

// IsZero reports whether nothing was written since the thing was made, or the copy
// is of a hub that keeps no stamps.
func (s Stamps) IsZero() bool { return len(s.Seen) == 0 }

// Covers reports whether the copy includes a write, or one that replaced it.
func (s Stamps) Covers(w Stamp) bool {
	seen, ok := s.Seen[w.By]
	return ok && seen.Compare(w.At) >= 0
}

// With returns s with a write. It replaces the known writes of its member, except
// when it stands beside them because its hub may not have known them.
func (s Stamps) With(w Stamp, beside bool) Stamps {
	out := Stamps{Seen: maps.Clone(s.Seen)}
	if out.Seen == nil {
		out.Seen = map[AID]Instant{}
	}
	for _, x := range s.Writes {
		if beside || x.Member != w.Member {
			out.Writes = append(out.Writes, x)
		}
	}
	out.Writes = append(out.Writes, w)
	slices.SortFunc(out.Writes, Stamp.Compare)
	if seen := out.Seen[w.By]; seen.Compare(w.At) < 0 {
		out.Seen[w.By] = w.At
	}
	return out
}

// Newest returns the write whose value a member has, if it was ever written.
func (s Stamps) Newest(member string) (Stamp, bool) {
	for _, w := range slices.Backward(s.Writes) {
		if w.Member == member {
			return w, true
		}
	}
	return Stamp{}, false
}

// Lost returns the writes that lost against another write of the same member and
// version whose hub did not know them, and that wrote another value. They stay
// until a hub that knows them writes the member again. Of moves of a contract with
// the same time all are lost: its contents decide which copy stands, and stamps do
// not tell them apart.
func (s Stamps) Lost() []Stamp {
	var lost []Stamp
	for _, w := range s.Writes {
		won, _ := s.Newest(w.Member)
		tied := w == won && w.Version > 0 && slices.ContainsFunc(s.Writes, func(o Stamp) bool {
			return o.Member == w.Member && o.Version == w.Version && o.At == w.At && o.Value != w.Value
		})
		if tied || (w.Version == won.Version && w.Value != won.Value) {
			lost = append(lost, w)
		}
	}
	return lost
}

// Equal reports whether two copies include the same writes.
func (s Stamps) Equal(o Stamps) bool {
	return slices.Equal(s.Writes, o.Writes) && maps.Equal(s.Seen, o.Seen)
}

// member returns the member of p with a name, or nil.
func (p *Project) member(name string) *string {
	switch name {
	case MemberName:
		return &p.Name
	case MemberObjective:
		return &p.Objective
	case MemberStatus:
		return (*string)(&p.Status)
	case MemberPolicy:
		return (*string)(&p.Policy)
	case MemberBreaking:
		return (*string)(&p.Breaking)
	}
	return nil
}

// ProjectMembers lists the members of a project that are written one by one.
var ProjectMembers = []string{MemberName, MemberObjective, MemberStatus, MemberPolicy, MemberBreaking}

// Member returns the value of one of ProjectMembers.
func (p Project) Member(name string) string {
	if v := p.member(name); v != nil {
		return *v
	}
	return ""
}

// SetMember sets one of ProjectMembers. Other names change nothing.
func (p *Project) SetMember(name, value string) {
	if v := p.member(name); v != nil {
		*v = value
	}
}
