package forge

import (
	"cmp"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// github is GitHub.
type github struct{ anySecret }

func (github) api() string { return "https://api.github.com" }

func (github) parse(h Hook) (hub.Event, error) { return parseGitHub(h.Header, h.Body) }

func (github) ids(h http.Header, body string) []string {
	return idBeside(h.Get("X-GitHub-Delivery"), body)
}

// verify checks X-Hub-Signature-256: sha256= and the HMAC-SHA256 of the body in hexadecimal.
func (github) verify(secret string, header http.Header, body []byte, _ time.Time) bool {
	text, isSHA256 := strings.CutPrefix(single(header, "X-Hub-Signature-256"), "sha256=")
	return isSHA256 && sameSum(text, sum(secret, body))
}

func (github) feeds(repo string) []feed {
	return []feed{
		{"/repos/" + repo + "/events?per_page=100", githubFeed, false},
		{"/repos/" + repo + "/actions/runs?status=completed&per_page=50", runsFeed, true},
	}
}

func (github) authorize(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }

// An account is a user or an organization of GitHub or Gitea.
type account struct {
	Login string `json:"login"`
}

// A repository is a repository of GitHub or Gitea.
type repository struct {
	FullName string `json:"full_name"`
	HTMLURL  string `json:"html_url"`
	URL      string `json:"url"` // in the API; lists of events have no full name
}

// path returns owner/name of a repository; "" if it is not told.
func (r repository) path() string {
	_, path, _ := strings.Cut(r.URL, "/repos/")
	return cmp.Or(r.FullName, path)
}

// A post is an issue, a comment, a review or a release: a text with an author.
type post struct {
	Number      int     `json:"number"`
	Title       string  `json:"title"`
	Name        string  `json:"name"`
	Body        string  `json:"body"`
	HTMLURL     string  `json:"html_url"`
	State       string  `json:"state"`
	User        account `json:"user"`
	Association string  `json:"author_association"`
	CommitID    string  `json:"commit_id"`
	TagName     string  `json:"tag_name"`
	Target      string  `json:"target_commitish"`
}

// A change is a pull request.
type change struct {
	post
	Merged bool `json:"merged"`
	Head   struct {
		Ref   string     `json:"ref"`
		SHA   string     `json:"sha"`
		Label string     `json:"label"` // owner:branch of GitHub, also when the fork is gone
		Repo  repository `json:"repo"`
	} `json:"head"`
}

// A result is a run of a workflow, a suite of checks or a check.
type result struct {
	Name         string     `json:"name"`
	DisplayTitle string     `json:"display_title"`
	HeadBranch   string     `json:"head_branch"`
	HeadSHA      string     `json:"head_sha"`
	Status       string     `json:"status"`
	Conclusion   string     `json:"conclusion"`
	HTMLURL      string     `json:"html_url"`
	HeadRepo     repository `json:"head_repository"`
	Output       struct {
		Title   string `json:"title"`
		Summary string `json:"summary"`
	} `json:"output"`
	Suite struct {
		HeadBranch string `json:"head_branch"`
	} `json:"check_suite"`
}

// A githubBody has the members of the events of GitHub that are read.
type githubBody struct {
	Action     string     `json:"action"`
	Repository repository `json:"repository"`
	Sender     account    `json:"sender"`

	// Of a push.
	Ref     string `json:"ref"`
	After   string `json:"after"`
	Deleted bool   `json:"deleted"`
	Compare string `json:"compare"`
	Commits []struct {
		ID      string `json:"id"`
		Message string `json:"message"`
	} `json:"commits"`
	Head *struct {
		Message string `json:"message"`
		URL     string `json:"url"`
	} `json:"head_commit"`

	Issue   *post   `json:"issue"`
	Comment *post   `json:"comment"`
	Review  *post   `json:"review"`
	Release *post   `json:"release"`
	Change  *change `json:"pull_request"`

	Workflow *result `json:"workflow_run"`
	Job      *result `json:"workflow_job"`
	Check    *result `json:"check_run"`
	Suite    *result `json:"check_suite"`

	// Of a status.
	SHA         string `json:"sha"`
	State       string `json:"state"`
	Context     string `json:"context"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`
	Branches    []struct {
		Name string `json:"name"`
	} `json:"branches"`
}

// members are the associations of people who may change a repository.
var members = []string{"OWNER", "MEMBER", "COLLABORATOR"}

// parseGitHub returns the event of a webhook of GitHub, whose body is JSON or, as GitHub proposes
// for a new webhook, a form with JSON in it.
func parseGitHub(header http.Header, body []byte) (hub.Event, error) {
	if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return hub.Event{}, err
		}
		body = []byte(form.Get("payload"))
	}
	name := header.Get("X-GitHub-Event")
	var b githubBody
	if err := decode(body, &b); err != nil {
		return hub.Event{}, err
	}
	return githubEvent(name, b), nil
}

// githubEvent returns an event of GitHub by its name.
func githubEvent(name string, b githubBody) hub.Event {
	e := hub.Event{Kind: hub.EventOther, Name: name, State: b.Action, Repository: b.Repository.FullName, Actor: b.Sender.Login, URL: b.Repository.HTMLURL}
	switch {
	case name == "ping":
		e.Kind = hub.EventPing
	case name == "push":
		b.push(&e)
	case name == "status":
		b.status(&e)
	case name == "release" && b.Release != nil:
		e.Kind = hub.EventRelease
		write(&e, *b.Release)
		e.Actor = cmp.Or(e.Actor, b.Sender.Login) // a release names its author elsewhere
		e.Title = cmp.Or(b.Release.Name, b.Release.TagName)
		e.Member = true // nobody else can release
	case name == "issues" && b.Issue != nil:
		e.Kind = hub.EventIssue
		write(&e, *b.Issue)
	case name == "pull_request" && b.Change != nil:
		e.Kind = hub.EventChange
		write(&e, b.Change.post)
		b.head(&e)
		if b.Change.Merged && b.Action == "closed" {
			e.State = "merged"
		}
	case name == "pull_request_review" && b.Review != nil:
		e.Kind = hub.EventReview
		b.head(&e)
		write(&e, *b.Review)
		e.State = cmp.Or(b.Review.State, b.Action)
	case strings.HasSuffix(name, "_comment") && b.Comment != nil:
		e.Kind = hub.EventComment
		b.head(&e)
		write(&e, *b.Comment)
		if b.Issue != nil {
			e.Title = b.Issue.Title
			e.Task = cmp.Or(e.Task, b.Issue.task())
		}
		e.Commit = cmp.Or(e.Commit, b.Comment.CommitID)
	default:
		b.result(name, &e)
	}
	return e
}

// task returns the task that a description by a member names, so that comments below it are about
// that task, too.
func (p post) task() string {
	if !slices.Contains(members, p.Association) {
		return ""
	}
	return taskIn(p.Body)
}

// write sets the members of an event that follow from a text with an author. The author counts,
// not the sender of the event: the words are the author's. The author has no name if the account was
// deleted. Lists of events have pull requests without author and words, which are the sender's act.
func write(e *hub.Event, p post) {
	e.Title = cmp.Or(p.Title, e.Title)
	e.URL = cmp.Or(p.HTMLURL, e.URL)
	e.Text = p.Body
	e.Task = cmp.Or(taskIn(p.Body), e.Task)
	if hasWords := p.Title != "" || p.Body != ""; hasWords || p.User.Login != "" {
		e.Actor = p.User.Login
	}
	e.Member = slices.Contains(members, p.Association)
}

// head sets the branch, the commit, the title and the task of the pull request that an event is
// about. A branch of a fork is written as owner:branch, so that it is not taken for one of the
// repository; one of which the vendor does not say whose it is has no name.
func (b githubBody) head(e *hub.Event) {
	if b.Change == nil {
		return
	}
	e.Title = b.Change.Title
	e.Task = b.Change.task()
	head := b.Change.Head
	e.Commit = head.SHA
	owner, _, hasLabel := strings.Cut(head.Label, ":")
	switch {
	case head.Repo.path() != "":
		e.Branch = foreignBranch(head.Ref, head.Repo, b.Repository)
	case hasLabel && !ownsPath(owner, b.Repository.path()):
		e.Branch = head.Label
	case hasLabel:
		e.Branch = head.Ref
	}
}

// foreignBranch returns the name of a branch, with the owner if it is in another repository.
func foreignBranch(branch string, in, of repository) string {
	if branch == "" || in.path() == "" || strings.EqualFold(in.path(), of.path()) {
		return branch
	}
	owner, _, _ := strings.Cut(in.path(), "/")
	return owner + ":" + branch
}

// push sets the members of a push. Only people who may change the repository can push.
func (b githubBody) push(e *hub.Event) {
	e.Kind = hub.EventPush
	e.Member = true
	e.State = "pushed"
	e.Commit = b.After
	e.URL = cmp.Or(b.Compare, e.URL)
	e.Branch = branchOf(b.Ref)
	if isTag(b.Ref) {
		e.Kind = hub.EventRelease
		e.Branch = ""
		e.Title = strings.TrimPrefix(b.Ref, "refs/tags/")
	}
	if b.Deleted {
		e.State = "deleted"
	}
	if b.Head != nil {
		e.Title = cmp.Or(e.Title, firstLine(b.Head.Message))
		e.Text = b.Head.Message
	}
}

// status sets the members of the status of a commit.
func (b githubBody) status(e *hub.Event) {
	e.Kind = hub.EventCI
	e.State = b.State
	e.Commit = b.SHA
	e.Title = b.Context
	e.Text = b.Description
	e.URL = cmp.Or(b.TargetURL, e.URL)
	if len(b.Branches) == 1 {
		e.Branch = b.Branches[0].Name
	}
}

// result sets the members of a result of CI, if the event is one.
func (b githubBody) result(name string, e *hub.Event) {
	r := map[string]*result{"workflow_run": b.Workflow, "workflow_job": b.Job, "check_run": b.Check, "check_suite": b.Suite}[name]
	if r == nil {
		return
	}
	e.Kind = hub.EventCI
	e.State = cmp.Or(r.Conclusion, r.Status, b.Action)
	if isRequest := b.Action == "rerequested" || b.Action == "requested_action"; isRequest {
		e.State = b.Action // the conclusion is that of the run before
	}
	e.Commit = r.HeadSHA
	if r != b.Job { // which does not say whose branch it is: a fork may have one of the same name
		e.Branch = foreignBranch(cmp.Or(r.HeadBranch, r.Suite.HeadBranch), r.HeadRepo, b.Repository)
	}
	e.Title = cmp.Or(r.Name, name)
	e.URL = cmp.Or(r.HTMLURL, e.URL)
	e.Text = strings.TrimSpace(r.Output.Title + "\n" + r.Output.Summary)
}
