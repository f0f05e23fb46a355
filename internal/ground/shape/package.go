package shape

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/hub"
)

// MaxPackage is how many bytes a handoff package may have, as compact JSON.
const MaxPackage = 256 << 10

// A Package holds the members of a handoff package that the hub reads. The text
// that was sent is stored whole beside it, with all other members.
type Package struct {
	Protocol  string        `json:"protocol"`
	Version   string        `json:"version"`
	HandoffID hub.HandoffID `json:"handoff_id"`
	ThreadID  string        `json:"thread_id"`
	Task      struct {
		TaskID       string            `json:"task_id"`
		Title        string            `json:"title"`
		Objective    string            `json:"objective"`
		Criteria     []string          `json:"success_criteria"`
		Deadline     hub.Time          `json:"deadline,omitzero"`
		Priority     hub.Priority      `json:"priority"`
		ExternalRefs []hub.ExternalRef `json:"external_refs"`
	} `json:"task"`
	Context struct {
		Summary string `json:"summary"`
	} `json:"context"`
	WorkState struct {
		Status     string `json:"status"`
		NextStep   string `json:"next_step"`
		Branch     string `json:"branch"`
		Worktree   string `json:"worktree_path"`
		TestStatus string `json:"test_status"`
	} `json:"work_state"`
	Artifacts  []PackageArtifact `json:"artifacts"`
	Provenance struct {
		OriginSession string        `json:"origin_session"`
		Chain         []hub.AgentID `json:"handoff_chain"`
	} `json:"provenance"`
	Policy struct {
		Classification string   `json:"classification"`
		NeedsHuman     bool     `json:"requires_human_approval"`
		Restrictions   []string `json:"export_restrictions"`
	} `json:"policy"`
	// Unproven says why the hub cannot check the files that the package names. It is
	// the sender's declaration, and a member of this hub, not of the protocol.
	Unproven string `json:"unproven"`
	// Expect is what the sender expects of the work. It is a member of this hub, too.
	Expect Expectation `json:"expect"`
	// Scope has the files that are reserved for the receiver while it owns the task:
	// files, folders or pathspecs of git in the worktree. It is a member of this hub, too.
	Scope []string `json:"scope"`

	Checks       []string `json:"checks"` // names of checks of the repository that must pass
	Review       string   `json:"review"` // the reviewer of the work: an agent, role:ROLE or operator; empty for none
	Verification struct {
		SchemaVersion string `json:"schema_version"`
		Hash          string `json:"package_hash"`
	} `json:"verification"`
}

// An Expectation says what the work of a task must change, and what counts.
type Expectation struct {
	// Paths are files that must change, relative to the worktree. A folder stands for
	// the files in it; "*", "?" and "[a-z]" match within a name, and "**" any number of
	// folders.
	Paths []string `json:"paths,omitempty"`
	Merge bool     `json:"merge,omitempty"` // commits that existed before the task count, too
}

// A PackageArtifact is a file, commit or address that a package claims to exist.
type PackageArtifact struct {
	ID  string          `json:"artifact_id"`
	Ref hub.ArtifactRef `json:"ref"`
}

// ClassRestricted marks a package that exports leave out.
const ClassRestricted = "restricted"

// DecodePackage reads a package that is known to satisfy its schema.
func DecodePackage(raw []byte) (Package, error) {
	var p Package
	if err := jsonv2.Unmarshal(raw, &p); err != nil {
		return p, hub.Errorf(hub.CodeInvalid, "shape.DecodePackage", "package: %v", err)
	}
	return p, nil
}

// RunEvidence is the part of a run's evidence that can be checked again: files
// and a commit. A package may carry some in its member evidence, as a run
// recorded it.
type RunEvidence struct {
	RunID    hub.RunID `json:"run_id"`
	Worktree string    `json:"worktree_path"` // default that of the package
	After    struct {
		Commit string `json:"commit"`
	} `json:"after"`
	Diff struct {
		Created  []string `json:"created"`
		Modified []string `json:"modified"`
		Deleted  []string `json:"deleted"`
	} `json:"diff"`
}

// DecodeEvidence reads the evidence that a package carries. It returns none for a
// package without evidence, and reports CodeInvalid for anything that is not
// evidence of runs.
func DecodeEvidence(raw []byte) ([]RunEvidence, error) {
	var p struct {
		Evidence []RunEvidence `json:"evidence"`
	}
	if err := jsonv2.Unmarshal(raw, &p); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "shape.DecodeEvidence", "package: evidence: %v", err)
	}
	return p.Evidence, nil
}

// DecodeRecordedEvidence reads the evidence of a run as the hub recorded it.
func DecodeRecordedEvidence(raw []byte) (RunEvidence, error) {
	var e RunEvidence
	if err := jsonv2.Unmarshal(raw, &e); err != nil {
		return e, hub.Errorf(hub.CodeInvalid, "shape.DecodeRecordedEvidence", "evidence: %v", err)
	}
	return e, nil
}

// Beyond returns the first thing in e that is not in the recorded evidence: a file or
// the commit. It returns "" if e is a part of it.
func (e RunEvidence) Beyond(recorded RunEvidence) string {
	if e.After.Commit != "" && e.After.Commit != recorded.After.Commit {
		return "commit " + e.After.Commit
	}
	for _, list := range []struct {
		word      string
		says, has []string
	}{
		{"created", e.Diff.Created, recorded.Diff.Created},
		{"modified", e.Diff.Modified, recorded.Diff.Modified},
		{"deleted", e.Diff.Deleted, recorded.Diff.Deleted},
	} {
		has := map[string]bool{}
		for _, name := range list.has {
			has[name] = true
		}
		for _, name := range list.says {
			if !has[name] {
				return fmt.Sprintf("%q as %s", name, list.word)
			}
		}
	}
	return ""
}

// PackageHash returns the SHA-256 of a package in lower-case hexadecimal: that
// of its canonical form by RFC 8785, with the member package_hash of
// verification left out.
func PackageHash(raw []byte) (string, error) {
	const op = "shape.PackageHash"
	var members map[string]jsontext.Value
	if err := jsonv2.Unmarshal(raw, &members); err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	if v, ok := members["verification"]; ok {
		var inner map[string]jsontext.Value
		if jsonv2.Unmarshal(v, &inner) == nil && inner != nil {
			delete(inner, "package_hash")
			stripped, err := jsonv2.Marshal(inner, jsonv2.Deterministic(true))
			if err != nil {
				return "", hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
			}
			members["verification"] = stripped
		}
	}
	whole, err := jsonv2.Marshal(members, jsonv2.Deterministic(true))
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	canonical := jsontext.Value(whole)
	if err := canonical.Canonicalize(); err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// SameHash reports whether two package hashes are the same, with or without
// the name of the algorithm before them.
func SameHash(a, b string) bool {
	return strings.TrimPrefix(a, "sha256:") == strings.TrimPrefix(b, "sha256:")
}
