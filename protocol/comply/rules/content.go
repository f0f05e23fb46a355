package rules

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// blockTypes are the types of content blocks. Version 2 allows others.
var blockTypes = []string{"text", "image", "audio", "resource_link", "resource"}

// wholeTags are the updates that carry a list of blocks.
var wholeTags = []string{"user_message", "agent_message", "agent_thought", "compaction_update"}

// blocks returns the blocks of content in an update.
// Each update carries its blocks in a member of its own; resources inside of a
// block are not blocks.
func blocks(e *event) (out []object) {
	add := func(o object) {
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
	if slices.Contains(wholeTags, e.tag) {
		out = append(append(out, objects(e.update, "content")...), objects(e.update, "summary")...)
	}
	return out
}

// blocksOf returns the blocks of one type.
func blocksOf(kind string) func(*event) []object {
	return func(e *event) []object {
		return slices.DeleteFunc(blocks(e), func(b object) bool { return text(b, "type") != kind })
	}
}

// carriers returns the objects of an update that may have a uri or a media type:
// the blocks, and the resources in them.
func carriers(e *event) (out []object) {
	for _, b := range blocks(e) {
		out = append(out, b, inner(b, "resource"))
	}
	return out
}

// anyBlock returns the flaw that a block does not fit; it shows the block itself.
func anyBlock(kind string, fits func(b object) bool) flaw {
	return eachFlaw(blocksOf(kind), func(_ *state, b object) string { return when(!fits(b), "%s", show(b)) })
}

// hasData reports whether a block carries data with its media type.
func hasData(b object) bool { return isText(b["data"]) && isText(b["mimeType"]) }

func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

// The syntax of media types (RFC 2045) and of the scheme of a URI (RFC 3986).
var (
	mediaType = pattern.New(`^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(\s*;.*)?$`)
	scheme    = pattern.New(`^[A-Za-z][A-Za-z0-9+.-]*:`)
)

// contentChecks are about blocks of content, wherever an update carries them: in pieces of
// messages, in tool calls, in summaries.
var contentChecks = []check{
	// CNT-01: content is text, image, audio, resource_link or resource
	{rule: "CNT-01", on: updates(), flaw: eachFlaw(blocks, func(s *state, b object) string {
		return whenIs(!isOneOf(s, b["type"], blockTypes), "type", b["type"])
	})},
	// CNT-02: text content has text
	{rule: "CNT-02", on: updates(), flaw: anyBlock("text", func(b object) bool { return isText(b["text"]) })},
	// CNT-03: an image has data in base64 and a media type
	{rule: "CNT-03", on: updates(), flaw: anyBlock("image", hasData)},
	// CNT-04: audio has data in base64 and a media type
	{rule: "CNT-04", on: updates(), flaw: anyBlock("audio", hasData)},
	// CNT-05: an embedded resource has a URI and either text or data
	{rule: "CNT-05", on: updates(), flaw: anyBlock("resource", func(b object) bool {
		r := inner(b, "resource")
		text, hasText := r["text"]
		blob, hasBlob := r["blob"]
		return isText(r["uri"]) && hasText != hasBlob && (isText(text) || isText(blob))
	})},
	// CNT-06: a link to a resource has a URI and a name
	{rule: "CNT-06", on: updates(), flaw: anyBlock("resource_link", func(b object) bool {
		return isText(b["uri"]) && isText(b["name"]) && absentOr(isInteger)(b["size"])
	})},
	// CNT-07: annotations are well formed
	{rule: "CNT-07", on: updates(), flaw: eachFlaw(blocks, func(_ *state, b object) string {
		a := inner(b, "annotations")
		audience, _ := a["audience"].([]any)
		strange := slices.ContainsFunc(audience, func(who any) bool { return who != "user" && who != "assistant" })
		fits := a != nil && !strange && absentOr(isList)(a["audience"]) && absentOr(isNumber)(a["priority"]) && absentOr(isMoment)(a["lastModified"])
		return whenIs(b["annotations"] != nil && !fits, "annotations", b["annotations"])
	})},
	// CNT-08: URIs have a scheme, and file URIs are absolute
	{rule: "CNT-08", on: updates(), flaw: eachFlaw(carriers, func(_ *state, o object) string {
		uri, ok := o["uri"].(string)
		rest, file := strings.CutPrefix(uri, "file:")
		return whenIs(ok && (!scheme().MatchString(uri) || (file && !strings.HasPrefix(rest, "/"))), "uri", uri)
	})},
	// CNT-09: data is base64
	{rule: "CNT-09", on: updates(), flaw: eachFlaw(blocks, func(_ *state, b object) string {
		blob, isBlob := inner(b, "resource")["blob"].(string)
		if isBlob && !isBase64(blob) {
			return whenIs(true, "blob", blob)
		}
		data, isData := b["data"].(string)
		return whenIs(isData && !isBase64(data), "data", data)
	})},
	// CNT-10: a media type is written as type/subtype
	{rule: "CNT-10", on: updates(), flaw: eachFlaw(carriers, func(_ *state, o object) string {
		s, ok := o["mimeType"].(string)
		return whenIs(ok && !mediaType().MatchString(s), "mimeType", s)
	})},
}
