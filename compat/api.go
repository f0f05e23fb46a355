package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// methods are the members of a path that are operations.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace", "connect"}

// An operation is one method of one path, or of a webhook.
type operation struct {
	key     string // method and path without the names of parameters
	name    string // GET /users/{id}
	path    string
	method  string
	pointer string
	raw     map[string]any
	item    map[string]any // the path, whose parameters the operation shares
	itemAt  string
	site    string // the pointer below paths or webhooks, where pointer may be in components
}

var pathName = pattern.New(`\{[^}/]*\}`)

// pathKey returns a path without the names of its parameters.
func pathKey(path string) string { return pathName().ReplaceAllString(path, "{}") }

// operations returns the operations of a document, in order.
func (s *source) operations() []operation { return s.operationsIn("/paths") }

// operationsIn returns the operations of the paths in one member of the root: paths or
// webhooks. The order is that of the paths, then that of the methods.
func (s *source) operationsIn(group string) []operation {
	raw, _ := lookup(s.base, group)
	paths, _ := raw.(map[string]any)
	var out []operation
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, at := s.follow(join(group, path))
		for _, method := range methods {
			raw, ok := item[method].(map[string]any)
			if !ok {
				continue
			}
			out = append(out, operation{
				key: strings.ToUpper(method) + " " + pathKey(path), name: strings.ToUpper(method) + " " + path, path: path, method: method,
				pointer: join(at, method), raw: raw, item: item, itemAt: at, site: join(group, path, method),
			})
		}
	}
	return out
}

// follow returns the object at a pointer, or the one that it refers to, with its place.
func (s *source) follow(pointer string) (map[string]any, string) {
	for range 16 {
		raw, _ := lookup(s.base, pointer)
		m, _ := raw.(map[string]any)
		ref, ok := m["$ref"].(string)
		if !ok {
			return m, pointer
		}
		at, _ := s.target(ref)
		pointer = at
	}
	return nil, pointer
}

// unnamed returns the pointers of schemas that have no name of their own and whose fields
// consumers may declare.
func (s *source) unnamed() []string {
	switch {
	case s.format == FormatJSONSchema:
		return []string{""}
	case s.format != FormatShape:
		return nil
	}
	var out []string
	for _, op := range s.operations() {
		for _, part := range []string{"/requestBody", "/responses/200"} {
			out = append(out, op.pointer+part+"/content/application~1json/schema")
		}
	}
	return append(out, modelPointer)
}

// apis compares two documents with operations.
func (c *comparison) apis() {
	news := map[string]operation{}
	for _, op := range c.new.operations() {
		news[op.key] = op
	}
	for _, old := range c.old.operations() {
		op, ok := news[old.key]
		delete(news, old.key)
		if !ok {
			c.operationRemoved(old)
			continue
		}
		c.operation(old, op)
	}
	for _, key := range slices.Sorted(maps.Keys(news)) {
		op := news[key]
		c.add(Finding{Rule: "BOTH-operation-added", Pointer: c.new.original(op.pointer), Direction: Both, Text: "the operation " + op.name + " is new", Parts: []string{op.name}})
	}
	c.webhooks()
	c.paths()

	// The members of the root, and components that no operation leads to.
	c.servers(c.old.base, c.new.base, "", everything)
	c.restIn(c.old, c.new, "", "", []string{"openapi", "info", "tags", "externalDocs", "servers", "security", "paths", "webhooks", "components"}, everything)
	c.components()
}

// paths compares what belongs to a path and to none of its operations.
func (c *comparison) paths() {
	handled := slices.Concat(methods, []string{"parameters", "summary", "description", "servers", "$ref"})
	olds := c.old.members("/paths")
	news := c.new.members("/paths")
	byKey := map[string]string{}
	for path := range news {
		byKey[pathKey(path)] = path
	}
	for _, path := range slices.Sorted(maps.Keys(olds)) {
		other, ok := byKey[pathKey(path)]
		if !ok || isExtension(path) {
			continue
		}
		a, oldAt := c.old.follow(join("/paths", path))
		b, newAt := c.new.follow(join("/paths", other))
		c.servers(a, b, newAt, everything)
		c.restIn(c.old, c.new, oldAt, newAt, handled, everything)
	}
	c.extensions("/paths", "/paths", everything)
}

// isExtension reports whether the name of a member is that of an extension.
func isExtension(name string) bool { return strings.HasPrefix(name, "x-") }

// members returns the members of the object at a pointer, nil if there is none.
func (s *source) members(pointer string) map[string]any {
	raw, _ := lookup(s.base, pointer)
	members, _ := raw.(map[string]any)
	return members
}

// extensions compares the extensions of an object whose other members have a comparison of
// their own.
func (c *comparison) extensions(oldAt, newAt, part string) {
	var handled []string
	for _, members := range []map[string]any{c.old.members(oldAt), c.new.members(newAt)} {
		for name := range members {
			if !isExtension(name) || name == restWord {
				handled = append(handled, name)
			}
		}
	}
	c.restIn(c.old, c.new, oldAt, newAt, handled, part)
}

// otherComponents are the groups of components beside schemas that a consumer may refer to.
var otherComponents = []string{"callbacks", "headers", "links", "parameters", "pathItems", "requestBodies", "responses", "securitySchemes"}

// components compares the components that no operation uses. They say nothing, unless the
// document has no operations: then they are what it describes.
func (c *comparison) components() {
	reached := c.old.reached([]string{"/paths", "/webhooks"}, nil)
	hasOperations := len(c.old.operations()) > 0 || len(c.old.operationsIn("/webhooks")) > 0
	c.namedSchemas(Both, "/components/schemas", reached, !hasOperations)
	c.extensions("/components", "/components", everything)
	if hasOperations {
		return
	}
	for _, group := range otherComponents {
		at := "/components/" + group
		var added []string
		for name := range c.new.members(at) {
			if _, ok := c.old.members(at)[name]; !ok {
				added = append(added, name)
			}
		}
		c.restIn(c.old, c.new, at, at, added, everything)
	}
}

// operationRemoved adds the finding about an operation that is gone.
func (c *comparison) operationRemoved(old operation) {
	at := c.old.original(old.pointer)
	f := Finding{Rule: "BOTH-operation-removed", Pointer: at, Direction: Both, Text: "the operation " + old.name + " is gone", Parts: []string{old.name, at, c.old.original(old.site)}}
	f.Parts = append(f.Parts, c.lostSchemas(old.pointer)...)
	f.Example = c.requestExample(old, nil, "the new version has no operation "+old.name)
	c.add(f)
}

// lostSchemas returns the names and places of the schemas that a part of the old version led
// to and that no operation of the new version leads to. A consumer of one of their fields has
// no way to it any more.
func (c *comparison) lostSchemas(pointer string) []string {
	if c.inUse == nil {
		c.inUse = c.new.reached([]string{"/paths", "/webhooks"}, nil)
	}
	var out []string
	for at := range c.old.reached([]string{pointer}, nil) {
		if name := componentName(at); name != "" && !c.inUse[at] {
			out = append(out, at, name)
		}
	}
	slices.Sort(out)
	return out
}

// An exchange is one operation in both versions.
type exchange struct {
	*comparison
	old, new operation
	part     string // the operation as a part
	flipped  bool   // the provider sends the request: a webhook
	sites    []site
}

// A site is a place from which an operation leads to an object elsewhere, such as a component.
// A consumer may declare either.
type site struct{ at, from string }

// newExchange returns the comparison of an operation that both versions have.
func (c *comparison) newExchange(old, new operation, part string) *exchange {
	x := &exchange{comparison: c, old: old, new: new, part: part}
	x.note(old.pointer, old.site)
	x.note(new.pointer, new.site)
	return x
}

// note keeps a place from which the operation leads to an object.
func (x *exchange) note(at, from string) {
	s := site{at, from}
	if at != from && !slices.Contains(x.sites, s) {
		x.sites = append(x.sites, s)
	}
}

// follow returns the object at a pointer, or the one that it refers to, and keeps both places.
func (x *exchange) follow(s *source, pointer string) (map[string]any, string) {
	m, at := s.follow(pointer)
	x.note(at, pointer)
	return m, at
}

// places returns pointers with all places from which the operation leads to them.
func (x *exchange) places(pointers ...string) []string {
	out := slices.Clone(pointers)
	for i := 0; i < len(out) && i < maxContexts; i++ {
		for _, s := range x.sites {
			rest, ok := strings.CutPrefix(out[i], s.at)
			isInside := ok && (rest == "" || rest[0] == '/')
			if isInside && !slices.Contains(out, s.from+rest) {
				out = append(out, s.from+rest)
			}
		}
	}
	return slices.Compact(out)
}

// finding returns a finding about the operation.
func (x *exchange) finding(rule, pointer string, d Direction, format string, args ...any) Finding {
	f := Finding{Rule: rule, Pointer: x.comparison.place(pointer), Direction: d, Text: fmt.Sprintf(format, args...), Parts: []string{x.part}}
	for _, at := range x.places(pointer) {
		f.Parts = append(f.Parts, x.comparison.place(at))
	}
	return f
}

// operation compares one operation.
func (c *comparison) operation(old, new operation) {
	x := c.newExchange(old, new, old.name)
	x.parameters()
	x.body()
	x.responses()
	x.security()
	c.servers(old.raw, new.raw, new.pointer, old.name)
	handled := []string{"parameters", "requestBody", "responses", "security", "servers", "tags", "summary", "description", "externalDocs", "operationId", "deprecated", restWord}
	x.rest(old.pointer, new.pointer, handled)
	if c.old.format == FormatShape {
		c.restIn(c.old, c.new, join(old.pointer, restWord), join(new.pointer, restWord), nil, everything)
	}
}

// A parameter is one parameter of an operation, or a header of a response.
type parameter struct {
	key, name, in string
	pointer       string
	site          string // the pointer in the operation or path, where pointer may be in components
	raw           map[string]any
	required      bool
}

// parametersOf returns the parameters of an operation by their keys. A path parameter is
// known by its place in the path.
func (s *source) parametersOf(op operation) map[string]parameter {
	out := map[string]parameter{}
	order := pathName().FindAllString(op.path, -1)
	for _, at := range []string{op.itemAt, op.pointer} {
		raw, _ := lookup(s.base, at+"/parameters")
		list, _ := raw.([]any)
		for i := range list {
			site := fmt.Sprintf("%s/parameters/%d", at, i)
			m, pointer := s.follow(site)
			name, _ := m["name"].(string)
			in, _ := m["in"].(string)
			required, _ := m["required"].(bool)
			key := in + " " + name
			switch in {
			case "path":
				if i := slices.Index(order, "{"+name+"}"); i >= 0 {
					key = "path " + itoa(i)
				}
			case "header":
				key = "header " + strings.ToLower(name)
			}
			out[key] = parameter{key, name, in, pointer, site, m, required}
		}
	}
	return out
}

// parameters compares the parameters.
func (x *exchange) parameters() {
	olds := x.comparison.old.parametersOf(x.old)
	news := x.comparison.new.parametersOf(x.new)
	x.noteParameters(x.old, olds)
	x.noteParameters(x.new, news)
	for _, key := range slices.Sorted(maps.Keys(olds)) {
		was := olds[key]
		is, ok := news[key]
		if !ok {
			f := x.finding("REQ-parameter-removed", was.pointer, Request, "the %s parameter %s is gone", was.in, was.name)
			x.add(f)
			continue
		}
		x.parameter(was, is)
	}
	for _, key := range slices.Sorted(maps.Keys(news)) {
		is := news[key]
		if _, ok := olds[key]; ok {
			continue
		}
		if !is.required {
			x.add(x.finding("REQ-parameter-added", is.pointer, Request, "the optional %s parameter %s is new", is.in, is.name))
			continue
		}
		f := x.finding("REQ-parameter-required-added", is.pointer, Request, "the required %s parameter %s is new", is.in, is.name)
		f.Example = x.requestExample(x.old, nil, fmt.Sprintf("the %s parameter %s is missing", is.in, is.name))
		x.add(f)
	}
}

// noteParameters keeps the places of parameters. One of the path belongs to the operation, too.
func (x *exchange) noteParameters(op operation, list map[string]parameter) {
	for _, key := range slices.Sorted(maps.Keys(list)) {
		p := list[key]
		x.note(p.pointer, p.site)
		if !strings.HasPrefix(p.site, op.pointer+"/") {
			x.note(p.site, op.pointer+"/parameters")
		}
	}
}

// parameter compares one parameter.
func (x *exchange) parameter(was, is parameter) {
	switch {
	case !was.required && is.required:
		f := x.finding("REQ-parameter-became-required", is.pointer, Request, "the %s parameter %s is required now", is.in, is.name)
		f.Example = x.requestExample(x.old, nil, fmt.Sprintf("the %s parameter %s is missing", is.in, is.name))
		x.add(f)
	case was.required && !is.required:
		x.add(x.finding("REQ-parameter-became-optional", is.pointer, Request, "the %s parameter %s is optional now", is.in, is.name))
	}
	for _, name := range []string{"style", "explode", "allowReserved", "allowEmptyValue"} {
		if !equal(encodingOf(was, name), encodingOf(is, name)) {
			x.add(x.finding("REQ-parameter-encoding-changed", join(is.pointer, name), Request, "the %s parameter %s is written in another way: %s changed", is.in, is.name, name))
		}
	}
	where := fmt.Sprintf("%s parameter %s of %s", is.in, is.name, x.part)
	x.value(Request, was.raw, is.raw, was.pointer, is.pointer, where)
	x.rest(was.pointer, is.pointer,
		[]string{"name", "in", "required", "description", "deprecated", "example", "examples", "style", "explode", "allowReserved", "allowEmptyValue", "schema", "content"})
}

// encodingOf returns how a parameter is written, with the defaults of OpenAPI.
func encodingOf(p parameter, name string) any {
	if v, ok := p.raw[name]; ok {
		return v
	}
	style, _ := p.raw["style"].(string)
	if style == "" {
		style = map[string]string{"query": "form", "cookie": "form"}[p.in]
		if style == "" {
			style = "simple"
		}
	}
	switch name {
	case "style":
		return style
	case "explode":
		return style == "form"
	}
	return false
}

// value compares the schema or the content of a parameter or header.
func (x *exchange) value(d Direction, old, new map[string]any, oldAt, newAt, where string) {
	_, had := old["schema"]
	_, has := new["schema"]
	if had && has {
		x.schemaAt(d, oldAt+"/schema", newAt+"/schema", where)
		return
	}
	if had != has {
		f := x.finding("BOTH-difference-without-rule", newAt, Both, "%s is described in another way", where)
		x.add(f)
		return
	}
	x.content(d, oldAt, newAt, where)
}

// schemaAt compares two schemas of the operation.
func (x *exchange) schemaAt(d Direction, oldAt, newAt, where string) {
	contexts := x.places(newAt, oldAt)
	if x.comparison.old.format == FormatShape { // its fields have no other names
		contexts = append(contexts, "")
	}
	x.schemas(d, oldAt, newAt, where, contexts, x.part)
}

// body compares the bodies of requests.
func (x *exchange) body() {
	d := Request
	if x.flipped {
		d = Response
	}
	was, oldAt := x.follow(x.comparison.old, x.old.pointer+"/requestBody")
	is, newAt := x.follow(x.comparison.new, x.new.pointer+"/requestBody")
	if was == nil || is == nil {
		x.bodyInOne(d, was, is, oldAt, newAt)
		return
	}

	wasRequired, _ := was["required"].(bool)
	isRequired, _ := is["required"].(bool)
	switch {
	case !wasRequired && isRequired && d == Request:
		x.bodyRequired(newAt, "the body is required now")
	case wasRequired && !isRequired && d == Response:
		x.add(x.finding("BOTH-difference-without-rule", newAt, Both, "the body of the webhook is optional now"))
	}
	x.content(d, oldAt, newAt, "body of "+x.part)
	x.rest(oldAt, newAt, []string{"required", "content", "description"})
}

// bodyInOne adds the finding about a body that only one version has.
func (x *exchange) bodyInOne(d Direction, was, is map[string]any, oldAt, newAt string) {
	isRequired, _ := is["required"].(bool)
	switch {
	case was == nil && is == nil:
	case is == nil:
		f := x.finding("REQ-body-removed", oldAt, d, "the request has no body any more")
		if x.flipped { // a consumer waits for what the provider sent
			f.Verdict = Breaking
			f.Example = x.webhookExample(x.old, "the new version sends no body")
		}
		f.Parts = append(f.Parts, x.lostSchemas(oldAt)...)
		x.add(f)
	case x.flipped:
		x.add(x.finding("BOTH-difference-without-rule", newAt, Both, "the webhook has a body now"))
	case isRequired:
		x.bodyRequired(newAt, "a body is required now")
	default:
		x.add(x.finding("REQ-body-added", newAt, d, "an optional body is new"))
	}
}

// bodyRequired adds the finding about a body that a request must have now.
func (x *exchange) bodyRequired(newAt, text string) {
	f := x.finding("REQ-body-became-required", newAt, Request, "%s", text)
	f.Example = x.requestExample(x.old, map[string]any{"body": nil}, "the body is missing")
	x.add(f)
}

// content compares the media types of a body, a response or a parameter. A range such as
// application/* stands for the media types in it that have no description of their own.
func (x *exchange) content(d Direction, oldAt, newAt, where string) {
	olds := mediaOf(x.comparison.old, oldAt)
	news := mediaOf(x.comparison.new, newAt)
	prefix := "REQ"
	if d == Response {
		prefix = "RES"
	}
	for _, media := range slices.Sorted(maps.Keys(olds)) {
		other := coveringMedia(media, news)
		if other == "" {
			x.mediaRemoved(d, prefix, media, join(oldAt, "content", olds[media]), where, news)
			continue
		}
		b := join(newAt, "content", news[other])
		if other != media && d == Response {
			x.add(x.finding("BOTH-difference-without-rule", b, Both, "the media type %s of the %s became %s", media, where, other))
		}
		x.media(d, join(oldAt, "content", olds[media]), b, where)
	}

	// A new media type may be one that the old version described by a range.
	for _, media := range slices.Sorted(maps.Keys(news)) {
		if _, ok := olds[media]; ok {
			continue
		}
		b := join(newAt, "content", news[media])
		x.add(x.finding(prefix+"-media-type-added", b, d, "the media type %s of the %s is new", media, where))
		if other := coveringMedia(media, olds); other != "" {
			x.media(d, join(oldAt, "content", olds[other]), b, where)
		}
	}
}

// mediaRemoved adds the finding about a media type that is gone. A response that had any type
// of a range, and has one of them now, gives no more than before, but a consumer may have asked
// for another one.
func (x *exchange) mediaRemoved(d Direction, prefix, media, at, where string, news map[string]string) {
	isNarrowed := slices.ContainsFunc(slices.Collect(maps.Keys(news)), func(other string) bool {
		return coveringMedia(other, map[string]string{media: media}) != ""
	})
	if d == Response && isNarrowed {
		x.add(x.finding("BOTH-difference-without-rule", at, Both, "the %s has fewer media types than %s", where, media))
		return
	}
	f := x.finding(prefix+"-media-type-removed", at, d, "the media type %s of the %s is gone", media, where)
	f.Parts = append(f.Parts, x.lostSchemas(at)...)
	switch {
	case x.flipped:
	case d == Request:
		f.Example = x.requestExample(x.old, map[string]any{"content_type": media}, "the media type "+media+" is not taken")
	default:
		f.Example = x.requestExample(x.old, map[string]any{"accept": media}, "there is no response of the media type "+media)
	}
	x.add(f)
}

// coveringMedia returns the media type of a list that a media type falls under: itself, or the
// closest range. It is empty if there is none.
func coveringMedia(media string, list map[string]string) string {
	group, _, _ := strings.Cut(media, "/")
	for _, key := range []string{media, group + "/*", "*/*"} {
		if _, ok := list[key]; ok {
			return key
		}
	}
	return ""
}

// media compares one media type.
func (x *exchange) media(d Direction, oldAt, newAt, where string) {
	_, had := lookup(x.comparison.old.base, oldAt+"/schema")
	_, has := lookup(x.comparison.new.base, newAt+"/schema")
	switch {
	case had && has:
		x.schemaAt(d, oldAt+"/schema", newAt+"/schema", where)
	case had != has:
		x.add(x.finding("BOTH-difference-without-rule", newAt, Both, "the %s has a schema in one version only", where))
	}
	x.rest(oldAt, newAt, []string{"schema", "example", "examples"})
}

// mediaOf returns the media types in the content at a pointer by their keys, with their names
// in the document.
func mediaOf(s *source, pointer string) map[string]string {
	content := s.members(pointer + "/content")
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		key := mediaKey(name)
		if _, taken := out[key]; taken {
			key = name
		}
		out[key] = name
	}
	return out
}

// mediaKey returns a media type in lower case, without blanks. JSON is always UTF-8, so that
// naming this charset says nothing.
func mediaKey(name string) string {
	key := strings.ToLower(strings.ReplaceAll(name, " ", ""))
	media, charset, _ := strings.Cut(key, ";")
	isJSON := media == "application/json" || strings.HasSuffix(media, "+json")
	if isJSON && (charset == "charset=utf-8" || charset == `charset="utf-8"`) {
		return media
	}
	return key
}

// responses compares the responses by status. A range such as 4XX, or default, stands for the
// statuses that have no description of their own.
func (x *exchange) responses() {
	olds := x.comparison.old.members(join(x.old.pointer, "responses"))
	news := x.comparison.new.members(join(x.new.pointer, "responses"))
	for _, status := range slices.Sorted(maps.Keys(olds)) {
		if isExtension(status) {
			continue
		}
		other := coveringStatus(status, news)
		if other != status {
			x.statusRemoved(status, other, news, olds)
		}
		if other != "" {
			x.response(status, other)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(news)) {
		if _, ok := olds[status]; !ok && !isExtension(status) {
			x.statusAdded(status, coveringStatus(status, olds))
		}
	}
	x.extensions(join(x.old.pointer, "responses"), join(x.new.pointer, "responses"), x.part)
}

// coveringStatus returns the status of a list that a status falls under: itself, its range, or
// default. It is empty if there is none. Where a success has a description of its own, default
// stands for failures.
func coveringStatus(status string, list map[string]any) string {
	for _, key := range []string{status, status[:1] + "XX"} {
		if _, ok := list[key]; ok {
			return key
		}
	}
	hasSuccess := slices.ContainsFunc(slices.Collect(maps.Keys(list)), isSuccess)
	if _, ok := list["default"]; ok && !(isSuccess(status) && hasSuccess) {
		return "default"
	}
	return ""
}

// isSuccess reports whether a status is one of a success.
func isSuccess(status string) bool { return strings.HasPrefix(status, "2") }

// response compares the response for one status of each version.
func (x *exchange) response(oldStatus, newStatus string) {
	d := Response
	if x.flipped {
		d = Request
	}
	_, oldAt := x.follow(x.comparison.old, join(x.old.pointer, "responses", oldStatus))
	_, newAt := x.follow(x.comparison.new, join(x.new.pointer, "responses", newStatus))
	handled := []string{"description", "headers", "content"}
	if x.flipped { // headers of a consumer's answer have no rules
		handled = []string{"description", "content"}
	} else {
		x.headers(oldAt, newAt, newStatus)
	}
	x.content(d, oldAt, newAt, fmt.Sprintf("response %s of %s", newStatus, x.part))
	x.rest(oldAt, newAt, handled)
}

// statusAdded adds the finding about a new status. If the old version described it by a range,
// the new description must keep what that one said.
func (x *exchange) statusAdded(status, covering string) {
	at := join(x.new.pointer, "responses", status)
	if covering != "" {
		trial := x.comparison.trial().newExchange(x.old, x.new, x.part)
		trial.flipped = x.flipped
		trial.response(covering, status)
		isSame := !slices.ContainsFunc(trial.findings, func(f Finding) bool { return f.Verdict != Compatible })
		if !isSame {
			f := x.finding("BOTH-difference-without-rule", at, Both, "the response %s differs from %s, which described it before", status, covering)
			for _, difference := range trial.findings {
				f.Parts = append(f.Parts, difference.Parts...)
			}
			x.add(f)
		}
	}
	x.add(x.finding("RES-status-added", at, Response, "the response %s is new", status))
}

// trial returns a comparison of the same documents whose findings are its own. It searches for
// no examples.
func (c *comparison) trial() *comparison {
	return &comparison{old: c.old, new: c.new, sides: c.sides, index: map[string]int{}, generate: c.generate, inUse: c.inUse, meter: c.meter, steps: c.steps}
}

// statusRemoved adds the finding about a status that is gone. Without a success that a
// consumer knows, the operation is of no use to it. covering is the status of the new version
// that describes it now, if there is one.
func (x *exchange) statusRemoved(status, covering string, news, olds map[string]any) {
	_, oldAt := x.follow(x.comparison.old, join(x.old.pointer, "responses", status))
	f := x.finding("RES-status-removed", oldAt, Response, "the response %s is gone", status)
	if covering != "" {
		f.Text = fmt.Sprintf("the response %s is described by %s", status, covering)
		x.add(f)
		return
	}
	f.Parts = append(f.Parts, x.lostSchemas(oldAt)...)
	if isSuccess(status) {
		f.Rule = "RES-success-removed"
		f.Example = &Example{
			Document: rawOf(map[string]any{"status": status}), Where: "response of " + x.part, TakenBy: "old", RefusedBy: "new",
			Reason: "the new version has no response " + status,
		}
		for _, other := range slices.Sorted(maps.Keys(news)) {
			if _, known := olds[other]; !known && isSuccess(other) {
				f.Example = &Example{
					Document: rawOf(map[string]any{"status": other}), Where: "response of " + x.part, TakenBy: "new", RefusedBy: "old",
					Reason: "the old version has no response " + other,
				}
				break
			}
		}
	}
	x.add(f)
}

// headers compares the headers of a response.
func (x *exchange) headers(oldAt, newAt, status string) {
	olds := x.headersOf(x.comparison.old, oldAt)
	news := x.headersOf(x.comparison.new, newAt)
	for _, key := range slices.Sorted(maps.Keys(olds)) {
		was := olds[key]
		is, ok := news[key]
		absent := &Example{
			Document: rawOf(map[string]any{"status": status, "headers": map[string]any{}}), Where: "response of " + x.part, TakenBy: "new", RefusedBy: "old",
			Reason: "the header " + was.name + " is missing",
		}
		switch {
		case !ok && was.required:
			f := x.finding("RES-header-removed", was.pointer, Response, "the required header %s is gone", was.name)
			f.Verdict = Breaking
			f.Example = absent
			x.add(f)
			continue
		case !ok:
			x.add(x.finding("RES-header-removed", was.pointer, Response, "the header %s is gone", was.name))
			continue
		case was.required && !is.required:
			f := x.finding("RES-header-became-optional", is.pointer, Response, "the header %s is optional now", is.name)
			f.Example = absent
			x.add(f)
		}
		x.value(Response, was.raw, is.raw, was.pointer, is.pointer, fmt.Sprintf("header %s of response %s of %s", was.name, status, x.part))
		x.rest(was.pointer, is.pointer, []string{"required", "description", "deprecated", "example", "examples", "schema", "content"})
	}
	for _, key := range slices.Sorted(maps.Keys(news)) {
		if _, ok := olds[key]; !ok {
			x.add(x.finding("RES-header-added", news[key].pointer, Response, "the header %s is new", news[key].name))
		}
	}
}

// headersOf returns the headers of a response by their names in lower case.
func (x *exchange) headersOf(s *source, pointer string) map[string]parameter {
	out := map[string]parameter{}
	for _, name := range slices.Sorted(maps.Keys(s.members(pointer + "/headers"))) {
		m, at := x.follow(s, join(pointer, "headers", name))
		required, _ := m["required"].(bool)
		out[strings.ToLower(name)] = parameter{name: name, in: "header", pointer: at, raw: m, required: required}
	}
	return out
}

// security compares what a caller needs.
func (x *exchange) security() {
	was := x.comparison.old.securityOf(x.old)
	is := x.renamedSchemes(x.comparison.new.securityOf(x.new))
	at := x.new.pointer
	if _, ok := x.new.raw["security"]; ok {
		at += "/security"
	}
	allowed := func(old map[string][]string) bool {
		return slices.ContainsFunc(is, func(new map[string][]string) bool { return needsNoMore(new, old) })
	}
	isTighter := slices.ContainsFunc(was, func(old map[string][]string) bool { return !allowed(old) })
	isSame := len(was) == len(is) && !isTighter && !slices.ContainsFunc(is, func(new map[string][]string) bool {
		return !slices.ContainsFunc(was, func(old map[string][]string) bool { return needsNoMore(old, new) })
	})
	switch {
	case isTighter:
		f := x.finding("REQ-security-tightened", at, Request, "a caller needs other credentials")
		f.Example = x.requestExample(x.old, map[string]any{"credentials": credentials(was, allowed)}, "the credentials are not enough")
		x.add(f)
	case !isSame:
		x.add(x.finding("REQ-security-loosened", at, Request, "a caller needs fewer credentials"))
	}
	for _, need := range is {
		for _, scheme := range slices.Sorted(maps.Keys(need)) {
			place := join("/components/securitySchemes", scheme)
			a, _ := x.comparison.old.follow(place)
			b, _ := x.comparison.new.follow(place)
			if a != nil && b != nil && !sameScheme(a, b) {
				x.add(x.finding("REQ-security-scheme-changed", place, Request, "the security scheme %s changed", scheme))
			}
		}
	}
}

// sameScheme reports whether credentials for one security scheme are credentials for another
// one. The new one may know more scopes.
func sameScheme(old, new map[string]any) bool {
	a := clone(withoutWords(old)).(map[string]any)
	b := clone(withoutWords(new)).(map[string]any)
	was, _ := a["flows"].(map[string]any)
	is, _ := b["flows"].(map[string]any)
	for name := range was {
		before, _ := was[name].(map[string]any)
		after, _ := is[name].(map[string]any)
		known, _ := before["scopes"].(map[string]any)
		scopes, _ := after["scopes"].(map[string]any)
		for scope := range known {
			if _, ok := scopes[scope]; !ok {
				return false
			}
		}
		delete(before, "scopes")
		delete(after, "scopes")
	}
	return equal(a, b)
}

// renamedSchemes returns the needs of the new version with the old names of schemes that have
// another name now and are otherwise the same.
func (x *exchange) renamedSchemes(needs []map[string][]string) []map[string][]string {
	const group = "/components/securitySchemes"
	olds := x.comparison.old.members(group)
	news := x.comparison.new.members(group)
	before := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(olds)) {
		if _, kept := news[name]; kept {
			continue
		}
		old, _ := x.comparison.old.follow(join(group, name))
		for _, other := range slices.Sorted(maps.Keys(news)) {
			_, known := olds[other]
			new, _ := x.comparison.new.follow(join(group, other))
			isFree := !known && before[other] == ""
			if isFree && sameScheme(old, new) {
				before[other] = name
				break
			}
		}
	}

	out := make([]map[string][]string, len(needs))
	for i, need := range needs {
		out[i] = map[string][]string{}
		for name, scopes := range need {
			if old, ok := before[name]; ok {
				name = old
			}
			out[i][name] = scopes
		}
	}
	return out
}

// withoutWords returns an object without its description.
func withoutWords(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	return without(m, "description")
}

// credentials returns the schemes that were enough before and are not any more.
func credentials(was []map[string][]string, allowed func(map[string][]string) bool) []string {
	for _, need := range was {
		if !allowed(need) {
			return append([]string{}, slices.Sorted(maps.Keys(need))...)
		}
	}
	return []string{}
}

// securityOf returns the alternatives of schemes of which a caller must meet one. A scheme
// has its scopes.
func (s *source) securityOf(op operation) []map[string][]string {
	raw, ok := op.raw["security"]
	if !ok {
		root, _ := s.base.(map[string]any)
		raw = root["security"]
	}
	list, _ := raw.([]any)
	var out []map[string][]string
	for _, item := range list {
		need := map[string][]string{}
		schemes, _ := item.(map[string]any)
		for name, scopes := range schemes {
			need[name] = []string{}
			names, _ := scopes.([]any)
			for _, scope := range names {
				need[name] = append(need[name], fmt.Sprint(scope))
			}
		}
		out = append(out, need)
	}
	if len(out) == 0 {
		out = []map[string][]string{{}}
	}
	return out
}

// needsNoMore reports whether a caller that meets have also meets need.
func needsNoMore(need, have map[string][]string) bool {
	for scheme, scopes := range need {
		given, ok := have[scheme]
		if !ok || slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(given, scope) }) {
			return false
		}
	}
	return true
}

// servers compares lists of servers.
func (c *comparison) servers(old, new any, at, part string) {
	a, _ := old.(map[string]any)
	b, _ := new.(map[string]any)
	was, _ := a["servers"].([]any)
	is, _ := b["servers"].([]any)
	if slices.EqualFunc(was, is, func(x, y any) bool { return equal(withoutWords(x), withoutWords(y)) }) {
		return
	}
	pointer := at + "/servers"
	c.add(Finding{Rule: "BOTH-server-changed", Pointer: c.new.original(pointer), Direction: Both, Text: "the servers changed", Parts: []string{part, pointer}})
}

// webhooks compares the requests that the provider sends.
func (c *comparison) webhooks() {
	news := map[string]operation{}
	for _, op := range c.new.operationsIn("/webhooks") {
		news[op.key] = op
	}
	for _, old := range c.old.operationsIn("/webhooks") {
		op, ok := news[old.key]
		delete(news, old.key)
		part := "webhook " + old.path
		if !ok {
			f := Finding{Rule: "BOTH-webhook-removed", Pointer: old.pointer, Direction: Both, Text: "the webhook " + old.path + " is gone", Parts: []string{part, old.pointer, old.site}}
			f.Parts = append(f.Parts, c.lostSchemas(old.pointer)...)
			f.Example = c.webhookExample(old, "the new version does not send the webhook "+old.path)
			c.add(f)
			continue
		}
		x := c.newExchange(old, op, part)
		x.flipped = true
		x.body()
		x.responses()
		x.rest(old.pointer, op.pointer, []string{"requestBody", "responses", "tags", "summary", "description", "externalDocs", "operationId", "deprecated"})
		x.rest(old.itemAt, op.itemAt, slices.Concat(methods, []string{"summary", "description", "$ref"}))
	}
	for _, key := range slices.Sorted(maps.Keys(news)) {
		op := news[key]
		c.add(Finding{Rule: "BOTH-webhook-added", Pointer: op.pointer, Direction: Both, Text: "the webhook " + op.path + " is new", Parts: []string{op.pointer}})
	}
}

// webhookExample returns a request that the provider sent.
func (c *comparison) webhookExample(op operation, reason string) *Example {
	example := c.requestExample(op, nil, reason)
	if example != nil {
		example.Where = "webhook " + op.path
	}
	return example
}

// requestExample returns a request that the old version takes. It has what the old version
// requires, and the given members; a body of nil leaves the body out.
func (c *comparison) requestExample(op operation, members map[string]any, reason string) *Example {
	side := c.sides[Request][0]
	c.generate.reset()
	request := map[string]any{"method": strings.ToUpper(op.method)}
	path := op.path
	valueAt := func(pointer string) (any, bool) {
		if _, ok := lookup(side.root, pointer); !ok {
			return "text", true
		}
		list := c.generate.values(conjunction{side.at(pointer)}, nil, 0)
		if len(list) == 0 {
			return nil, false
		}
		return list[0], true
	}

	// Parameters that the old version requires.
	params := c.old.parametersOf(op)
	for _, key := range slices.Sorted(maps.Keys(params)) {
		p := params[key]
		if !p.required {
			continue
		}
		v, ok := valueAt(p.pointer + "/schema")
		if !ok {
			return nil
		}
		if p.in == "path" {
			path = strings.ReplaceAll(path, "{"+p.name+"}", fmt.Sprint(v))
			continue
		}
		group, _ := request[p.in].(map[string]any)
		if group == nil {
			group = map[string]any{}
		}
		group[p.name] = v
		request[p.in] = group
	}
	request["path"] = path

	// A body, unless its absence is what the example shows.
	_, isAbsent := members["body"]
	body, at := c.old.follow(op.pointer + "/requestBody")
	if required, _ := body["required"].(bool); required && !isAbsent {
		media := mediaOf(c.old, at)
		if names := slices.Sorted(maps.Keys(media)); len(names) > 0 {
			v, ok := valueAt(join(at, "content", media[names[0]], "schema"))
			if !ok {
				return nil
			}
			request["body"] = v
		}
	}
	for name, v := range members {
		if name != "body" {
			request[name] = v
		}
	}
	return &Example{Document: rawOf(request), Where: "request " + op.name, TakenBy: "old", RefusedBy: "new", Reason: reason}
}
