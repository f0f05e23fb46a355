package forge

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// generic is any program, in the form of this hub.
type generic struct {
	pushOnly
	anySecret
}

func (generic) parse(h Hook) (hub.Event, error) { return parseGeneric(h.Body, h.Fields) }

// ids returns the id that the sender chose, which is signed.
func (generic) ids(h http.Header, _ string) []string { return []string{idOf(h.Get(DeliveryHeader))} }

// verify checks X-Parley-Signature: t=SECONDS,v1=HEX with the HMAC-SHA256 of SECONDS, a full stop, the
// value of X-Parley-Delivery, a full stop and the body.
func (generic) verify(secret string, header http.Header, body []byte, now time.Time) bool {
	stamp, rest, _ := strings.Cut(single(header, SignatureHeader), ",")
	seconds, hasTime := strings.CutPrefix(stamp, "t=")
	text, hasSum := strings.CutPrefix(rest, "v1=")
	id := single(header, DeliveryHeader)
	hasID := id != "" && len(id) <= maxDelivery
	isWhole := hasTime && hasSum && hasID
	if !isWhole || !isRecent(seconds, now) {
		return false
	}
	return sameSum(text, sum(secret, signedContent(seconds, id, body)))
}

// fieldNames are the members of an event that a generic body has, or that pointers find in it.
var fieldNames = []string{"kind", "name", "state", "repository", "branch", "commit", "task", "actor", "title", "url", "text", "member"}

// CheckFields refuses fields of a generic source that no event has, and texts that are no JSON
// pointers.
func CheckFields(fields map[string]string) error {
	const op = "forge.CheckFields"
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(fieldNames, name) {
			return hub.Errorf(hub.CodeInvalid, op, "an event has no field %s", shorten.Quote(name)).WithHint("the fields are %s", strings.Join(fieldNames, ", "))
		}
		if !strings.HasPrefix(fields[name], "/") {
			return hub.Errorf(hub.CodeInvalid, op, "%s: %s is not a JSON pointer", name, shorten.Quote(fields[name])).WithHint("use one such as /build/status")
		}
	}
	return nil
}

// parseGeneric returns the event of a body in the form of this hub: an object whose members have
// the names of fieldNames, or in which the pointers of fields find them (RFC 6901). An event
// without an actor is one of the program that holds the secret, which is a member.
func parseGeneric(body []byte, fields map[string]string) (hub.Event, error) {
	var doc any
	if err := decode(body, &doc); err != nil {
		return hub.Event{}, err
	}
	if _, ok := doc.(map[string]any); !ok {
		return hub.Event{}, errors.New("it is not an object")
	}
	get := func(name string) string {
		pointer, ok := fields[name]
		if !ok {
			pointer = "/" + name
		}
		return textOf(find(doc, pointer))
	}

	e := hub.Event{
		Kind: hub.EventKind(get("kind")), Name: get("name"), State: get("state"), Repository: get("repository"), Branch: branchOf(get("branch")), Commit: get("commit"),
		Task: get("task"), Actor: get("actor"), Title: get("title"), URL: get("url"), Text: get("text"),
	}
	if !e.Kind.Known() {
		if e.Name == "" {
			e.Name = string(e.Kind)
		}
		e.Kind = hub.EventOther
	}
	e.Member = get("member") == "true" || e.Actor == ""
	return e, nil
}

// find returns the value at a JSON pointer; nil if there is none.
func find(doc any, pointer string) any {
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch v := doc.(type) {
		case map[string]any:
			doc = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}

// textOf returns a value as text: a string as it is, a number or a truth value as JSON, and nothing
// else.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool, float64:
		raw, _ := json.Marshal(v) // cannot fail
		return string(raw)
	}
	return ""
}
