package compat

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// An object is the description of one object of OpenAPI: its members and their kinds.
//
// A kind is `string`, `boolean`, `any`, a list of words (`a|b`), the name of an object of the
// table, or one of these behind `[]` (a list) or `{}` (an object whose members the author names).
type object struct {
	members  map[string]string
	required []string
	newer    []string // members that only 3.1 has
	named    string   // the kind of all members with other names, as in paths and responses
	names    *regexp.Regexp
	refers   bool // it may be a reference
}

var (
	keyOfComponent = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
	statusName     = regexp.MustCompile(`^(default|[1-5]([0-9][0-9]|XX))$`)
	pathStart      = regexp.MustCompile(`^/`)
)

// objects are the objects of OpenAPI 3.0 and 3.1 by name. Schemas are not among them: they are
// checked as JSON Schemas.
var objects = map[string]object{
	"Document": {members: map[string]string{
		"openapi": "string", "info": "Info", "servers": "[]Server", "paths": "Paths", "components": "Components", "security": "[]Security", "tags": "[]Tag",
		"externalDocs": "ExternalDocs", "webhooks": "{}PathItem", "jsonSchemaDialect": "string",
	}, required: []string{"openapi"}, newer: []string{"webhooks", "jsonSchemaDialect"}},
	"Info": {members: map[string]string{
		"title": "string", "summary": "string", "description": "string", "termsOfService": "string", "contact": "Contact", "license": "License", "version": "string",
	}, required: []string{"title", "version"}, newer: []string{"summary"}},
	"Contact":        {members: map[string]string{"name": "string", "url": "string", "email": "string"}},
	"License":        {members: map[string]string{"name": "string", "identifier": "string", "url": "string"}, required: []string{"name"}, newer: []string{"identifier"}},
	"Server":         {members: map[string]string{"url": "string", "description": "string", "variables": "{}ServerVariable"}, required: []string{"url"}},
	"ServerVariable": {members: map[string]string{"enum": "[]string", "default": "string", "description": "string"}, required: []string{"default"}},
	"Tag":            {members: map[string]string{"name": "string", "description": "string", "externalDocs": "ExternalDocs"}, required: []string{"name"}},
	"ExternalDocs":   {members: map[string]string{"description": "string", "url": "string"}, required: []string{"url"}},
	"Security":       {named: "[]string"},

	"Components": {members: map[string]string{
		"schemas": "Named", "responses": "{}Response", "parameters": "{}Parameter", "examples": "{}Example", "requestBodies": "{}RequestBody", "headers": "{}Header",
		"securitySchemes": "{}SecurityScheme", "links": "{}Link", "callbacks": "{}Callback", "pathItems": "{}PathItem",
	}, newer: []string{"pathItems"}},
	"Named": {named: "any", names: keyOfComponent},
	"Paths": {named: "PathItem", names: pathStart},
	"PathItem": {members: map[string]string{
		"summary": "string", "description": "string", "servers": "[]Server", "parameters": "[]Parameter", "get": "Operation", "put": "Operation", "post": "Operation",
		"delete": "Operation", "options": "Operation", "head": "Operation", "patch": "Operation", "trace": "Operation", "connect": "Operation",
	}, refers: true},
	"Operation": {members: map[string]string{
		"tags": "[]string", "summary": "string", "description": "string", "externalDocs": "ExternalDocs", "operationId": "string", "parameters": "[]Parameter",
		"requestBody": "RequestBody", "responses": "Responses", "callbacks": "{}Callback", "deprecated": "boolean", "security": "[]Security", "servers": "[]Server",
	}},
	"Callback": {named: "PathItem", refers: true},

	"Parameter": {members: map[string]string{
		"name": "string", "in": "query|header|path|cookie", "description": "string", "required": "boolean", "deprecated": "boolean", "allowEmptyValue": "boolean",
		"style": "matrix|label|simple|form|spaceDelimited|pipeDelimited|deepObject", "explode": "boolean", "allowReserved": "boolean", "schema": "any", "example": "any",
		"examples": "{}Example", "content": "{}MediaType",
	}, required: []string{"name", "in"}, refers: true},
	"Header": {members: map[string]string{
		"description": "string", "required": "boolean", "deprecated": "boolean", "allowEmptyValue": "boolean", "style": "simple", "explode": "boolean",
		"allowReserved": "boolean", "schema": "any", "example": "any", "examples": "{}Example", "content": "{}MediaType",
	}, refers: true},
	"RequestBody": {members: map[string]string{"description": "string", "content": "{}MediaType", "required": "boolean"}, required: []string{"content"}, refers: true},
	"MediaType":   {members: map[string]string{"schema": "any", "example": "any", "examples": "{}Example", "encoding": "{}Encoding"}},
	"Encoding": {members: map[string]string{
		"contentType": "string", "headers": "{}Header", "style": "form|spaceDelimited|pipeDelimited|deepObject", "explode": "boolean", "allowReserved": "boolean",
	}},
	"Responses": {named: "Response", names: statusName},
	"Response": {members: map[string]string{
		"description": "string", "headers": "{}Header", "content": "{}MediaType", "links": "{}Link",
	}, required: []string{"description"}, refers: true},
	"Example": {members: map[string]string{"summary": "string", "description": "string", "value": "any", "externalValue": "string"}, refers: true},
	"Link": {members: map[string]string{
		"operationRef": "string", "operationId": "string", "parameters": "{}any", "requestBody": "any", "description": "string", "server": "Server",
	}, refers: true},

	"SecurityScheme": {members: map[string]string{
		"type": "apiKey|http|mutualTLS|oauth2|openIdConnect", "description": "string", "name": "string", "in": "query|header|cookie", "scheme": "string",
		"bearerFormat": "string", "flows": "Flows", "openIdConnectUrl": "string",
	}, required: []string{"type"}, refers: true},
	"Flows":        {members: map[string]string{"implicit": "ImplicitFlow", "password": "TokenFlow", "clientCredentials": "TokenFlow", "authorizationCode": "CodeFlow"}},
	"ImplicitFlow": {members: flowMembers, required: []string{"authorizationUrl", "scopes"}},
	"TokenFlow":    {members: flowMembers, required: []string{"tokenUrl", "scopes"}},
	"CodeFlow":     {members: flowMembers, required: []string{"authorizationUrl", "tokenUrl", "scopes"}},
}

// flowMembers are the members of the flows of OAuth.
var flowMembers = map[string]string{"authorizationUrl": "string", "tokenUrl": "string", "refreshUrl": "string", "scopes": "{}string"}

// schemeNeeds are the members that each type of security scheme needs.
var schemeNeeds = map[string][]string{
	"apiKey": {"name", "in"}, "http": {"scheme"}, "oauth2": {"flows"}, "openIdConnect": {"openIdConnectUrl"},
}

// An apiCheck checks the objects of one OpenAPI document against the table.
type apiCheck struct {
	*source
	doc     map[string]any
	old     bool              // 3.0
	visited map[string]bool   // kinds and places that were checked
	ids     map[string]string // places of operations by operationId
}

// checkOpenAPI checks the objects of a document, and what holds between them.
func (s *source) checkOpenAPI(doc map[string]any, old bool) error {
	c := &apiCheck{source: s, doc: doc, old: old, visited: map[string]bool{}, ids: map[string]string{}}
	if err := c.value("Document", doc, ""); err != nil {
		return err
	}
	return c.paths()
}

// refuse returns the refusal of a value of the document.
func (c *apiCheck) refuse(pointer, format string, args ...any) error {
	return c.tree.refuse(pointer, "not valid OpenAPI: "+format, args...)
}

// value checks a value of a kind.
func (c *apiCheck) value(kind string, value any, pointer string) error {
	switch {
	case kind == "any":
		return nil
	case strings.HasPrefix(kind, "[]"):
		return c.list(kind[2:], value, pointer)
	case strings.HasPrefix(kind, "{}"):
		return c.named(kind[2:], value, pointer)
	case kind == "boolean":
		if _, ok := value.(bool); !ok {
			return c.refuse(pointer, "it must be true or false")
		}
		return nil
	}
	if o, ok := objects[kind]; ok {
		return c.object(kind, o, value, pointer)
	}

	// What is left is a text, or one of a few words.
	text, ok := value.(string)
	switch {
	case !ok:
		return c.refuse(pointer, "it must be a string")
	case kind != "string" && !slices.Contains(strings.Split(kind, "|"), text):
		return c.refuse(pointer, "%q is not one of %s", text, strings.ReplaceAll(kind, "|", ", "))
	}
	return nil
}

// list checks a list of values of a kind.
func (c *apiCheck) list(kind string, value any, pointer string) error {
	items, ok := value.([]any)
	if !ok {
		return c.refuse(pointer, "it must be a list")
	}
	for i, item := range items {
		if err := c.value(kind, item, fmt.Sprintf("%s/%d", pointer, i)); err != nil {
			return err
		}
	}
	if kind == "Parameter" {
		return c.parametersOnce(pointer, items)
	}
	return nil
}

// named checks an object whose members the author names.
func (c *apiCheck) named(kind string, value any, pointer string) error {
	members, ok := value.(map[string]any)
	if !ok {
		return c.refuse(pointer, "it must be an object")
	}
	inComponents := strings.Count(pointer, "/") == 2 && strings.HasPrefix(pointer, "/components/")
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if inComponents && !keyOfComponent.MatchString(name) {
			return c.refuse(join(pointer, name), "the name of a component has letters, digits, '.', '_' and '-' only")
		}
		if err := c.value(kind, members[name], join(pointer, name)); err != nil {
			return err
		}
	}
	return nil
}

// object checks an object of the table, or the reference to one.
func (c *apiCheck) object(kind string, o object, value any, pointer string) error {
	members, ok := value.(map[string]any)
	if !ok {
		return c.refuse(pointer, "it must be an object")
	}
	if c.visited[kind+pointer] {
		return nil
	}
	c.visited[kind+pointer] = true
	if ref, is := members["$ref"].(string); is && o.refers {
		return c.reference(kind, members, ref, pointer)
	}

	for _, name := range o.required {
		if _, ok := members[name]; !ok {
			return c.refuse(pointer, "the member %q is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := c.member(o, name, members[name], join(pointer, name)); err != nil {
			return err
		}
	}
	return c.together(kind, members, pointer)
}

// member checks one member of an object of the table.
func (c *apiCheck) member(o object, name string, value any, pointer string) error {
	kind, known := o.members[name]
	if known && c.old && slices.Contains(o.newer, name) {
		known = false
	}
	switch {
	case strings.HasPrefix(name, "x-"):
		return nil
	case known:
		return c.value(kind, value, pointer)
	case o.named == "":
		return c.refuse(pointer, "the member %q is unknown; the name of an extension begins with x-", name)
	case o.names != nil && !o.names.MatchString(name):
		return c.refuse(pointer, "the name %q is not allowed here", name)
	}
	return c.value(o.named, value, pointer)
}

// reference checks that a reference leads to an object of the wanted kind. The reference
// itself was followed by checkReferences.
func (c *apiCheck) reference(kind string, members map[string]any, ref, pointer string) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		isText := slices.Contains([]string{"$ref", "summary", "description"}, name)
		if !isText && !strings.HasPrefix(name, "x-") {
			return c.refuse(join(pointer, name), "a reference has no members beside summary and description")
		}
	}
	at := decodePercent(strings.TrimPrefix(ref, "#"))
	target, ok := lookup(c.doc, at)
	if !ok {
		return c.refuse(join(pointer, "$ref"), "the reference %q leads nowhere", ref)
	}
	return c.value(kind, target, at)
}

// together checks rules about several members of one object.
func (c *apiCheck) together(kind string, members map[string]any, pointer string) error {
	has := func(name string) bool { _, ok := members[name]; return ok }
	switch kind {
	case "Operation":
		return c.operation(members, pointer)
	case "Parameter", "Header":
		content, _ := members["content"].(map[string]any)
		switch {
		case has("schema") == has("content"):
			return c.refuse(pointer, "it needs either schema or content")
		case has("content") && len(content) != 1:
			return c.refuse(join(pointer, "content"), "it must have exactly one media type")
		case members["in"] == "path" && members["required"] != true:
			return c.refuse(pointer, "a parameter of the path must have required: true")
		}
	case "Example":
		if has("value") && has("externalValue") {
			return c.refuse(pointer, "it has both value and externalValue")
		}
	case "Link":
		if has("operationRef") == has("operationId") {
			return c.refuse(pointer, "it needs either operationRef or operationId")
		}
	case "Responses":
		if len(members) == 0 {
			return c.refuse(pointer, "it needs at least one response")
		}
	case "SecurityScheme":
		word, _ := members["type"].(string)
		if word == "mutualTLS" && c.old {
			return c.refuse(join(pointer, "type"), "mutualTLS needs version 3.1")
		}
		for _, name := range schemeNeeds[word] {
			if !has(name) {
				return c.refuse(pointer, "the member %q is missing for the type %s", name, word)
			}
		}
	}
	return nil
}

// operation checks that an operation has responses where its version wants them, and that no
// other operation has its id.
func (c *apiCheck) operation(members map[string]any, pointer string) error {
	if _, ok := members["responses"]; !ok && c.old {
		return c.refuse(pointer, "the member %q is missing", "responses")
	}
	id, ok := members["operationId"].(string)
	if !ok {
		return nil
	}
	if other, taken := c.ids[id]; taken {
		return c.refuse(join(pointer, "operationId"), "the operation at %s has the id %q, too", other, id)
	}
	c.ids[id] = pointer
	return nil
}

// parametersOnce checks that a list has no parameter twice.
func (c *apiCheck) parametersOnce(pointer string, items []any) error {
	seen := map[string]bool{}
	for i := range items {
		at := fmt.Sprintf("%s/%d", pointer, i)
		p, _ := c.follow(at)
		key := fmt.Sprint(p["in"], " ", p["name"])
		if seen[key] {
			return c.refuse(at, "the parameter %v in %v is there twice", p["name"], p["in"])
		}
		seen[key] = true
	}
	return nil
}

// paths checks that no two paths mean the same requests, and that each operation declares the
// parameters of its path.
func (c *apiCheck) paths() error {
	seen := map[string]string{}
	paths, _ := c.doc["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		at := join("/paths", path)
		if other, taken := seen[pathKey(path)]; taken {
			return c.refuse(at, "the path %s means the same requests", other)
		}
		seen[pathKey(path)] = path
	}

	for _, op := range c.operations() {
		if strings.HasPrefix(op.path, "x-") {
			continue
		}
		if err := c.pathParameters(op); err != nil {
			return err
		}
	}
	return nil
}

// pathParameters checks the parameters of one operation against the names in its path.
func (c *apiCheck) pathParameters(op operation) error {
	declared := map[string]bool{}
	for _, list := range []string{join(op.itemAt, "parameters"), join(op.pointer, "parameters")} {
		raw, _ := lookup(c.base, list)
		items, _ := raw.([]any)
		for i := range items {
			p, _ := c.follow(fmt.Sprintf("%s/%d", list, i))
			if name, ok := p["name"].(string); ok && p["in"] == "path" {
				declared[name] = true
			}
		}
	}

	for _, name := range pathName.FindAllString(op.path, -1) {
		name = strings.Trim(name, "{}")
		if !declared[name] {
			return c.refuse(op.pointer, "the parameter %q of the path %s is not declared", name, op.path)
		}
		delete(declared, name)
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		return c.refuse(op.pointer, "the path %s has no parameter %q", op.path, name)
	}
	return nil
}

// checkOldSchema refuses what JSON Schema allows and OpenAPI 3.0 does not.
func (s *source) checkOldSchema(pointer string, schema map[string]any) error {
	if _, isRef := schema["$ref"]; isRef {
		return nil
	}
	word, isWord := schema["type"].(string)
	if _, has := schema["type"]; has && !isWord {
		return s.tree.refuse(join(pointer, "type"), "not valid OpenAPI: a list of types needs version 3.1")
	}
	if _, has := schema["items"]; word == "array" && !has {
		return s.tree.refuse(pointer, "not valid OpenAPI: a schema of the type array needs items")
	}
	return nil
}
