package fleet

import (
	"bytes"
	"encoding/json"
	"os"
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

// secretShape finds what has the form of a secret wherever it stands: bearer
// tokens, this hub's keys, and keys of services that mark theirs.
var secretShape = regexp.MustCompile(`(?i:\b(bearer|basic)([ +]|\\u0020)+)[A-Za-z0-9._~+/=-]{8,}|cacp_sk_live_[A-Za-z0-9_-]{8,}` +
	`|\bsk-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bxox[abposr]-[A-Za-z0-9-]{10,}|\bAKIA[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}`)

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
		if name, value := variable(e); secretName.MatchString(name) {
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
	if !secretShape.Match(text) {
		return text
	}
	return secretShape.ReplaceAll(text, []byte("${1}${2}"+redacted))
}

func variable(e string) (name, value string) {
	name, value, _ = strings.Cut(e, "=")
	return name, value
}
