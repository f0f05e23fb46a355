package forge

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// gitlab is GitLab.
type gitlab struct{}

func (gitlab) api() string { return "https://gitlab.com/api/v4" }

func (gitlab) parse(h Hook) (hub.Event, error) {
	return parseGitLab(h.Header.Get("X-Gitlab-Event"), h.Body)
}

// ids returns GitLab's id, which is the same for all tries of a delivery, and signed if the source has a
// signing token, in Webhook-Id. Requests of servers that are too old for it are known by the body alone.
func (gitlab) ids(h http.Header, body string) []string {
	if key := first(h, standardID, "Idempotency-Key"); key != "" {
		return []string{idOf(key)}
	}
	return []string{body}
}

// verify checks X-Gitlab-Token, which is the secret itself, or with a signing token, which begins with
// whsec_, Webhook-Signature: the HMAC-SHA256 of Webhook-Id, a full stop, Webhook-Timestamp, a full stop
// and the body, as v1, and base64. A request that has a signing token in X-Gitlab-Token is refused.
func (gitlab) verify(secret string, header http.Header, body []byte, now time.Time) bool {
	if isSigningToken(secret) {
		return verifyStandard(secret, header, body, now)
	}
	// Hashes have one length, so that the comparison tells nothing about that of the secret.
	given := sha256.Sum256([]byte(single(header, "X-Gitlab-Token")))
	want := sha256.Sum256([]byte(secret))
	return hmac.Equal(given[:], want[:])
}

func (gitlab) feeds(repo string) []feed {
	project := "/projects/" + url.PathEscape(repo)
	return []feed{
		{project + "/events?per_page=100", gitlabFeed, false},
		{project + "/pipelines?per_page=50", pipelineFeed, true},
	}
}

func (gitlab) authorize(h http.Header, token string) { h.Set("PRIVATE-TOKEN", token) }

// The form of Standard Webhooks (standardwebhooks.com), in which GitLab signs.
const (
	signingPrefix   = "whsec_" // of a signing token; the key follows in base64
	standardID      = "Webhook-Id"
	standardTime    = "Webhook-Timestamp"
	standardSums    = "Webhook-Signature" // a list with spaces, such as v1,BASE64
	maxStandardSums = 10
)

// isSigningToken reports whether the secret of a source is a signing token of GitLab.
func isSigningToken(secret string) bool { return strings.HasPrefix(secret, signingPrefix) }

// signingKey returns the key of a signing token; nil if it has none.
func signingKey(token string) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(token, signingPrefix))
	if err != nil || len(key) < minSigningKey {
		return nil
	}
	return key
}

// minSigningKey is the least number of bytes of a signing key; GitLab's have 32.
const minSigningKey = 16

func (gitlab) checkSecret(secret string) error {
	if isSigningToken(secret) && signingKey(secret) == nil {
		return hub.Errorf(hub.CodeInvalid, "forge.CheckSecret", "the signing token is not %s and a key in base64", signingPrefix).
			WithHint("copy it again from the webhook's settings on GitLab")
	}
	return nil
}

// verifyStandard checks a signature with a signing token. A webhook whose token is being changed has
// several signatures, of which one must be right.
func verifyStandard(token string, header http.Header, body []byte, now time.Time) bool {
	key := signingKey(token)
	id, seconds := single(header, standardID), single(header, standardTime)
	if key == nil || id == "" || !isRecent(seconds, now) {
		return false
	}
	want := sum(string(key), signedContent(id, seconds, body))
	all := strings.Fields(single(header, standardSums))
	return slices.ContainsFunc(all[:min(len(all), maxStandardSums)], func(one string) bool {
		text, isSHA256 := strings.CutPrefix(one, "v1,")
		got, err := base64.StdEncoding.DecodeString(text)
		return isSHA256 && err == nil && hmac.Equal(got, want)
	})
}

// A gitlabBody has the members of the events of GitLab that are read.
type gitlabBody struct {
	Kind    string `json:"object_kind"`
	Project struct {
		Path   string `json:"path_with_namespace"`
		WebURL string `json:"web_url"`
	} `json:"project"`
	User struct { // who acted
		ID       int64  `json:"id"`
		Username string `json:"username"`
	} `json:"user"`

	// Of a push.
	Ref      string `json:"ref"`
	After    string `json:"after"`
	UserName string `json:"user_username"`
	Commits  []struct {
		ID      string `json:"id"`
		Message string `json:"message"`
		URL     string `json:"url"`
	} `json:"commits"`

	// Of a job.
	SHA         string `json:"sha"`
	BuildName   string `json:"build_name"`
	BuildStatus string `json:"build_status"`
	Reason      string `json:"build_failure_reason"`

	// Of a release, its name; of a job, whether Ref is one.
	Tag any `json:"tag"`

	// Of a release.
	Name        string `json:"name"`
	Description string `json:"description"`
	URL         string `json:"url"`
	Action      string `json:"action"`

	Object  gitlabObject  `json:"object_attributes"`
	Request *gitlabObject `json:"merge_request"`
	Issue   *gitlabObject `json:"issue"`
	Commit  *struct {
		ID string `json:"id"`
	} `json:"commit"`
}

// A gitlabObject is the merge request, issue, note or pipeline that an event is about.
type gitlabObject struct {
	Title        string `json:"title"`
	Description  string `json:"description"`
	Note         string `json:"note"`
	URL          string `json:"url"`
	Action       string `json:"action"`
	State        string `json:"state"`
	Status       string `json:"status"`
	AuthorID     int64  `json:"author_id"`
	Ref          string `json:"ref"`
	Tag          bool   `json:"tag"` // Ref is one
	SHA          string `json:"sha"`
	SourceBranch string `json:"source_branch"`
	SourceID     int64  `json:"source_project_id"`
	TargetID     int64  `json:"target_project_id"`
	Source       struct {
		Path string `json:"path_with_namespace"`
	} `json:"source"`
	Last struct {
		ID string `json:"id"`
	} `json:"last_commit"`
}

// parseGitLab returns the event of a webhook of GitLab. header is the value of X-Gitlab-Event.
//
// GitLab does not say whether an actor is a member of the project. Only pushes, which need the
// right to push, count as acts of members; other actors are members if the operator lists them. It
// names the actor and not the author of a text: the words of another person are left out, so that a
// member who labels or closes the text of a stranger does not vouch for it.
func parseGitLab(header string, body []byte) (hub.Event, error) {
	var b gitlabBody
	if err := decode(body, &b); err != nil {
		return hub.Event{}, err
	}
	name := cmp.Or(b.Kind, strings.ToLower(strings.TrimSuffix(header, " Hook")))
	e := hub.Event{Kind: hub.EventOther, Name: name, State: b.Object.Action, Repository: b.Project.Path, Actor: cmp.Or(b.User.Username, b.UserName), URL: cmp.Or(b.Object.URL, b.Project.WebURL)}
	e.Member = ownsPath(e.Actor, e.Repository)

	switch name {
	case "push", "tag_push":
		b.push(&e)
	case "pipeline":
		e.Kind = hub.EventCI
		e.State = b.Object.Status
		e.Commit = b.Object.SHA
		e.Title = "pipeline"
		if !b.Object.Tag {
			e.Branch = b.Request.foreign(branchOf(b.Object.Ref))
		}
	case "build":
		e.Kind = hub.EventCI
		e.State = b.BuildStatus
		if b.Tag != true {
			e.Branch = branchOf(b.Ref)
		}
		e.Commit = b.SHA
		e.Title = b.BuildName
		e.Text = b.Reason
	case "merge_request":
		e.Kind = hub.EventChange
		b.words(&e)
		b.Object.head(&e)
		if isVerdict := e.State == "approved" || e.State == "unapproved"; isVerdict {
			e.Kind = hub.EventReview
			e.Title = b.Object.Title
			e.Text = ""
		}
	case "issue", "work_item":
		e.Kind = hub.EventIssue
		b.words(&e)
	case "note":
		b.note(&e)
	case "release":
		e.Kind = hub.EventRelease
		e.State = b.Action
		e.Title = cmp.Or(b.Name, textOf(b.Tag))
		e.Text = b.Description
		e.URL = cmp.Or(b.URL, e.URL)
		e.Member = true // nobody else can release
	}
	return e, nil
}

// isOwn reports whether the actor wrote the text of the event, as far as GitLab tells.
func (b gitlabBody) isOwn() bool {
	isTold := b.User.ID != 0 && b.Object.AuthorID != 0
	return !isTold || b.User.ID == b.Object.AuthorID
}

// words sets the title and the text of a merge request or an issue, if the actor wrote them.
func (b gitlabBody) words(e *hub.Event) {
	if b.isOwn() {
		e.Title = b.Object.Title
		e.Text = b.Object.Description
	}
}

// ownsPath reports whether an actor is the owner of a repository by its path.
func ownsPath(actor, path string) bool {
	owner, _, ok := strings.Cut(path, "/")
	return ok && actor != "" && strings.EqualFold(owner, actor)
}

// push sets the members of a push of a branch or a tag.
func (b gitlabBody) push(e *hub.Event) {
	e.Kind = hub.EventPush
	e.Member = true
	e.State = "pushed"
	e.Commit = b.After
	e.Branch = branchOf(b.Ref)
	if isTag(b.Ref) {
		e.Kind = hub.EventRelease
		e.Branch = ""
		e.Title = strings.TrimPrefix(b.Ref, "refs/tags/")
	}
	if n := len(b.Commits); n > 0 {
		last := b.Commits[n-1]
		e.Title = cmp.Or(e.Title, firstLine(last.Message))
		e.Text = last.Message
		e.URL = cmp.Or(last.URL, e.URL)
	}
}

// head sets the branch and the commit of a merge request.
func (o *gitlabObject) head(e *hub.Event) {
	e.Commit = o.Last.ID
	e.Branch = o.foreign(o.SourceBranch)
}

// foreign returns the name of the branch of a merge request, with the project if that is a fork, so
// that it is not taken for one of the repository. o may be nil.
func (o *gitlabObject) foreign(branch string) string {
	if o == nil || o.SourceID == o.TargetID {
		return branch
	}
	return cmp.Or(o.Source.Path, "fork") + ":" + branch
}

// note sets the members of a comment.
func (b gitlabBody) note(e *hub.Event) {
	e.Kind = hub.EventComment
	e.State = cmp.Or(e.State, "created")
	if b.isOwn() {
		e.Text = b.Object.Note
	}
	switch {
	case b.Request != nil:
		e.Title = b.Request.Title
		b.Request.head(e)
	case b.Issue != nil:
		e.Title = b.Issue.Title
	case b.Commit != nil:
		e.Commit = b.Commit.ID
	}
}
