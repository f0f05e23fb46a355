package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
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
	keyOfComponent = pattern.New(`^[a-zA-Z0-9._-]+$`)
	statusName     = pattern.New(`^(default|[1-5]([0-9][0-9]|XX))$`)
	pathStart      = pattern.New(`^/`)
	variableName   = pattern.New(`\{[^{}]+\}`)
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
	"Named": {named: "any", names: keyOfComponent()},
	"Paths": {named: "PathItem", names: pathStart()},
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
	"Responses": {named: "Response", names: statusName()},
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
	"ImplicitFlow": {members: map[string]string{"authorizationUrl": "string", "refreshUrl": "string", "scopes": "{}string"}, required: []string{"authorizationUrl", "scopes"}},
	"TokenFlow":    {members: map[string]string{"tokenUrl": "string", "refreshUrl": "string", "scopes": "{}string"}, required: []string{"tokenUrl", "scopes"}},
	"CodeFlow": {members: map[string]string{
		"authorizationUrl": "string", "tokenUrl": "string", "refreshUrl": "string", "scopes": "{}string",
	}, required: []string{"authorizationUrl", "tokenUrl", "scopes"}},
}

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
		if inComponents && !keyOfComponent().MatchString(name) {
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
	switch kind {
	case "Document":
		return c.tagsOnce(members, pointer)
	case "License", "Example", "MediaType":
		return c.exclusive(kind, members, pointer)
	case "Server":
		return c.server(members, pointer)
	case "Operation":
		return c.operation(members, pointer)
	case "Parameter", "Header":
		return c.parameter(members, pointer)
	case "Link":
		_, ref := members["operationRef"]
		_, id := members["operationId"]
		if ref == id {
			return c.refuse(pointer, "it needs either operationRef or operationId")
		}
	case "Responses":
		if len(members) == 0 {
			return c.refuse(pointer, "it needs at least one response")
		}
	case "SecurityScheme":
		return c.securityScheme(members, pointer)
	}
	return nil
}

// exclusives are two members of which an object may have one.
var exclusives = map[string][2]string{
	"License": {"identifier", "url"}, "Example": {"value", "externalValue"}, "MediaType": {"example", "examples"}, "Parameter": {"example", "examples"},
}

// exclusive checks that an object has one of two members at most.
func (c *apiCheck) exclusive(kind string, members map[string]any, pointer string) error {
	pair := exclusives[kind]
	_, first := members[pair[0]]
	_, second := members[pair[1]]
	if first && second {
		return c.refuse(pointer, "it has both %s and %s", pair[0], pair[1])
	}
	return nil
}

// tagsOnce checks that no two tags have the same name.
func (c *apiCheck) tagsOnce(members map[string]any, pointer string) error {
	tags, _ := members["tags"].([]any)
	seen := map[string]bool{}
	for i, item := range tags {
		tag, _ := item.(map[string]any)
		name, _ := tag["name"].(string)
		if seen[name] {
			return c.refuse(join(pointer, "tags", itoa(i)), "the tag %q is there twice", name)
		}
		seen[name] = true
	}
	return nil
}

// server checks that the URL of a server has the variables that are declared, and no others.
func (c *apiCheck) server(members map[string]any, pointer string) error {
	address, _ := members["url"].(string)
	if address == "" || strings.Count(address, "{") != strings.Count(address, "}") {
		return c.refuse(join(pointer, "url"), "%q is not a URL or a template of one", address)
	}
	variables, _ := members["variables"].(map[string]any)
	for _, name := range variableName().FindAllString(address, -1) {
		if _, ok := variables[strings.Trim(name, "{}")]; !ok {
			return c.refuse(join(pointer, "url"), "the variable %s is not declared", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !strings.Contains(address, "{"+name+"}") {
			return c.refuse(join(pointer, "variables", name), "the URL has no variable {%s}", name)
		}
	}
	return nil
}

// stylesOf are the styles of parameters by their place.
var stylesOf = map[string][]string{
	"path": {"simple", "label", "matrix"}, "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"}, "header": {"simple"}, "cookie": {"form"},
}

// parameter checks a parameter, or a header of a response, which has no place.
func (c *apiCheck) parameter(members map[string]any, pointer string) error {
	_, hasSchema := members["schema"]
	content, hasContent := members["content"].(map[string]any)
	in, isPlaced := members["in"].(string)
	style, isStyled := members["style"].(string)
	switch {
	case hasSchema == hasContent:
		return c.refuse(pointer, "it needs either schema or content")
	case hasContent && len(content) != 1:
		return c.refuse(join(pointer, "content"), "it must have exactly one media type")
	case in == "path" && members["required"] != true:
		return c.refuse(pointer, "a parameter of the path must have required: true")
	case isPlaced && members["name"] == "":
		return c.refuse(join(pointer, "name"), "it must not be empty")
	case isPlaced && isStyled && !slices.Contains(stylesOf[in], style):
		return c.refuse(join(pointer, "style"), "a parameter in %s has one of the styles %s", in, strings.Join(stylesOf[in], ", "))
	}
	return c.exclusive("Parameter", members, pointer)
}

// securityScheme checks that a security scheme has the members of its type, and no others.
func (c *apiCheck) securityScheme(members map[string]any, pointer string) error {
	word, _ := members["type"].(string)
	if word == "mutualTLS" && c.old {
		return c.refuse(join(pointer, "type"), "mutualTLS needs version 3.1")
	}
	for _, name := range schemeNeeds[word] {
		if text, ok := members[name]; !ok || text == "" {
			return c.refuse(pointer, "the member %q is missing for the type %s", name, word)
		}
	}

	allowed := slices.Concat([]string{"type", "description"}, schemeNeeds[word])
	if scheme, _ := members["scheme"].(string); strings.EqualFold(scheme, "bearer") {
		allowed = append(allowed, "bearerFormat")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(allowed, name) && !isExtension(name) {
			return c.refuse(join(pointer, name), "a security scheme of the type %s has no member %q", word, name)
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

	for _, name := range pathName().FindAllString(op.path, -1) {
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

// checkOldSchema refuses what JSON Schema allows and OpenAPI 3.0 does not. Keywords that 3.0
// does not know are no mistake: they mean what 3.1 says.
func (s *source) checkOldSchema(pointer string, schema map[string]any) error {
	if _, isRef := schema["$ref"]; isRef {
		return nil
	}
	refuse := func(at, format string, args ...any) error {
		return s.tree.refuse(at, "not valid OpenAPI: "+format, args...)
	}
	word, isWord := schema["type"].(string)
	_, isTyped := schema["type"]
	_, hasItems := schema["items"]
	switch {
	case isTyped && !isWord:
		return refuse(join(pointer, "type"), "a list of types needs version 3.1")
	case word == "null":
		return refuse(join(pointer, "type"), "the type null needs version 3.1; use nullable")
	case word == "array" && !hasItems:
		return refuse(pointer, "a schema of the type array needs items")
	case schema["readOnly"] == true && schema["writeOnly"] == true:
		return refuse(pointer, "it is readOnly and writeOnly")
	}
	for _, name := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		if _, isNumber := schema[name].(json.Number); isNumber {
			return refuse(join(pointer, name), "a number needs version 3.1; use true beside the bound")
		}
	}
	if at := boolSchema(schema); at != "" {
		return refuse(pointer+at, "a schema that is true or false needs version 3.1")
	}
	return nil
}

// boolSchema returns the place of a schema inside another one that is true or false, "" if
// there is none. additionalProperties may be.
func boolSchema(schema map[string]any) string {
	isBool := func(v any) bool { _, ok := v.(bool); return ok }
	for _, name := range inOne {
		if name != "additionalProperties" && isBool(schema[name]) {
			return join("", name)
		}
	}
	for _, name := range inList {
		list, _ := schema[name].([]any)
		if i := slices.IndexFunc(list, isBool); i >= 0 {
			return join("", name, itoa(i))
		}
	}
	for _, name := range inMap {
		members, _ := schema[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(members)) {
			if isBool(members[key]) {
				return join("", name, key)
			}
		}
	}
	return ""
}

// checkDiscriminator checks the object that chooses among alternatives.
func (s *source) checkDiscriminator(pointer string, schema map[string]any) error {
	raw, ok := schema["discriminator"]
	if !ok {
		return nil
	}
	at := join(pointer, "discriminator")
	members, _ := raw.(map[string]any)
	if _, ok := members["propertyName"].(string); !ok {
		return s.tree.refuse(at, "not valid OpenAPI: a discriminator must be an object with the member propertyName")
	}
	mapping, isMap := members["mapping"].(map[string]any)
	if _, ok := members["mapping"]; ok && !isMap {
		return s.tree.refuse(join(at, "mapping"), "not valid OpenAPI: it must be an object")
	}
	for _, value := range slices.Sorted(maps.Keys(mapping)) {
		if _, ok := mapping[value].(string); !ok {
			return s.tree.refuse(join(at, "mapping", value), "not valid OpenAPI: it must be a string")
		}
	}
	return nil
}
