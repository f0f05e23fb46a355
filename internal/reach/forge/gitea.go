package forge

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// gitea is Gitea, and Forgejo with its own names of headers.
type gitea struct{ anySecret }

func (gitea) api() string { return "" }

func (gitea) parse(h Hook) (hub.Event, error) {
	return parseGitea(first(h.Header, "X-Gitea-Event", "X-Forgejo-Event"), h.Body)
}

func (gitea) ids(h http.Header, body string) []string {
	return idBeside(first(h, "X-Gitea-Delivery", "X-Forgejo-Delivery"), body)
}

// verify checks X-Gitea-Signature: the HMAC-SHA256 of the body in hexadecimal.
func (gitea) verify(secret string, header http.Header, body []byte, _ time.Time) bool {
	text := single(header, "X-Gitea-Signature")
	if text == "" {
		text = single(header, "X-Forgejo-Signature")
	}
	return sameSum(text, sum(secret, body))
}

func (gitea) feeds(repo string) []feed {
	return []feed{
		{"/repos/" + repo + "/activities/feeds?limit=50", giteaFeed, false},
		{"/repos/" + repo + "/actions/tasks?limit=50", runsFeed, true},
	}
}

func (gitea) authorize(h http.Header, token string) { h.Set("Authorization", "token "+token) }

// A giteaReview is the review in an event of Gitea.
type giteaReview struct {
	Type    string `json:"type"`
	Content string `json:"content"`
}

// parseGitea returns the event of a webhook of Gitea or Forgejo, whose bodies have the names of
// GitHub's. name is the value of X-Gitea-Event.
//
// Gitea does not say whether an author is a member of the repository. Pushes and releases, which
// need the right to write, count as acts of members, and so does everything by the owner; other
// actors are members if the operator lists them.
func parseGitea(name string, body []byte) (hub.Event, error) {
	var more struct {
		Review     *giteaReview `json:"review"`
		CompareURL string       `json:"compare_url"`
	}
	if err := decode(body, &more); err != nil {
		return hub.Event{}, err
	}

	// A review of Gitea has other members than one of GitHub, so it is not read as one.
	kind, verdict, isReview := giteaVerdict(name)
	var b githubBody
	if err := decode(body, &b); err != nil {
		return hub.Event{}, err
	}
	b.Compare = more.CompareURL
	b.Review = nil
	e := githubEvent(cmp.Or(kind, name), b)
	e.Name = name
	if isReview {
		e.Kind = hub.EventReview
		e.State = verdict
		e.Actor = b.Sender.Login
		e.Text = ""
		if more.Review != nil {
			e.Text = more.Review.Content
		}
	}
	mayWrite := e.Kind == hub.EventPush || e.Kind == hub.EventRelease
	e.Member = mayWrite || ownsPath(e.Actor, e.Repository)
	return e, nil
}

// giteaVerdict returns the name that GitHub has for an event about a pull request, and the verdict
// of a review.
func giteaVerdict(name string) (kind, verdict string, isReview bool) {
	switch {
	case strings.HasSuffix(name, "_approved"):
		return "pull_request", "approved", true
	case strings.HasSuffix(name, "_rejected"):
		return "pull_request", "changes_requested", true
	case name == "pull_request_review_comment":
		return "pull_request", "commented", true
	case name == "pull_request_comment":
		return "issue_comment", "", false
	case strings.HasPrefix(name, "pull_request"):
		return "pull_request", "", false
	case strings.HasPrefix(name, "issue_") && name != "issue_comment":
		return "issues", "", false
	}
	return "", "", false
}
