package compat

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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
}

var pathName = regexp.MustCompile(`\{[^}/]*\}`)

// pathKey returns a path without the names of its parameters.
func pathKey(path string) string { return pathName.ReplaceAllString(path, "{}") }

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
				pointer: join(at, method), raw: raw, item: item, itemAt: at,
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
	raw, _ := lookup(c.old.base, "/paths")
	olds, _ := raw.(map[string]any)
	raw, _ = lookup(c.new.base, "/paths")
	news, _ := raw.(map[string]any)
	byKey := map[string]string{}
	for path := range news {
		byKey[pathKey(path)] = path
	}
	for _, path := range slices.Sorted(maps.Keys(olds)) {
		other, ok := byKey[pathKey(path)]
		if !ok {
			continue
		}
		a, oldAt := c.old.follow(join("/paths", path))
		b, newAt := c.new.follow(join("/paths", other))
		c.servers(a, b, newAt, everything)
		c.restIn(c.old, c.new, oldAt, newAt, handled, newAt)
	}
}

// components compares the schemas that no operation uses. Other components without a use say
// nothing to anybody.
func (c *comparison) components() {
	reached := c.old.reached([]string{"/paths", "/webhooks"}, nil)
	c.namedSchemas(Both, "/components/schemas", reached)
}

// operationRemoved adds the finding about an operation that is gone.
func (c *comparison) operationRemoved(old operation) {
	f := Finding{Rule: "BOTH-operation-removed", Pointer: c.old.original(old.pointer), Direction: Both, Text: "the operation " + old.name + " is gone", Parts: []string{old.name, c.old.original(old.pointer)}}
	f.Example = c.requestExample(old, nil, "the new version has no operation "+old.name)
	c.add(f)
}

// An exchange is one operation in both versions.
type exchange struct {
	*comparison
	old, new operation
	part     string // the operation as a part
	flipped  bool   // the provider sends the request: a webhook
}

// finding returns a finding about the operation.
func (x *exchange) finding(rule, pointer string, d Direction, format string, args ...any) Finding {
	return Finding{
		Rule: rule, Pointer: x.comparison.place(pointer), Direction: d, Text: fmt.Sprintf(format, args...),
		Parts: []string{x.part, x.comparison.place(pointer)},
	}
}

// operation compares one operation.
func (c *comparison) operation(old, new operation) {
	x := &exchange{comparison: c, old: old, new: new, part: old.name}
	x.parameters()
	x.body()
	x.responses()
	x.security()
	c.servers(old.raw, new.raw, new.pointer, old.name)
	handled := []string{"parameters", "requestBody", "responses", "security", "servers", "tags", "summary", "description", "externalDocs", "operationId", "deprecated", restWord}
	c.restIn(c.old, c.new, old.pointer, new.pointer, handled, old.name)
	if c.old.format == FormatShape {
		c.restIn(c.old, c.new, join(old.pointer, restWord), join(new.pointer, restWord), nil, everything)
	}
}

// A parameter is one parameter of an operation, or a header of a response.
type parameter struct {
	key, name, in string
	pointer       string
	raw           map[string]any
	required      bool
}

// parametersOf returns the parameters of an operation by their keys. A path parameter is
// known by its place in the path.
func (s *source) parametersOf(op operation) map[string]parameter {
	out := map[string]parameter{}
	order := pathName.FindAllString(op.path, -1)
	for _, at := range []string{op.itemAt, op.pointer} {
		raw, _ := lookup(s.base, at+"/parameters")
		list, _ := raw.([]any)
		for i := range list {
			m, pointer := s.follow(fmt.Sprintf("%s/parameters/%d", at, i))
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
			out[key] = parameter{key, name, in, pointer, m, required}
		}
	}
	return out
}

// parameters compares the parameters.
func (x *exchange) parameters() {
	olds := x.comparison.old.parametersOf(x.old)
	news := x.comparison.new.parametersOf(x.new)
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
	x.restIn(x.comparison.old, x.comparison.new, was.pointer, is.pointer,
		[]string{"name", "in", "required", "description", "deprecated", "example", "examples", "style", "explode", "allowReserved", "allowEmptyValue", "schema", "content"}, x.part)
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
		x.schemaAt(d, oldAt+"/schema", newAt+"/schema", newAt+"/schema", where)
		return
	}
	if had != has {
		f := x.finding("BOTH-difference-without-rule", newAt, Both, "%s is described in another way", where)
		x.add(f)
		return
	}
	x.content(d, oldAt, newAt, newAt, where)
}

// schemaAt compares two schemas of the operation. site is the place from which the operation
// leads to the schema.
func (x *exchange) schemaAt(d Direction, oldAt, newAt, site, where string) {
	contexts := []string{newAt}
	for _, at := range []string{oldAt, site} {
		if !slices.Contains(contexts, at) {
			contexts = append(contexts, at)
		}
	}
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
	was, oldAt := x.comparison.old.follow(x.old.pointer + "/requestBody")
	is, newAt := x.comparison.new.follow(x.new.pointer + "/requestBody")
	wasRequired, _ := was["required"].(bool)
	isRequired, _ := is["required"].(bool)
	where := "body of " + x.part
	missing := func(rule, text string) {
		f := x.finding(rule, newAt, d, "%s", text)
		if !x.flipped {
			f.Example = x.requestExample(x.old, map[string]any{"body": nil}, "the body is missing")
		}
		x.add(f)
	}
	switch {
	case was == nil && is == nil:
		return
	case was == nil && isRequired:
		missing("REQ-body-became-required", "a body is required now")
		return
	case was == nil:
		x.add(x.finding("REQ-body-added", newAt, d, "an optional body is new"))
		return
	case is == nil:
		x.add(x.finding("REQ-body-removed", oldAt, d, "the request has no body any more"))
		return
	case !wasRequired && isRequired && d == Request:
		missing("REQ-body-became-required", "the body is required now")
	case wasRequired && !isRequired && d == Response:
		x.add(x.finding("BOTH-difference-without-rule", newAt, Both, "the body of the webhook is optional now"))
	}
	x.content(d, oldAt, newAt, x.new.pointer+"/requestBody", where)
	x.restIn(x.comparison.old, x.comparison.new, oldAt, newAt, []string{"required", "content", "description"}, x.part)
}

// content compares the media types of a body, a response or a parameter.
func (x *exchange) content(d Direction, oldAt, newAt, site, where string) {
	olds := mediaOf(x.comparison.old, oldAt)
	news := mediaOf(x.comparison.new, newAt)
	prefix := "REQ"
	if d == Response {
		prefix = "RES"
	}
	for _, media := range slices.Sorted(maps.Keys(olds)) {
		a := join(oldAt, "content", olds[media])
		other, ok := news[media]
		if !ok {
			f := x.finding(prefix+"-media-type-removed", a, d, "the media type %s of the %s is gone", media, where)
			if d == Request && !x.flipped {
				f.Example = x.requestExample(x.old, map[string]any{"content_type": media}, "the media type "+media+" is not taken")
			}
			x.add(f)
			continue
		}
		b := join(newAt, "content", other)
		x.media(d, a, b, join(site, "content", other), where)
	}
	for _, media := range slices.Sorted(maps.Keys(news)) {
		if _, ok := olds[media]; !ok {
			x.add(x.finding(prefix+"-media-type-added", join(newAt, "content", news[media]), d, "the media type %s of the %s is new", media, where))
		}
	}
}

// media compares one media type.
func (x *exchange) media(d Direction, oldAt, newAt, site, where string) {
	_, had := lookup(x.comparison.old.base, oldAt+"/schema")
	_, has := lookup(x.comparison.new.base, newAt+"/schema")
	switch {
	case had && has:
		x.schemaAt(d, oldAt+"/schema", newAt+"/schema", site+"/schema", where)
	case had != has:
		x.add(x.finding("BOTH-difference-without-rule", newAt, Both, "the %s has a schema in one version only", where))
	}
	x.restIn(x.comparison.old, x.comparison.new, oldAt, newAt, []string{"schema", "example", "examples"}, x.part)
}

// mediaOf returns the media types in the content at a pointer: in lower case, without blanks,
// with their names in the document.
func mediaOf(s *source, pointer string) map[string]string {
	raw, _ := lookup(s.base, pointer+"/content")
	content, _ := raw.(map[string]any)
	out := map[string]string{}
	for name := range content {
		out[strings.ToLower(strings.ReplaceAll(name, " ", ""))] = name
	}
	return out
}

// responses compares the responses by status.
func (x *exchange) responses() {
	d := Response
	if x.flipped {
		d = Request
	}
	olds, _ := x.old.raw["responses"].(map[string]any)
	news, _ := x.new.raw["responses"].(map[string]any)
	for _, status := range slices.Sorted(maps.Keys(olds)) {
		if strings.HasPrefix(status, "x-") {
			continue
		}
		_, oldAt := x.comparison.old.follow(join(x.old.pointer, "responses", status))
		if _, ok := news[status]; !ok {
			x.statusRemoved(status, oldAt, news, olds)
			continue
		}
		_, newAt := x.comparison.new.follow(join(x.new.pointer, "responses", status))
		where := fmt.Sprintf("response %s of %s", status, x.part)
		x.headers(d, oldAt, newAt, status)
		x.content(d, oldAt, newAt, join(x.new.pointer, "responses", status), where)
		x.restIn(x.comparison.old, x.comparison.new, oldAt, newAt, []string{"description", "headers", "content"}, x.part)
	}
	for _, status := range slices.Sorted(maps.Keys(news)) {
		if _, ok := olds[status]; !ok {
			x.add(x.finding("RES-status-added", join(x.new.pointer, "responses", status), Response, "the response %s is new", status))
		}
	}
}

// statusRemoved adds the finding about a status that is gone. Without a success that a
// consumer knows, the operation is of no use to it.
func (x *exchange) statusRemoved(status, oldAt string, news, olds map[string]any) {
	f := x.finding("RES-status-removed", oldAt, Response, "the response %s is gone", status)
	if strings.HasPrefix(status, "2") {
		f.Rule = "RES-success-removed"
		for _, other := range slices.Sorted(maps.Keys(news)) {
			if _, known := olds[other]; !known && strings.HasPrefix(other, "2") {
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
func (x *exchange) headers(d Direction, oldAt, newAt, status string) {
	olds := headersOf(x.comparison.old, oldAt)
	news := headersOf(x.comparison.new, newAt)
	for _, key := range slices.Sorted(maps.Keys(olds)) {
		was := olds[key]
		is, ok := news[key]
		where := fmt.Sprintf("header %s of response %s of %s", was.name, status, x.part)
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
		x.value(d, was.raw, is.raw, was.pointer, is.pointer, where)
		x.restIn(x.comparison.old, x.comparison.new, was.pointer, is.pointer, []string{"required", "description", "deprecated", "example", "examples", "schema", "content"}, x.part)
	}
	for _, key := range slices.Sorted(maps.Keys(news)) {
		if _, ok := olds[key]; !ok {
			x.add(x.finding("RES-header-added", news[key].pointer, Response, "the header %s is new", news[key].name))
		}
	}
}

// headersOf returns the headers of a response by their names in lower case.
func headersOf(s *source, pointer string) map[string]parameter {
	raw, _ := lookup(s.base, pointer+"/headers")
	members, _ := raw.(map[string]any)
	out := map[string]parameter{}
	for name := range members {
		m, at := s.follow(join(pointer, "headers", name))
		required, _ := m["required"].(bool)
		out[strings.ToLower(name)] = parameter{name: name, in: "header", pointer: at, raw: m, required: required}
	}
	return out
}

// security compares what a caller needs.
func (x *exchange) security() {
	was := x.comparison.old.securityOf(x.old)
	is := x.comparison.new.securityOf(x.new)
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
			a, ok := lookup(x.comparison.old.base, place)
			b, _ := lookup(x.comparison.new.base, place)
			if ok && x.comparison.old.closureOf(withoutWords(a)) != x.comparison.new.closureOf(withoutWords(b)) {
				x.add(x.finding("REQ-security-scheme-changed", place, Request, "the security scheme %s changed", scheme))
			}
		}
	}
}

// withoutWords returns an object without its description.
func withoutWords(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	delete(m, "description")
	return m
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
			c.add(Finding{Rule: "BOTH-webhook-removed", Pointer: old.pointer, Direction: Both, Text: "the webhook " + old.path + " is gone", Parts: []string{part, old.pointer}})
			continue
		}
		x := &exchange{comparison: c, old: old, new: op, part: part, flipped: true}
		x.body()
		x.responses()
		handled := []string{"requestBody", "responses", "tags", "summary", "description", "externalDocs", "operationId", "deprecated"}
		c.restIn(c.old, c.new, old.pointer, op.pointer, handled, part)
	}
	for _, key := range slices.Sorted(maps.Keys(news)) {
		op := news[key]
		c.add(Finding{Rule: "BOTH-webhook-added", Pointer: op.pointer, Direction: Both, Text: "the webhook " + op.path + " is new", Parts: []string{op.pointer}})
	}
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
		for _, media := range slices.Sorted(maps.Keys(mediaOf(c.old, at))) {
			v, ok := valueAt(join(at, "content", mediaOf(c.old, at)[media], "schema"))
			if !ok {
				return nil
			}
			request["body"] = v
			break
		}
	}
	for name, v := range members {
		if name != "body" {
			request[name] = v
		}
	}
	return &Example{Document: rawOf(request), Where: "request " + op.name, TakenBy: "old", RefusedBy: "new", Reason: reason}
}
