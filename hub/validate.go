package hub

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// The numbers of the published envelope schema.
const (
	maxTopic   = 200       // characters
	maxInteger = 1<<53 - 1 // the greatest integer that every reader of JSON can hold exactly
	minYear    = 1000      // four digits, and never the zero time
	maxYear    = 9999
)

// fewRecipients is up to how many recipients cannot make an envelope too large.
const fewRecipients = 100

// The patterns of the published envelope schema.
var (
	threadPattern  = pattern.New(`^[A-Za-z0-9._:@/#+=~-]{1,128}$`)
	versionPattern = pattern.New(`^1\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$`)
	sha256Pattern  = pattern.New(`^[0-9a-f]{64}$`)
	webPattern     = pattern.New(`^https?://[^/]`)
	pathPattern    = pattern.New(`^(/|[A-Za-z]:[\\/])`) // absolute on any system: sender and receiver may be on other machines
	teamPattern    = pattern.New(`^(?i:teamspace:)`)
)

// envelopeNames are the members of an envelope.
var envelopeNames = []string{
	"id", "protocol", "version", "from", "to", "team", "thread_id", "reply_to", "type", "topic", "priority",
	"status", "sequence", "expires_at", "payload", "policy", "context", "created_at", "updated_at",
}

// cutNames are the members that the protocol had before its version 1.0.0, each with what
// replaces it. They are refused rather than kept as unknown members.
var cutNames = map[string]string{
	"work_item": "name it in context.external_refs, with the type workq_item",
	"signed_by": "leave it out: the hub records the sender",
}

// Validate checks e against the rules of the published envelope schema. The
// payload must be strict JSON already, as internal/ground/strictjson checks it once
// where it comes in; of its content Validate checks the kind and the size only.
// Failures are reported as CodeInvalid, CodeUnknownType or CodePayloadTooLarge;
// the text names the member.
func (e Envelope) Validate() error {
	const op = "hub.Validate"
	if err := e.check(op); err != nil {
		return err
	}

	if e.Payload[0] != '{' {
		return invalid(op, "payload", "must be an object")
	}
	if n := len(e.Payload); n > MaxPayload {
		return Errorf(CodePayloadTooLarge, op, "payload: too large: %d bytes, limit %d", n, MaxPayload).
			WithHint("give plain text as text, which may be longer, or send a reference in context.artifacts: {artifact.put}")
	}

	if e.Extra == nil && e.Context == nil && len(e.To) <= fewRecipients {
		return nil // the members that are left are small
	}
	if n := e.Size(); n > MaxEnvelope {
		return Errorf(CodeTooLarge, op, "the envelope is too large: %d bytes, limit %d, including references and unknown members", n, MaxEnvelope).
			WithHint("send fewer references, or store the content: {artifact.put}")
	}
	if e.Extra == nil {
		return nil
	}

	empty := true
	for name := range strictjson.Members(e.Extra) {
		if err := checkUnknown(op, name); err != nil {
			return err
		}
		empty = false
	}
	if empty {
		return invalid(op, "extra", "has no member; leave it nil")
	}
	return nil
}

// checkUnknown refuses an unknown member whose name is, but for its case, that of a member of the
// protocol, or of one that was cut from it.
func checkUnknown(op, name string) error {
	lower := strings.ToLower(name)
	if instead, isCut := cutNames[lower]; isCut {
		return Errorf(CodeInvalid, op, "%s: the protocol has no member %s any more", name, lower).WithHint("%s", instead)
	}
	i := slices.IndexFunc(envelopeNames, func(known string) bool { return strings.EqualFold(known, name) })
	switch {
	case i < 0:
		return nil
	case name == envelopeNames[i]:
		return invalid(op, name, "is a member of the protocol and cannot be an unknown member, too")
	}
	return invalid(op, name, "differs from the member %s only in case", envelopeNames[i])
}

// check applies the rules that need only the members themselves, not the content
// of the payload.
func (e Envelope) check(op string) error {
	if err := e.checkOrigin(op); err != nil {
		return err
	}
	if err := checkTo(op, e.To); err != nil {
		return err
	}
	if err := e.checkTopic(op); err != nil {
		return err
	}
	if err := e.checkContent(op); err != nil {
		return err
	}
	if e.Context == nil {
		return nil
	}
	return e.Context.check(op)
}

// checkOrigin refuses an envelope of another protocol, and one without id or sender.
func (e Envelope) checkOrigin(op string) error {
	switch {
	case e.Protocol != Protocol:
		return invalid(op, "protocol", "%s is not %q", shorten.Quote(e.Protocol), Protocol)
	case !versionPattern().MatchString(e.Version):
		return invalid(op, "version", "%s is not a version 1.x.y of the protocol", shorten.Quote(e.Version))
	case !e.ID.Valid():
		return invalid(op, "id", "%s is not a lower-case UUIDv7", shorten.Quote(string(e.ID)))
	case !e.From.sends():
		return invalid(op, "from", "%s is not a valid agent name", shorten.Quote(string(e.From)))
	}
	return nil
}

// checkTopic refuses an envelope whose type, team, thread or topic is not well formed.
func (e Envelope) checkTopic(op string) error {
	switch {
	case e.Type == "":
		return invalid(op, "type", "is required")
	case !e.Type.Known():
		return Errorf(CodeUnknownType, op, "type: unknown message type %s", shorten.Quote(string(e.Type)))
	case e.Team != "" && !AgentID(e.Team).Valid():
		return invalid(op, "team", "%s is not a valid team name", shorten.Quote(e.Team))
	case e.ThreadID != "" && !threadPattern().MatchString(e.ThreadID):
		return invalid(op, "thread_id", "%s is not 1 to 128 letters, digits or . _ : @ / # + = ~ -", shorten.Quote(e.ThreadID))
	case e.ReplyTo != "" && !e.ReplyTo.Valid():
		return invalid(op, "reply_to", "%s is not a lower-case UUIDv7", shorten.Quote(string(e.ReplyTo)))
	case !utf8.ValidString(e.Topic):
		return invalid(op, "topic", "is not valid UTF-8")
	case len(e.Topic) > maxTopic && utf8.RuneCountInString(e.Topic) > maxTopic:
		return invalid(op, "topic", "is longer than %d characters", maxTopic)
	}
	return nil
}

// checkContent refuses an envelope whose sequence, payload, policy or times are not well
// formed.
func (e Envelope) checkContent(op string) error {
	switch {
	case e.Sequence == nil && e.Type.Negotiates():
		return invalid(op, "sequence", "is required for %s", e.Type)
	case e.Sequence != nil && (*e.Sequence < 0 || *e.Sequence > maxInteger):
		return invalid(op, "sequence", "%d is not between 0 and %d", *e.Sequence, int64(maxInteger))
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
	return nil
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
			return invalid(op, "to["+strconv.Itoa(i)+"]", "%s is not a valid agent name", shorten.Quote(string(id)))
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
	return checkTime(op, "context.ack_by", c.AckBy, false)
}

// problem returns the first member that breaks a rule, and the rule.
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

// problem returns the first member that breaks a rule, and the rule.
func (a ArtifactRef) problem() (member, problem string) {
	switch {
	case !slices.Contains(ArtifactRefTypes, a.Type):
		return "type", notOneOf(a.Type, ArtifactRefTypes)
	case a.SHA256 != "" && !sha256Pattern().MatchString(a.SHA256):
		return "sha256", shorten.Quote(a.SHA256) + " is not 64 lower-case hexadecimal digits"
	case a.SizeBytes != nil && (*a.SizeBytes < 0 || *a.SizeBytes > maxInteger):
		return "size_bytes", fmt.Sprintf("%d is not between 0 and %d", *a.SizeBytes, int64(maxInteger))
	case !utf8.ValidString(a.Description):
		return "description", "is not valid UTF-8"
	case !utf8.ValidString(a.Version):
		return "version", "is not valid UTF-8"
	}
	return "path", targetProblem(a.Type, a.Path)
}

// targetProblem returns the rule that the target of a reference breaks, or "".
func targetProblem(kind, target string) string {
	switch {
	case target == "":
		return "is required"
	case !utf8.ValidString(target):
		return "is not valid UTF-8"
	case teamPattern().MatchString(target):
		return "addresses with the scheme teamspace: are not part of the protocol; give an absolute path"
	case kind == "file" && !pathPattern().MatchString(target):
		return shorten.Quote(target) + " is not an absolute path"
	case kind == "url" && !webPattern().MatchString(target):
		return shorten.Quote(target) + " is not an http or https address"
	}
	return ""
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
	b.WriteString(shorten.Quote(string(v)) + " is not one of ")
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

// maxSearchText bounds the text of a message that is indexed. Topic and payload
// of a valid envelope never reach it.
const maxSearchText = 8 << 10

// SearchText returns the text of a message that a full-text search indexes: the
// topic and the string values of the payload, not its names, each on a line. It
// is at most 8 KiB long.
func SearchText(topic string, payload json.RawMessage) string {
	lines := []string{topic}
	if topic == "" {
		lines = nil
	}
	size := len(topic)
	for s := range strictjson.Strings(payload) {
		if size > maxSearchText {
			break
		}
		if s != "" {
			lines = append(lines, s)
			size += 1 + len(s)
		}
	}
	return shorten.Bytes(strings.Join(lines, "\n"), maxSearchText)
}
