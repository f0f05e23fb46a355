package forge

import (
	"cmp"
	"strings"

	"github.com/parley-agents/parley/hub"
)

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
