package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A Transport is how a CLI reaches the hub's tools.
type Transport string

// The transports.
//
// Stdio is the sounder of the two with every CLI here. The CLI starts
// "parley mcp", which comes up also while the hub is down and finds it again
// later, where CLIs give up on an address that does not answer when they
// start; and the key can stay in a file of its own, outside a configuration
// that people copy, sync and commit. HTTP is for machines without parley on
// them.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
)

// DefaultName is how the hub is called among a CLI's MCP servers.
const DefaultName = "parley"

// An Entry is a hub as a CLI is told about it.
type Entry struct {
	Name      string    // among the MCP servers; default DefaultName
	Transport Transport // default Stdio
	URL       string    // the hub's address, as in http://127.0.0.1:7420; for Stdio it may be empty, then parley finds the hub
	Command   string    // the parley program; Stdio only, default "parley"

	// The key is either in a file that parley reads, which Stdio only can do, or
	// it is written into the CLI's configuration. One of the two is required.
	KeyFile string
	Key     string

	Instruction string // one line for the CLI's instruction file; empty for none
	Force       bool   // plan also for a CLI that is not installed
}

// A server is an Entry in the words that all configurations share. Either
// program or url is set; empty members are not written.
type server struct {
	program string
	args    []string
	env     map[string]string
	url     string
	headers map[string]string
}

// A member is a part of an MCP server's entry. An empty value means that there
// must be no such member.
type member struct {
	name  string
	value any  // string, bool, []string or map[string]string
	once  bool // written with a new entry; later it is the user's
}

func (m member) empty() bool {
	switch v := m.value.(type) {
	case string:
		return v == ""
	case []string:
		return len(v) == 0
	case map[string]string:
		return len(v) == 0
	}
	return false
}

// either returns the word for the server's transport.
func (s server) either(stdio, http string) string {
	if s.url != "" {
		return http
	}
	return stdio
}

var nameForm = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func checkName(op, name string) (string, error) {
	if name == "" {
		name = DefaultName
	}
	if !nameForm().MatchString(name) {
		return "", hub.Errorf(hub.CodeInvalid, op, "%.64q is not a valid MCP server name", name).
			WithHint("use at most 64 letters, digits, - and _")
	}
	return name, nil
}

// check sets defaults and refuses values that cannot be written. The
// texts of its errors never hold the key.
func (e Entry) check(op string) (_ Entry, err error) {
	if e.Name, err = checkName(op, e.Name); err != nil {
		return Entry{}, err
	}
	e.Transport = cmp.Or(e.Transport, Stdio)
	e.Command = cmp.Or(e.Command, "parley")
	problem := cmp.Or(e.transportProblem(), e.textProblem(), addressProblem(e.URL))
	if problem != "" {
		return Entry{}, hub.Errorf(hub.CodeInvalid, op, "%s", problem)
	}
	e.URL = strings.TrimRight(e.URL, "/")
	return e, nil
}

// transportProblem says why the transport does not fit with the key; "" if it does.
func (e Entry) transportProblem() string {
	switch {
	case e.Transport != Stdio && e.Transport != HTTP:
		return fmt.Sprintf("unknown transport %q: use %s or %s", e.Transport, Stdio, HTTP)
	case e.Transport == HTTP && e.URL == "":
		return "the hub's address is required"
	case e.Transport == HTTP && e.KeyFile != "":
		return "over HTTP the key must be in the CLI's configuration, not in a file"
	case (e.Key == "") == (e.KeyFile == ""):
		return "exactly one of key and key file is required"
	case strings.ContainsFunc(e.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "the key has characters that are not valid in a header"
	}
	return ""
}

// textProblem says which text cannot be written into the file of a CLI; "" if all can.
func (e Entry) textProblem() string {
	for _, line := range []struct{ what, text string }{
		{"command", e.Command}, {"key file", e.KeyFile}, {"instruction", e.Instruction},
	} {
		if strings.ContainsFunc(line.text, unicode.IsControl) || !utf8.ValidString(line.text) {
			return fmt.Sprintf("the %s must be one line of text without control characters", line.what)
		}
	}
	if e.KeyFile != "" && !filepath.IsAbs(e.KeyFile) {
		return "the key file must be an absolute path: the CLI can start in any folder"
	}
	if strings.Contains(e.Instruction, "<!--") || strings.Contains(e.Instruction, "-->") {
		return "the instruction must not contain a comment"
	}
	return ""
}

// addressProblem says why a text is not the address of a hub; "" if it is, or if there is none.
func addressProblem(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	plain := err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	isAddress := plain && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	if !isAddress {
		return "the hub's address must look like http://127.0.0.1:7420, without a user, a query or a fragment"
	}
	return ""
}

// server translates an entry that was checked.
func (e Entry) server() server {
	if e.Transport == HTTP {
		return server{url: e.URL + "/mcp", headers: map[string]string{"Authorization": "Bearer " + e.Key}}
	}
	s := server{program: e.Command, args: []string{"mcp"}, env: map[string]string{}}
	if e.KeyFile != "" {
		s.args = append(s.args, "--key-file", e.KeyFile)
	} else {
		s.env["PARLEY_KEY"] = e.Key
	}
	if e.URL != "" {
		s.env["PARLEY_URL"] = e.URL
	}
	return s
}
