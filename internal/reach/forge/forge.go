// Package forge reads the events of code hosts: GitHub, GitLab, Gitea with Forgejo, and programs
// that use the form of this hub.
//
// [Verify] checks the signature of a webhook in the vendor's own form, and [Parse] turns its body
// into a hub.Event. [Client] asks the API of a vendor for the events of a repository, for hubs that
// no webhook reaches. All three return the same nouns, so that nobody above knows the vendors.
//
// A right signature says that the vendor sent a request. It says nothing about the person whose
// words are in it: Parse tells whether the vendor calls the author a member of the repository.
//
// The package decides nothing and stores nothing. It is tested with bodies in the documented
// shapes of the vendors; no request of a real vendor was recorded.
package forge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A Hook is one request of a webhook, whose signature is right.
type Hook struct {
	Vendor hub.EventVendor
	Header http.Header
	Body   []byte
	Fields map[string]string // of a generic source: members of an event by their JSON pointers
}

// A vendor is all that the hub knows of one kind of sender.
type vendor interface {
	// verify checks that a request was signed with the secret, in a time that does not depend on the
	// signature.
	verify(secret string, header http.Header, body []byte, now time.Time) bool
	// parse returns the event of a request.
	parse(h Hook) (hub.Event, error)
	// ids returns the names by which a repetition of the request is known. body is the one that follows
	// from the signed body.
	ids(h http.Header, body string) []string
	// checkSecret refuses a secret that the vendor cannot have given out.
	checkSecret(secret string) error

	// api returns the address of the vendor's API; "" if it has none that all use.
	api() string
	// feeds returns the lists of the API with the events of a repository; none if it has no API.
	feeds(repo string) []feed
	// authorize adds the token of a question.
	authorize(h http.Header, token string)
}

// vendors has a row for each of hub.EventVendors.
var vendors = map[hub.EventVendor]vendor{
	hub.VendorGitHub:  github{},
	hub.VendorGitLab:  gitlab{},
	hub.VendorGitea:   gitea{},
	hub.VendorGeneric: generic{},
}

// pushOnly is the part of a vendor without an API.
type pushOnly struct{}

func (pushOnly) api() string                   { return "" }
func (pushOnly) feeds(string) []feed           { return nil }
func (pushOnly) authorize(http.Header, string) {}

// anySecret is the part of a vendor whose users choose the secret.
type anySecret struct{}

func (anySecret) checkSecret(string) error { return nil }

// Parse returns the event of a webhook, without its source. It reports CodeInvalid for a body that
// is not in the form of the vendor. A kind of event that it does not know is hub.EventOther, with
// the members that all events of the vendor have.
func Parse(h Hook) (hub.Event, error) {
	v, ok := vendors[h.Vendor]
	if !ok {
		return hub.Event{}, hub.Errorf(hub.CodeInvalid, "forge.Parse", "unknown vendor %q", h.Vendor)
	}
	e, err := v.parse(h)
	if err != nil {
		return hub.Event{}, hub.Errorf(hub.CodeInvalid, "forge.Parse", "the body is not in the form of %s: %v", h.Vendor, err)
	}

	sum := sha256.Sum256(h.Body)
	e.Deliveries = v.ids(h.Header, "body:"+hex.EncodeToString(sum[:]))
	return bounded(e), nil
}

// idBeside returns the ids of a request whose header with an id is not signed: the hash of the signed
// body is an id, too, so that a request which somebody recorded cannot come again under another id.
func idBeside(id, body string) []string {
	if id == "" {
		return []string{body}
	}
	return []string{idOf(id), body}
}

// idOf returns the id that a header has.
func idOf(header string) string { return "id:" + shorten.Bytes(header, maxDelivery) }

// first returns the first header that is set.
func first(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// Bounds of the members of an event, in bytes. With them an event fits into a message.
const (
	maxDelivery = 200
	maxName     = 100
	maxPath     = 250 // of a repository or a branch
	maxTitle    = 300
	maxURL      = 500
)

// commitPattern is the whole name of a commit.
var commitPattern = pattern.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// webPattern is an address that a person can open: printable ASCII without quotes and angles.
var webPattern = pattern.New(`^https?://[!#-;=?-~]+$`)

// bounded returns an event whose members are as long as they may be, with the task that its text
// names. A commit or an address of another form is left out.
func bounded(e hub.Event) hub.Event {
	if e.Task == "" {
		e.Task = taskIn(e.Text)
	}
	for _, p := range []*string{&e.Name, &e.State, &e.Actor, &e.Task} {
		*p = shorten.Bytes(oneLine(*p), maxName)
	}
	for _, p := range []*string{&e.Repository, &e.Branch} {
		*p = shorten.Bytes(oneLine(*p), maxPath)
	}
	e.Title = shorten.Bytes(oneLine(e.Title), maxTitle)
	e.Text = shorten.Bytes(strings.TrimSpace(e.Text), hub.MaxEventText)
	e.Commit = strings.ToLower(e.Commit)
	isCommit := commitPattern().MatchString(e.Commit) && strings.Trim(e.Commit, "0") != ""
	if !isCommit {
		e.Commit = ""
	}
	if len(e.URL) > maxURL || !webPattern().MatchString(e.URL) {
		e.URL = ""
	}
	return e
}

// taskLine finds the task in a commit message, a comment or a description.
var taskLine = pattern.New(`(?mi)^parley-task:[ \t]*([a-z0-9._-]{1,100})[ \t\r]*$`)

// taskIn returns the task of this hub that a text names in a line Parley-Task; "" if there is none.
func taskIn(text string) string {
	m := taskLine().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

// oneLine returns a text without line ends, other control characters and repeated spaces.
func oneLine(text string) string {
	isGap := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError }
	return strings.Join(strings.FieldsFunc(text, isGap), " ")
}

// branchOf returns the branch of a ref such as refs/heads/main.
func branchOf(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// isTag reports whether a ref is a tag.
func isTag(ref string) bool { return strings.HasPrefix(ref, "refs/tags/") }

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// decode reads a body. A member of another type than in the struct is left out: vendors use some
// names for different things in different events.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return nil // the rest was read
	}
	return err
}
