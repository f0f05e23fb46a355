package evidence

import (
	"context"
	"strconv"

	"github.com/parley-agents/parley/hub"
)

// Repositories reads the repositories of this machine; see package clone.
type Repositories interface {
	Find(ctx context.Context, folder string) (hub.Repository, error)
	Fetch(ctx context.Context, folder, revision string) (hub.Commit, error)
	Keep(ctx context.Context, folder, name, commit string) error
	Changes(ctx context.Context, folder, old, new string) ([]hub.CommitChange, error)
	Within(ctx context.Context, folder, commit, of string) (bool, error)
	File(ctx context.Context, folder, commit, name string) ([]byte, error)
	OnTarget(ctx context.Context, folder, commit string) (bool, error)
	Before(ctx context.Context, folder, commit string, most int) ([]hub.Commit, error)
}

// A DistantRepositories reads repositories of several machines for the service of checks: one under
// a root of this machine here, one of another machine through a hub there. While no hub runs there,
// the error has CodeUnreachable and names the machine.
type DistantRepositories struct {
	here    Repositories
	distant *Distant
}

// The questions about a repository. They travel between hubs and are never renamed.
const (
	askFind     = "find"
	askFetch    = "fetch"
	askKeep     = "keep"
	askChanges  = "changes"
	askWithin   = "within"
	askFile     = "file"
	askOnTarget = "on_target"
	askBefore   = "before"
)

// repositoryFacts are the answer to a question about a repository. Members that the question does
// not ask for are absent.
type repositoryFacts struct {
	Found   hub.Repository     `json:"found,omitzero"`
	Commits []hub.Commit       `json:"commits,omitempty"`
	Changes []hub.CommitChange `json:"changes,omitempty"`
	Yes     bool               `json:"yes,omitempty"`
	File    []byte             `json:"file,omitempty"`
	HasFile bool               `json:"has_file,omitempty"`
}

// factsOf answers a question about a repository of this machine. The names are the arguments of the
// method of Repositories after the folder.
func factsOf(ctx context.Context, r Repositories, question, folder string, names []string) (*repositoryFacts, error) {
	var f repositoryFacts
	var err error
	name := func(i int) string {
		if i < len(names) {
			return names[i]
		}
		return ""
	}
	switch question {
	case askFind:
		f.Found, err = r.Find(ctx, folder)
	case askFetch:
		f.Commits = make([]hub.Commit, 1)
		f.Commits[0], err = r.Fetch(ctx, folder, name(0))
	case askKeep:
		err = r.Keep(ctx, folder, name(0), name(1))
	case askChanges:
		f.Changes, err = r.Changes(ctx, folder, name(0), name(1))
	case askWithin:
		f.Yes, err = r.Within(ctx, folder, name(0), name(1))
	case askFile:
		f.File, err = r.File(ctx, folder, name(0), name(1))
		f.HasFile = f.File != nil
	case askOnTarget:
		f.Yes, err = r.OnTarget(ctx, folder, name(0))
	case askBefore:
		most, _ := strconv.Atoi(name(1))
		f.Commits, err = r.Before(ctx, folder, name(0), most)
	default:
		err = hub.Errorf(hub.CodeNotEnabled, "evidence.inspect", "unknown question %q: the other hub is a newer version", question)
	}
	return &f, err
}

// ask puts a question about the repository around a folder to the machine of the folder.
func (d DistantRepositories) ask(ctx context.Context, question, folder string, names ...string) (repositoryFacts, error) {
	machine, err := d.distant.machine(ctx, folder)
	if err != nil {
		return repositoryFacts{}, err
	}
	if machine == "" {
		f, err := factsOf(ctx, d.here, question, folder, names)
		return *f, err
	}
	f := d.distant.inspect(ctx, folder, "", inspection{Method: "repository", Other: question, Path: folder, Names: names})
	return valueOf(f.Repository, f.err())
}

// Find is that of Repositories, on the machine of the folder.
func (d DistantRepositories) Find(ctx context.Context, folder string) (hub.Repository, error) {
	f, err := d.ask(ctx, askFind, folder)
	return f.Found, err
}

// Fetch is that of Repositories, on the machine of the folder.
func (d DistantRepositories) Fetch(ctx context.Context, folder, revision string) (hub.Commit, error) {
	f, err := d.ask(ctx, askFetch, folder, revision)
	if err != nil || len(f.Commits) != 1 {
		return hub.Commit{}, err
	}
	return f.Commits[0], nil
}

// Keep is that of Repositories, on the machine of the folder.
func (d DistantRepositories) Keep(ctx context.Context, folder, name, commit string) error {
	_, err := d.ask(ctx, askKeep, folder, name, commit)
	return err
}

// Changes is that of Repositories, on the machine of the folder.
func (d DistantRepositories) Changes(ctx context.Context, folder, old, new string) ([]hub.CommitChange, error) {
	f, err := d.ask(ctx, askChanges, folder, old, new)
	return f.Changes, err
}

// Within is that of Repositories, on the machine of the folder.
func (d DistantRepositories) Within(ctx context.Context, folder, commit, of string) (bool, error) {
	f, err := d.ask(ctx, askWithin, folder, commit, of)
	return f.Yes, err
}

// File is that of Repositories, on the machine of the folder.
func (d DistantRepositories) File(ctx context.Context, folder, commit, name string) ([]byte, error) {
	f, err := d.ask(ctx, askFile, folder, commit, name)
	if f.HasFile && f.File == nil {
		f.File = []byte{}
	}
	return f.File, err
}

// OnTarget is that of Repositories, on the machine of the folder.
func (d DistantRepositories) OnTarget(ctx context.Context, folder, commit string) (bool, error) {
	f, err := d.ask(ctx, askOnTarget, folder, commit)
	return f.Yes, err
}

// Before is that of Repositories, on the machine of the folder.
func (d DistantRepositories) Before(ctx context.Context, folder, commit string, most int) ([]hub.Commit, error) {
	f, err := d.ask(ctx, askBefore, folder, commit, strconv.Itoa(most))
	return f.Commits, err
}
