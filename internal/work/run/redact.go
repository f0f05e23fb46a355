package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// redacted replaces a secret.
const redacted = "[redacted]"

// minSecret is the length from which a value counts as a secret. Shorter values
// would remove words from the agent's text.
const minSecret = 8

// secretName matches the names of environment variables that hold secrets.
var secretName = pattern.New(`(?i)(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH)(_|$)`)

// secretChar matches a character of a token.
const secretChar = `[-A-Za-z0-9_.~+/=]`

// secretForm matches tokens that are secrets by their form: bearer tokens, keys of
// a hub, and keys of services that mark theirs. The first group stays. A match
// without a digit is a word.
var secretForm = pattern.New(`((?:Bearer|bearer|BEARER|Basic|basic) )` + secretChar + `{8,}|(?:` +
	`cacp_sk_live_` + secretChar + `{8,}|sk-` + secretChar + `{16,}|(?:gh[pousr]_|github_pat_)` + secretChar + `{20,}|` +
	`xox[bpa]-` + secretChar + `{10,}|AKIA` + secretChar + `{16,}|AIza` + secretChar + `{30,})`)

// A Redactor removes secrets from text: those that it was given, plain and as JSON
// encodes them, and tokens with the form of one. It does not find a secret that an
// agent splits or encodes in another way.
type Redactor struct {
	known [][]byte // the longest first
}

// NewRedactor returns a Redactor for the secrets given and those in the environment
// of this process.
func NewRedactor(secrets ...string) *Redactor {
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		if secretName().MatchString(name) && !filepath.IsAbs(value) { // the path of a secret is none
			secrets = append(secrets, value)
		}
	}
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		if quoted, err := json.Marshal(s); err == nil {
			r.known = append(r.known, quoted[1:len(quoted)-1])
		}
		r.known = append(r.known, []byte(s))
	}
	slices.SortFunc(r.known, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b)) })
	r.known = slices.CompactFunc(r.known, bytes.Equal)
	return r
}

// Redact returns text without secrets. JSON stays JSON.
func (r *Redactor) Redact(text []byte) []byte {
	for _, secret := range r.known {
		text = bytes.ReplaceAll(text, secret, []byte(redacted))
	}
	return secretForm().ReplaceAllFunc(text, func(token []byte) []byte {
		if !bytes.ContainsAny(token, "0123456789") {
			return token
		}
		mark := token[:0]
		if i := bytes.IndexByte(token, ' '); i >= 0 {
			mark = token[:i+1]
		}
		return append(slices.Clip(mark), redacted...)
	})
}
