package hub

import (
	"net/url"
	"strings"
)

// ParseEndpoint checks the address of a hub as far as its text goes and returns
// it without a slash at the end.
func ParseEndpoint(s string) (string, error) {
	const op = "hub.ParseEndpoint"
	u, err := url.Parse(s)
	switch {
	case len(s) > 2048:
		return "", Errorf(CodeInvalid, op, "an endpoint has at most 2048 bytes")
	case err != nil:
		return "", Errorf(CodeInvalid, op, "%q is not a URL", s)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", Errorf(CodeInvalid, op, "%q is not an http or https URL", s)
	case u.Hostname() == "" || u.Opaque != "":
		return "", Errorf(CodeInvalid, op, "%q names no host", s)
	case u.User != nil:
		return "", Errorf(CodeInvalid, op, "an endpoint holds no user name and no password")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", Errorf(CodeInvalid, op, "an endpoint has no query and no fragment")
	}
	return strings.TrimRight(u.String(), "/"), nil
}
