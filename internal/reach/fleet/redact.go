package fleet

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// redacted stands in the place of what was left out.
const redacted = "[redacted]"

// minSecret is how long a value must be to count as a secret. Shorter ones would
// take words out of what an agent says.
const minSecret = 8

// secretName finds variables whose values are secrets by how they are called.
var secretName = regexp.MustCompile(`(?i)(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH)(_|$)`)

// A shape is how a secret looks wherever it stands: after what marks it there are
// so many characters of a token, one of them a digit.
type shape struct {
	mark string
	kept bool // the mark stays
	rest int  // characters that follow it, at least
}

// shapes are those of bearer tokens, of this hub's keys, and of keys of services
// that mark theirs.
var shapes = []shape{
	{"Bearer ", true, 8}, {"bearer ", true, 8}, {"BEARER ", true, 8}, {"Basic ", true, 8}, {"basic ", true, 8},
	{"cacp_sk_live_", false, 8}, {"sk-", false, 16}, {"ghp_", false, 20}, {"gho_", false, 20}, {"ghu_", false, 20}, {"ghs_", false, 20},
	{"ghr_", false, 20}, {"github_pat_", false, 20}, {"xoxb-", false, 10}, {"xoxp-", false, 10}, {"xoxa-", false, 10}, {"AKIA", false, 16}, {"AIza", false, 30},
}

// token returns how many bytes of a token text begins with, and whether there is a
// digit among them.
func token(text []byte) (n int, digit bool) {
	for ; n < len(text); n++ {
		switch c := text[n]; {
		case c >= '0' && c <= '9':
			digit = true
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == '~', c == '+', c == '/', c == '=':
		default:
			return n, digit
		}
	}
	return n, digit
}

// redact returns text without what has this shape.
func (s shape) redact(text []byte) []byte {
	var out []byte // what was looked at, if something was left out
	rest := text
	for {
		i := bytes.Index(rest, []byte(s.mark))
		if i < 0 {
			break
		}
		after := rest[i+len(s.mark):]
		n, digit := token(after)
		if n < s.rest || !digit {
			out, rest = append(out, rest[:i+len(s.mark)]...), after
			continue
		}
		out = append(out, rest[:i]...)
		if s.kept {
			out = append(out, s.mark...)
		}
		out, rest = append(out, redacted...), after[n:]
	}
	if out == nil {
		return text
	}
	return append(out, rest...)
}

// A Redactor takes secrets out of text: those that it was told, as they are and as
// JSON writes them, and what has the form of one. What an agent puts into pieces
// or codes in another way it cannot find.
type Redactor struct {
	known [][]byte // the longest first
}

// NewRedactor returns a Redactor for the secrets given, besides those in the
// environment of this process.
func NewRedactor(secrets ...string) *Redactor {
	for _, e := range os.Environ() {
		if name, value := variable(e); secretName.MatchString(name) && !filepath.IsAbs(value) { // where a secret lies is none
			secrets = append(secrets, value)
		}
	}
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		quoted, err := json.Marshal(s)
		if err == nil {
			r.known = append(r.known, quoted[1:len(quoted)-1])
		}
		r.known = append(r.known, []byte(s))
	}
	slices.SortFunc(r.known, func(a, b []byte) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return bytes.Compare(a, b)
	})
	r.known = slices.CompactFunc(r.known, bytes.Equal)
	return r
}

// Redact returns text without secrets. What was JSON still is.
func (r *Redactor) Redact(text []byte) []byte {
	for _, secret := range r.known {
		if bytes.Contains(text, secret) {
			text = bytes.ReplaceAll(text, secret, []byte(redacted))
		}
	}
	for _, s := range shapes {
		text = s.redact(text)
	}
	return text
}

func variable(e string) (name, value string) {
	name, value, _ = strings.Cut(e, "=")
	return name, value
}
