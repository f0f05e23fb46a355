package rules

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

var blockTypes = []string{"text", "image", "audio", "resource_link", "resource"}

// blocks returns the blocks of content in an update.
func blocks(e *event) (out []map[string]any) {
	add := func(o map[string]any) {
		if b := inner(o, "content"); b != nil {
			out = append(out, b)
		}
	}
	switch {
	case slices.Contains(messageTags, e.tag), e.tag == "compaction_summary_chunk":
		add(e.update)
	case e.tag == "tool_call_content_chunk":
		if c := inner(e.update, "content"); text(c, "type") == "content" {
			add(c)
		}
	}
	for _, c := range toolContent(e) {
		if text(c, "type") == "content" {
			add(c)
		}
	}
	for _, name := range []string{"content", "summary"} { // of whole messages
		if e.tag == "user_message" || e.tag == "agent_message" || e.tag == "agent_thought" || e.tag == "compaction_update" {
			out = append(out, objects(e.update, name)...)
		}
	}
	return out
}

// eachBlock returns the first flaw of a block of content of a type, "" for any.
func eachBlock(kind string, flaw func(b map[string]any) string) func(*state, *event) string {
	return func(_ *state, e *event) string {
		for _, b := range blocks(e) {
			if kind != "" && text(b, "type") != kind {
				continue
			}
			if bad := flaw(b); bad != "" {
				return bad
			}
		}
		return ""
	}
}

// media says what is wrong with a block that carries data.
func media(b map[string]any) string {
	if !isText(b["data"]) || !isText(b["mimeType"]) {
		return jsont.Brief(b)
	}
	return ""
}

func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

var (
	mediaType = regexp.MustCompile(`^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(\s*;.*)?$`)
	scheme    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
)

var contentChecks = []check{
	{rule: "CNT-01", on: updates(), flaw: func(s *state, e *event) string {
		for _, b := range blocks(e) {
			kind := text(b, "type")
			open := s.version == schema.V2 && kind != ""
			if !slices.Contains(blockTypes, kind) && !open && !caseVariant(kind) {
				return "type is " + jsont.Brief(b["type"])
			}
		}
		return ""
	}},
	{rule: "CNT-02", on: updates(), flaw: eachBlock("text", func(b map[string]any) string {
		if !isText(b["text"]) {
			return jsont.Brief(b)
		}
		return ""
	})},
	{rule: "CNT-03", on: updates(), flaw: eachBlock("image", media)},
	{rule: "CNT-04", on: updates(), flaw: eachBlock("audio", media)},
	{rule: "CNT-05", on: updates(), flaw: eachBlock("resource", func(b map[string]any) string {
		r := inner(b, "resource")
		_, hasText := r["text"]
		_, hasBlob := r["blob"]
		if !isText(r["uri"]) || hasText == hasBlob || hasText && !isText(r["text"]) || hasBlob && !isText(r["blob"]) {
			return jsont.Brief(b)
		}
		return ""
	})},
	{rule: "CNT-06", on: updates(), flaw: eachBlock("resource_link", func(b map[string]any) string {
		if v := b["size"]; !isText(b["uri"]) || !isText(b["name"]) || v != nil && !isInteger(v) {
			return jsont.Brief(b)
		}
		return ""
	})},
	{rule: "CNT-07", on: updates(), flaw: eachBlock("", func(b map[string]any) string {
		v := b["annotations"]
		if v == nil {
			return ""
		}
		a := inner(b, "annotations")
		audience, _ := a["audience"].([]any)
		strange := slices.ContainsFunc(audience, func(who any) bool { return who != "user" && who != "assistant" })
		_, isNumber := number(a["priority"])
		if a == nil || a["audience"] != nil && !isList(a["audience"]) || strange || a["priority"] != nil && !isNumber || a["lastModified"] != nil && !isMoment(text(a, "lastModified")) {
			return "annotations is " + jsont.Brief(v)
		}
		return ""
	})},
	{rule: "CNT-08", on: updates(), flaw: eachBlock("", func(b map[string]any) string {
		for _, o := range []map[string]any{b, inner(b, "resource")} {
			uri, ok := o["uri"].(string)
			if rest, file := strings.CutPrefix(uri, "file:"); ok && (!scheme.MatchString(uri) || file && !strings.HasPrefix(rest, "/")) {
				return "uri is " + jsont.Brief(uri)
			}
		}
		return ""
	})},
	{rule: "CNT-09", on: updates(), flaw: eachBlock("", func(b map[string]any) string {
		for name, o := range inOrder(map[string]map[string]any{"data": b, "blob": inner(b, "resource")}) {
			if s, ok := o[name].(string); ok && !isBase64(s) {
				return name + " is " + jsont.Brief(s)
			}
		}
		return ""
	})},
	{rule: "CNT-10", on: updates(), flaw: eachBlock("", func(b map[string]any) string {
		for _, o := range []map[string]any{b, inner(b, "resource")} {
			if s, ok := o["mimeType"].(string); ok && !mediaType.MatchString(s) {
				return "mimeType is " + jsont.Brief(s)
			}
		}
		return ""
	})},
}

// number returns a JSON number.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}
