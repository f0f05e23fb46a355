package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// What the published schema says in numbers and names.
const (
	maxTopic   = 200       // characters
	maxThread  = 128       // characters
	maxInteger = 1<<53 - 1 // what every reader of JSON can hold exactly
	minYear    = 1000      // four digits, and never the zero time
	maxYear    = 9999
)

// Members of the objects that the protocol defines. Those that were cut from
// it are refused rather than kept, and are listed so that no spelling of them
// slips through.
var (
	envelopeNames = []string{
		"id", "protocol", "version", "from", "to", "team", "thread_id", "reply_to", "type", "topic", "priority",
		"status", "sequence", "expires_at", "payload", "policy", "context", "created_at", "updated_at",
		cutWorkItem, cutSignedBy,
	}
	policyNames      = []string{"visibility", "sensitivity", "human_gate"}
	contextNames     = []string{"session_id", "external_refs", "artifacts"}
	externalRefNames = []string{"type", "value", "description", "version"}
	artifactRefNames = []string{"type", "path", "sha256", "description", "version", "size_bytes", "required"}
)

// Members that early drafts of the protocol had.
const (
	cutWorkItem = "work_item"
	cutSignedBy = "signed_by"
)

// DecodeEnvelope reads one envelope and checks all that Validate checks. It is
// stricter than encoding/json, because two readers must never disagree about
// what an envelope says: it refuses invalid UTF-8, a name that occurs twice in
// an object at any depth, and in the objects that the protocol defines also
// names that differ only in case, from each other or from a defined name.
//
// The payload comes back compacted, otherwise as it was. Unknown members of the
// envelope are kept in Extra; those inside policy, context and its references
// are allowed but dropped. Times are cut to the millisecond.
//
// Failures are reported as CodeInvalid, CodeUnknownType or CodePayloadTooLarge.
func DecodeEnvelope(raw []byte) (Envelope, error) {
	const op = "hub.DecodeEnvelope"
	var e Envelope
	r := newReader(op, "envelope", "", raw)
	defer r.free()
	if err := r.envelope(&e); err != nil {
		return Envelope{}, err
	}
	if err := r.end(); err != nil {
		return Envelope{}, err
	}
	if err := e.check(op); err != nil {
		return Envelope{}, err
	}
	return e, nil
}

// Validate checks e against the rules of the published envelope schema, and
// besides that the payload is strict JSON and not over MaxPayload. It does not
// look at what the payload says. Failures are reported as CodeInvalid,
// CodeUnknownType or CodePayloadTooLarge; the text names the member.
func (e Envelope) Validate() error {
	const op = "hub.Validate"
	if err := e.check(op); err != nil {
		return err
	}
	if err := checkWholePayload(op, e.Payload); err != nil {
		return err
	}
	if len(e.Payload) > MaxPayload {
		if n := len(compact(e.Payload)); n > MaxPayload {
			return tooLarge(op, n)
		}
	}
	if len(e.Extra) == 0 {
		return nil
	}
	r := newReader(op, "extra", "", e.Extra)
	defer r.free()
	empty := true
	err := r.strictObject(envelopeNames, func(name []byte) error {
		if slices.Contains(envelopeNames, string(name)) {
			return r.refuse("is not an unknown member")
		}
		empty = false
		return r.skip(name)
	})
	if err != nil {
		return err
	}
	if empty {
		return invalid(op, "extra", "has no member; leave it nil")
	}
	return r.end()
}

// StrictObject reports CodeInvalid unless raw is one JSON object in valid UTF-8
// in which no object at any depth has a name twice, and whose own names differ
// in more than case.
func StrictObject(raw []byte) error {
	r := newReader("hub.StrictObject", "input", "", raw)
	defer r.free()
	if err := r.strictObject(nil, r.skip); err != nil {
		return err
	}
	return r.end()
}

// CompactPayload returns a copy of raw without the blanks between its parts.
// Strings and numbers keep their bytes. It reports CodeInvalid unless raw is a
// JSON object in valid UTF-8 without duplicate names, and CodePayloadTooLarge
// when more than MaxPayload bytes are left.
func CompactPayload(raw []byte) (json.RawMessage, error) {
	const op = "hub.CompactPayload"
	if err := checkWholePayload(op, raw); err != nil {
		return nil, err
	}
	b := compact(raw)
	if len(b) > MaxPayload {
		return nil, tooLarge(op, len(b))
	}
	return b, nil
}

// maxSearchText bounds what a search looks at. Topic and payload of a valid
// envelope never reach it.
const maxSearchText = 8 << 10

// SearchText returns what a full-text search should look at: the topic and then
// the string values of the payload, not its names, each on a line. It is at
// most 8 KiB long. What is not strict JSON ends the search for values.
func SearchText(topic string, payload json.RawMessage) string {
	var b strings.Builder
	add := func(s string) bool {
		if s == "" {
			return true
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if room := maxSearchText - b.Len(); len(s) > room {
			for room > 0 && !utf8.RuneStart(s[room]) {
				room--
			}
			b.WriteString(s[:max(room, 0)])
			return false
		}
		b.WriteString(s)
		return true
	}
	if !add(topic) {
		return b.String()
	}
	r := newReader("hub.SearchText", "payload", "payload", payload)
	defer r.free()
	for {
		in, n := r.dec.StackIndex(r.dec.StackDepth())
		tok, err := r.dec.ReadToken()
		if err != nil {
			return b.String()
		}
		if isName := in == '{' && n%2 == 0; tok.Kind() == '"' && !isName && !add(tok.String()) {
			return b.String()
		}
	}
}

// check applies the rules that need only the members themselves. What the
// payload holds is left to those who read it.
func (e Envelope) check(op string) error {
	switch {
	case e.Protocol != Protocol:
		return invalid(op, "protocol", "%s is not %q", show(e.Protocol), Protocol)
	case !validVersion(e.Version):
		return invalid(op, "version", "%s is not a version 1.x.y of the protocol", show(e.Version))
	case !e.ID.Valid():
		return invalid(op, "id", "%s is not a lower-case UUIDv7", show(string(e.ID)))
	case !e.From.Valid():
		return invalid(op, "from", "%s is not the name of an agent", show(string(e.From)))
	}
	if err := checkTo(op, e.To); err != nil {
		return err
	}
	switch {
	case e.Type == "":
		return invalid(op, "type", "is required")
	case !e.Type.Known():
		return Errorf(CodeUnknownType, op, "type: there is no message type %s", show(string(e.Type)))
	case e.Team != "" && !AgentID(e.Team).Valid():
		return invalid(op, "team", "%s is not the name of a teamspace", show(e.Team))
	case e.ThreadID != "" && !validThread(e.ThreadID):
		return invalid(op, "thread_id", "%s is not 1 to %d letters, digits or . _ : @ / # + = ~ -", show(e.ThreadID), maxThread)
	case e.ReplyTo != "" && !e.ReplyTo.Valid():
		return invalid(op, "reply_to", "%s is not a lower-case UUIDv7", show(string(e.ReplyTo)))
	case !utf8.ValidString(e.Topic):
		return invalid(op, "topic", "is not valid UTF-8")
	case len(e.Topic) > maxTopic && utf8.RuneCountInString(e.Topic) > maxTopic:
		return invalid(op, "topic", "is longer than %d characters", maxTopic)
	case e.Sequence == nil && e.Type.Negotiates():
		return invalid(op, "sequence", "is required for %s", e.Type)
	case e.Sequence != nil && (*e.Sequence < 0 || *e.Sequence > maxInteger):
		return invalid(op, "sequence", "%d is not from 0 to %d", *e.Sequence, int64(maxInteger))
	case len(e.Payload) == 0:
		return invalid(op, "payload", "is required")
	case e.Policy == Policy{}:
		return invalid(op, "policy", "visibility, sensitivity and human_gate are required")
	}
	for _, err := range [...]error{
		checkEnum(op, "priority", e.Priority, Priorities),
		checkEnum(op, "status", e.Status, MessageStatuses),
		checkEnum(op, "policy.visibility", e.Policy.Visibility, Visibilities),
		checkEnum(op, "policy.sensitivity", e.Policy.Sensitivity, Sensitivities),
		checkEnum(op, "policy.human_gate", e.Policy.HumanGate, HumanGates),
		checkTime(op, "created_at", e.CreatedAt, true),
		checkTime(op, "updated_at", e.UpdatedAt, false),
		checkTime(op, "expires_at", e.ExpiresAt, false),
	} {
		if err != nil {
			return err
		}
	}
	if e.Context == nil {
		return nil
	}
	return e.Context.check(op)
}

func checkTo(op string, to []AgentID) error {
	if len(to) == 0 {
		return invalid(op, "to", "needs at least one recipient")
	}
	if len(to) == 1 && to[0] == Everyone {
		return nil
	}
	seen := map[AgentID]bool(nil)
	if len(to) > 32 {
		seen = make(map[AgentID]bool, len(to))
	}
	for i, id := range to {
		switch {
		case id == Everyone:
			return invalid(op, "to["+strconv.Itoa(i)+"]", "%q stands for everyone and must be the only recipient", "*")
		case !id.Valid():
			return invalid(op, "to["+strconv.Itoa(i)+"]", "%s is not the name of an agent", show(string(id)))
		case seen == nil && slices.Contains(to[:i], id), seen[id]:
			return invalid(op, "to["+strconv.Itoa(i)+"]", "%s is named twice", id)
		}
		if seen != nil {
			seen[id] = true
		}
	}
	return nil
}

func (c *Context) check(op string) error {
	if !utf8.ValidString(c.SessionID) {
		return invalid(op, "context.session_id", "is not valid UTF-8")
	}
	for i, x := range c.ExternalRefs {
		if member, problem := x.problem(); problem != "" {
			return invalid(op, fmt.Sprintf("context.external_refs[%d].%s", i, member), "%s", problem)
		}
	}
	for i, a := range c.Artifacts {
		if member, problem := a.problem(); problem != "" {
			return invalid(op, fmt.Sprintf("context.artifacts[%d].%s", i, member), "%s", problem)
		}
	}
	return nil
}

// problem returns the first member that is wrong and what is wrong with it.
func (x ExternalRef) problem() (member, problem string) {
	switch {
	case !slices.Contains(ExternalRefTypes, x.Type):
		return "type", notOneOf(x.Type, ExternalRefTypes)
	case !utf8.ValidString(x.Description):
		return "description", "is not valid UTF-8"
	case !utf8.ValidString(x.Version):
		return "version", "is not valid UTF-8"
	}
	return "value", targetProblem(x.Type, x.Value)
}

// problem returns the first member that is wrong and what is wrong with it.
func (a ArtifactRef) problem() (member, problem string) {
	switch {
	case !slices.Contains(ArtifactRefTypes, a.Type):
		return "type", notOneOf(a.Type, ArtifactRefTypes)
	case a.SHA256 != "" && !validSHA256(a.SHA256):
		return "sha256", show(a.SHA256) + " is not 64 lower-case hexadecimal digits"
	case a.SizeBytes != nil && (*a.SizeBytes < 0 || *a.SizeBytes > maxInteger):
		return "size_bytes", fmt.Sprintf("%d is not from 0 to %d", *a.SizeBytes, int64(maxInteger))
	case !utf8.ValidString(a.Description):
		return "description", "is not valid UTF-8"
	case !utf8.ValidString(a.Version):
		return "version", "is not valid UTF-8"
	}
	return "path", targetProblem(a.Type, a.Path)
}

// targetProblem says what is wrong with what a reference points at, or "".
func targetProblem(kind, target string) string {
	const scheme = "teamspace:"
	switch {
	case target == "":
		return "is required"
	case !utf8.ValidString(target):
		return "is not valid UTF-8"
	case len(target) >= len(scheme) && asciiFoldEqual(target[:len(scheme)], scheme):
		return "addresses with the scheme " + scheme + " are not part of the protocol; give an absolute path"
	case kind == "file" && !absolutePath(target):
		return show(target) + " is not an absolute path"
	case kind == "url" && !webAddress(target):
		return show(target) + " is not an http or https address"
	}
	return ""
}

func asciiFoldEqual(s, lower string) bool {
	for i := range len(lower) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// absolutePath takes the paths of every system for what they are, wherever
// this hub runs: sender and receiver may be on other machines.
func absolutePath(s string) bool {
	if s[0] == '/' {
		return true
	}
	c := s[0] | 0x20
	return len(s) >= 3 && c >= 'a' && c <= 'z' && s[1] == ':' && (s[2] == '\\' || s[2] == '/')
}

func webAddress(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "http://")
	}
	return ok && rest != "" && rest[0] != '/'
}

func validSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

func validThread(s string) bool {
	if len(s) > maxThread {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("._:@/#+=~-", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// validVersion reports whether s is 1.minor.patch.
func validVersion(s string) bool {
	rest, ok := strings.CutPrefix(s, "1.")
	if !ok {
		return false
	}
	minor, patch, ok := strings.Cut(rest, ".")
	if !ok {
		return false
	}
	for _, n := range [...]string{minor, patch} {
		if n == "" || len(n) > 9 || len(n) > 1 && n[0] == '0' {
			return false
		}
		for i := range len(n) {
			if n[i] < '0' || n[i] > '9' {
				return false
			}
		}
	}
	return true
}

func checkEnum[S ~string](op, path string, v S, all []S) error {
	if slices.Contains(all, v) {
		return nil
	}
	return invalid(op, path, "%s", notOneOf(v, all))
}

func notOneOf[S ~string](v S, all []S) string {
	if v == "" {
		return "is required"
	}
	var b strings.Builder
	b.WriteString(show(string(v)) + " is not one of ")
	for i, s := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}

func checkTime(op, path string, t Time, required bool) error {
	if t.IsZero() {
		if required {
			return invalid(op, path, "is required")
		}
		return nil
	}
	if y := t.UTC().Year(); y < minYear || y > maxYear {
		return invalid(op, path, "the year %d does not have four digits", y)
	}
	return nil
}

func invalid(op, path, format string, args ...any) error {
	return Errorf(CodeInvalid, op, "%s: "+format, append([]any{path}, args...)...)
}

func tooLarge(op string, n int) error {
	return Errorf(CodePayloadTooLarge, op, "payload: %d bytes are more than the %d allowed", n, MaxPayload).
		WithHint("store the content with `parley artifact put` and send the reference in context.artifacts")
}

// show quotes s for a message, cut to a length that people read.
func show(s string) string {
	const most = 40
	if len(s) <= most {
		return strconv.Quote(s)
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return strconv.Quote(s[:n]) + "…"
}

// checkWholePayload reports CodeInvalid unless raw is one strict object.
func checkWholePayload(op string, raw []byte) error { return checkObject(op, "payload", raw) }

// checkObject reports CodeInvalid unless the value of a member is one strict
// object.
func checkObject(op, member string, raw []byte) error {
	r := newReader(op, member, member, raw)
	defer r.free()
	if _, err := r.objectValue(); err != nil {
		return err
	}
	return r.end()
}

// compact copies valid JSON without the blanks between tokens.
func compact(raw []byte) json.RawMessage {
	out := make([]byte, 0, len(raw))
	inString := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case inString:
			if c == '\\' {
				out = append(out, c)
				i++
				c = raw[i]
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		}
		out = append(out, c)
	}
	return out
}

// A reader walks strictly through one JSON value. Its errors are *Error.
type reader struct {
	op     string
	whole  string // what an error about the value as a whole calls it
	prefix string // comes before every other path
	dec    jsontext.Decoder
	in     bytes.Buffer // what dec reads
	name   []byte       // of the member read last, in quotes
}

// readers are kept because a decoder grows its stacks anew otherwise.
var readers = sync.Pool{New: func() any { return new(reader) }}

func newReader(op, whole, prefix string, raw []byte) *reader {
	r := readers.Get().(*reader)
	r.op, r.whole, r.prefix, r.in = op, whole, prefix, *bytes.NewBuffer(raw)
	// The decoder reads straight from the buffer, and by default refuses
	// invalid UTF-8 and duplicate names.
	r.dec.Reset(&r.in)
	return r
}

// free gives r back. What was read must have been copied.
func (r *reader) free() {
	r.in, r.name = bytes.Buffer{}, nil
	r.dec.Reset(&r.in)
	readers.Put(r)
}

// end reports an error unless nothing but blanks is left.
func (r *reader) end() error {
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return invalid(r.op, r.whole, "is followed by something else")
	}
	return nil
}

// refuse reports what is wrong with the value read last.
func (r *reader) refuse(format string, args ...any) error {
	return invalid(r.op, r.path(r.dec.StackPointer()), format, args...)
}

// malformed reports an error of the decoder.
func (r *reader) malformed(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid(r.op, r.whole, "the JSON ends too early")
	case !errors.As(err, &s):
		return invalid(r.op, r.whole, "%v", err)
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalid(r.op, r.path(s.JSONPointer), "is there twice")
	}
	return invalid(r.op, r.path(s.JSONPointer), "%v at byte %d", s.Err, s.ByteOffset)
}

// path writes a pointer the way people do: context.artifacts[0].path.
func (r *reader) path(p jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(r.prefix)
	depth := 0
	for token := range p.Tokens() {
		if depth++; depth > 12 {
			b.WriteString("…")
			break
		}
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if quoted := show(token); quoted != `"`+token+`"` {
			token = quoted // long, or not plain text
		}
		b.WriteString(token)
	}
	if b.Len() == 0 {
		return r.whole
	}
	return b.String()
}

// token reads the next token and refuses it unless it is of the wanted kind.
func (r *reader) token(want jsontext.Kind) (jsontext.Token, error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return tok, r.malformed(err)
	}
	if got := tok.Kind(); got != want {
		return tok, r.refuse("must be %s, not %s", kindName(want), kindName(got))
	}
	return tok, nil
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "true or false"
	}
	return "null"
}

// object reads an object and calls member after each name, to read the value.
// The name is good until then.
func (r *reader) object(member func(name []byte) error) error {
	if _, err := r.token('{'); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		var err error
		if r.name, err = r.dec.ReadValue(); err != nil {
			return r.malformed(err)
		}
		name := r.name[1 : len(r.name)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			if name, err = jsontext.AppendUnquote(nil, r.name); err != nil {
				return r.malformed(err)
			}
		}
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := r.token('}')
	return err
}

// strictObject is object for what the protocol defines: it refuses names that
// differ only in case, from each other or from a known one.
func (r *reader) strictObject(known []string, member func(name []byte) error) error {
	var unknown map[string]bool // folded
	return r.object(func(name []byte) error {
		if slices.Contains(known, string(name)) {
			return member(name)
		}
		for _, k := range known {
			if strings.EqualFold(k, string(name)) {
				return r.refuse("differs only in case from %s", k)
			}
		}
		folded := fold(name)
		if unknown[folded] {
			return r.refuse("differs only in case from another member")
		}
		if unknown == nil {
			unknown = make(map[string]bool)
		}
		unknown[folded] = true
		return member(name)
	})
}

// fold maps names that differ only in case to one.
func fold(name []byte) string {
	if !slices.ContainsFunc(name, func(c byte) bool { return c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf }) {
		return string(name)
	}
	return string(bytes.Map(func(c rune) rune {
		for { // to the least of its orbit
			next := unicode.SimpleFold(c)
			if next > c {
				c = next
				continue
			}
			if next >= 'A' && next <= 'Z' {
				next += 'a' - 'A' // as in names that need no folding
			}
			return next
		}
	}, name))
}

// skip reads a value for its faults only.
func (r *reader) skip([]byte) error {
	if _, err := r.dec.ReadValue(); err != nil {
		return r.malformed(err)
	}
	return nil
}

// objectValue reads a whole object, which is good until the next is read.
func (r *reader) objectValue() ([]byte, error) {
	value, err := r.dec.ReadValue()
	if err != nil {
		return nil, r.malformed(err)
	}
	if k := value.Kind(); k != '{' {
		return nil, r.refuse("must be an object, not %s", kindName(k))
	}
	return value, nil
}

// text reads a string.
func text[S ~string](r *reader, to *S) error {
	tok, err := r.token('"')
	if err != nil {
		return err
	}
	*to = S(tok.String())
	return nil
}

// someText reads a string that must not be empty.
func someText[S ~string](r *reader, to *S) error {
	if err := text(r, to); err != nil {
		return err
	}
	if *to == "" {
		return r.refuse("must not be empty")
	}
	return nil
}

// time reads an instant.
func (r *reader) time(to *Time) error {
	tok, err := r.token('"')
	if err != nil {
		return err
	}
	t, ok := parseUTC(tok.String())
	if !ok {
		return r.refuse("%s is not an ISO 8601 time in UTC such as 2026-01-02T15:04:05.000Z", show(tok.String()))
	}
	*to = t
	return nil
}

// integer reads a number without a fraction, however it is written.
func (r *reader) integer(to **int64) error {
	tok, err := r.token('0')
	if err != nil {
		return err
	}
	n, ok := parseInteger(tok.String())
	if !ok {
		return r.refuse("%s is not an integer from 0 to %d", show(tok.String()), int64(maxInteger))
	}
	*to = &n
	return nil
}

// list reads an array and calls item before each of its items.
func (r *reader) list(item func() error) error {
	if _, err := r.token('['); err != nil {
		return err
	}
	for {
		if r.dec.PeekKind() == ']' {
			_, err := r.token(']')
			return err
		}
		if err := item(); err != nil {
			return err
		}
	}
}

func (r *reader) envelope(e *Envelope) error {
	var extra []byte
	err := r.strictObject(envelopeNames, func(name []byte) error {
		switch string(name) {
		case "id":
			return text(r, &e.ID)
		case "protocol":
			return text(r, &e.Protocol)
		case "version":
			return text(r, &e.Version)
		case "from":
			return text(r, &e.From)
		case "to":
			return r.list(func() error {
				var id AgentID
				err := text(r, &id)
				e.To = append(e.To, id)
				return err
			})
		case "team":
			return someText(r, &e.Team)
		case "thread_id":
			return someText(r, &e.ThreadID)
		case "reply_to":
			return someText(r, &e.ReplyTo)
		case "type":
			return text(r, &e.Type)
		case "topic":
			return someText(r, &e.Topic)
		case "priority":
			return text(r, &e.Priority)
		case "status":
			return text(r, &e.Status)
		case "sequence":
			return r.integer(&e.Sequence)
		case "expires_at":
			return r.time(&e.ExpiresAt)
		case "created_at":
			return r.time(&e.CreatedAt)
		case "updated_at":
			return r.time(&e.UpdatedAt)
		case "payload":
			return r.payload(e)
		case "policy":
			return r.policy(&e.Policy)
		case "context":
			e.Context = new(Context)
			return r.context(e.Context)
		case cutWorkItem:
			return r.refuse("is not part of the protocol; use context.external_refs with type workq_item")
		case cutSignedBy:
			return r.refuse("is not part of the protocol")
		}
		if extra == nil {
			extra = append(extra, '{')
		} else {
			extra = append(extra, ',')
		}
		extra = append(append(extra, r.name...), ':')
		value, err := r.dec.ReadValue()
		if err != nil {
			return r.malformed(err)
		}
		extra = append(extra, value...)
		return nil
	})
	if extra != nil {
		e.Extra = append(extra, '}')
	}
	return err
}

func (r *reader) payload(e *Envelope) error {
	value, err := r.objectValue()
	if err != nil {
		return err
	}
	e.Payload = compact(value)
	if len(e.Payload) > MaxPayload {
		return tooLarge(r.op, len(e.Payload))
	}
	return nil
}

func (r *reader) policy(p *Policy) error {
	return r.strictObject(policyNames, func(name []byte) error {
		switch string(name) {
		case "visibility":
			return text(r, &p.Visibility)
		case "sensitivity":
			return text(r, &p.Sensitivity)
		case "human_gate":
			return text(r, &p.HumanGate)
		}
		return r.skip(name)
	})
}

func (r *reader) context(c *Context) error {
	return r.strictObject(contextNames, func(name []byte) error {
		switch string(name) {
		case "session_id":
			return text(r, &c.SessionID)
		case "external_refs":
			return r.list(func() error {
				c.ExternalRefs = append(c.ExternalRefs, ExternalRef{})
				return r.externalRef(&c.ExternalRefs[len(c.ExternalRefs)-1])
			})
		case "artifacts":
			return r.list(func() error {
				c.Artifacts = append(c.Artifacts, ArtifactRef{})
				return r.artifactRef(&c.Artifacts[len(c.Artifacts)-1])
			})
		}
		return r.skip(name)
	})
}

func (r *reader) externalRef(x *ExternalRef) error {
	return r.strictObject(externalRefNames, func(name []byte) error {
		switch string(name) {
		case "type":
			return text(r, &x.Type)
		case "value":
			return text(r, &x.Value)
		case "description":
			return text(r, &x.Description)
		case "version":
			return text(r, &x.Version)
		}
		return r.skip(name)
	})
}

func (r *reader) artifactRef(a *ArtifactRef) error {
	return r.strictObject(artifactRefNames, func(name []byte) error {
		switch string(name) {
		case "type":
			return text(r, &a.Type)
		case "path":
			return text(r, &a.Path)
		case "sha256":
			return someText(r, &a.SHA256)
		case "description":
			return text(r, &a.Description)
		case "version":
			return text(r, &a.Version)
		case "size_bytes":
			return r.integer(&a.SizeBytes)
		case "required":
			tok, err := r.dec.ReadToken()
			if err != nil {
				return r.malformed(err)
			}
			if k := tok.Kind(); k != 't' && k != 'f' {
				return r.refuse("must be true or false, not %s", kindName(k))
			}
			required := tok.Bool()
			a.Required = &required
			return nil
		}
		return r.skip(name)
	})
}

// parseUTC reads YYYY-MM-DDTHH:MM:SS[.fraction]Z, the fraction with at most
// nine digits. Unlike time.Parse it takes no other spelling.
func parseUTC(s string) (Time, bool) {
	const form = "0000-00-00T00:00:00"
	if len(s) < len(form)+1 || s[len(s)-1] != 'Z' {
		return Time{}, false
	}
	for i := range len(form) {
		if digit := s[i] >= '0' && s[i] <= '9'; form[i] == '0' && !digit || form[i] != '0' && s[i] != form[i] {
			return Time{}, false
		}
	}
	num := func(from, to int) (n int) {
		for _, c := range []byte(s[from:to]) {
			n = n*10 + int(c-'0')
		}
		return n
	}
	nanos := 0
	if fraction := s[len(form) : len(s)-1]; fraction != "" {
		if fraction[0] != '.' || len(fraction) < 2 || len(fraction) > 10 {
			return Time{}, false
		}
		unit := 100_000_000
		for _, c := range []byte(fraction[1:]) {
			if c < '0' || c > '9' {
				return Time{}, false
			}
			nanos += int(c-'0') * unit
			unit /= 10
		}
	}
	year, month, day := num(0, 4), time.Month(num(5, 7)), num(8, 10)
	hour, minute, second := num(11, 13), num(14, 16), num(17, 19)
	if year < minYear || month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59 {
		return Time{}, false
	}
	t := time.Date(year, month, day, hour, minute, second, nanos, time.UTC)
	if t.Day() != day { // there is no such day in that month
		return Time{}, false
	}
	return At(t), true
}

// parseInteger reads a JSON number whose value is an integer from 0 to
// maxInteger: 1, 1.0 and 10e-1 are the same.
func parseInteger(s string) (int64, bool) {
	s, negative := strings.CutPrefix(s, "-")
	exp := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.Atoi(s[i+1:])
		if err != nil {
			n = 1 << 20 // out of range either way, unless all digits are 0
			if s[i+1] == '-' {
				n = -n
			}
		}
		s, exp = s[:i], n
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return 0, true
	}
	exp += len(digits) - len(trimmed) - len(fraction)
	if negative || exp < 0 || exp > 16 || len(trimmed)+exp > 16 {
		return 0, false
	}
	n, err := strconv.ParseInt(trimmed+strings.Repeat("0", exp), 10, 64)
	return n, err == nil && n <= maxInteger
}
