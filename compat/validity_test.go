package compat_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/compat"
)

// apiOf returns a whole document of a version with more members.
func apiOf(version, members string) string {
	paths := `"paths":{},`
	if strings.Contains(members, `"paths"`) {
		paths = ""
	}
	return fmt.Sprintf(`{"openapi":%q,"info":{"title":"api","version":"1"},%s%s}`, version, paths, members)
}

// operationOf returns a document with one operation that has more members.
func operationOf(version, members string) string {
	return apiOf(version, `"paths":{"/a":{"get":{"responses":{"200":{"description":"ok"}},`+members+`}}}`)
}

// parameterOf returns a document with one parameter.
func parameterOf(version, parameter string) string {
	return operationOf(version, `"parameters":[`+parameter+`]`)
}

// responseOf returns a document with one response.
func responseOf(version, response string) string {
	return apiOf(version, `"paths":{"/a":{"get":{"responses":{"200":`+response+`}}}}`)
}

// schemaOf returns a document with one schema.
func schemaOf(version, schema string) string {
	return apiOf(version, `"components":{"schemas":{"A":`+schema+`}}`)
}

// schemeOf returns a document with one security scheme.
func schemeOf(version, scheme string) string {
	return apiOf(version, `"components":{"securitySchemes":{"S":`+scheme+`}}`)
}

// TestInvalidAPIs checks that invalid documents are refused with a place, apart from those that
// docs/contracts.md says are taken.
func TestInvalidAPIs(t *testing.T) {
	const v0, v1 = "3.0.3", "3.1.0"
	for _, c := range []struct{ name, text string }{
		{"a type that does not exist", schemaOf(v0, `{"type":"objekt"}`)},
		{"a type that does not exist in 3.1", schemaOf(v1, `{"type":"objekt"}`)},
		{"a list of types in 3.0", schemaOf(v0, `{"type":["string","null"]}`)},
		{"the type null in 3.0", schemaOf(v0, `{"type":"null"}`)},
		{"an array without items in 3.0", schemaOf(v0, `{"type":"array"}`)},
		{"a number for exclusiveMinimum in 3.0", schemaOf(v0, `{"type":"number","exclusiveMinimum":1}`)},
		{"true for exclusiveMaximum in 3.1", schemaOf(v1, `{"type":"number","maximum":1,"exclusiveMaximum":true}`)},
		{"true for a property in 3.0", schemaOf(v0, `{"type":"object","properties":{"a":true}}`)},
		{"true for a schema in 3.0", responseOf(v0, `{"description":"","content":{"application/json":{"schema":true}}}`)},
		{"readOnly and writeOnly", schemaOf(v0, `{"type":"string","readOnly":true,"writeOnly":true}`)},
		{"a required name twice", schemaOf(v1, `{"type":"object","required":["a","a"]}`)},
		{"required that is no list", schemaOf(v0, `{"type":"object","required":true}`)},
		{"properties that are a list", schemaOf(v0, `{"type":"object","properties":["a"]}`)},
		{"a minimum that is a text", schemaOf(v0, `{"type":"integer","minimum":"1"}`)},
		{"a reference to nothing", schemaOf(v0, `{"$ref":"#/components/schemas/B"}`)},
		{"a reference to another file", schemaOf(v0, `{"$ref":"other.json"}`)},
		{"the name of a component", apiOf(v0, `"components":{"schemas":{"A b":{"type":"string"}}}`)},
		{"no responses in 3.0", apiOf(v0, `"paths":{"/a":{"get":{}}}`)},
		{"empty responses", apiOf(v0, `"paths":{"/a":{"get":{"responses":{}}}}`)},
		{"a response without a description", responseOf(v0, `{}`)},
		{"a path without a slash", apiOf(v0, `"paths":{"a":{"get":{"responses":{"200":{"description":"ok"}}}}}`)},
		{"two paths for the same requests", apiOf(v0, `"paths":{"/a/{x}":{},"/a/{y}":{}}`)},
		{"a parameter of the path that is not declared", apiOf(v0, `"paths":{"/a/{id}":{"get":{"responses":{"200":{"description":"ok"}}}}}`)},
		{"a parameter of the path that is not in it", parameterOf(v0, `{"in":"path","name":"id","required":true,"schema":{"type":"string"}}`)},
		{"an optional parameter of the path", apiOf(v0, `"paths":{"/a/{id}":{"get":{"parameters":[{"in":"path","name":"id","schema":{"type":"string"}}],"responses":{"200":{"description":"ok"}}}}}`)},
		{"a parameter twice", parameterOf(v0, `{"in":"query","name":"a","schema":{"type":"string"}},{"in":"query","name":"a","schema":{"type":"string"}}`)},
		{"a parameter in the body", parameterOf(v0, `{"in":"body","name":"a","schema":{"type":"string"}}`)},
		{"a parameter without a name", parameterOf(v0, `{"in":"query","schema":{"type":"string"}}`)},
		{"a parameter with an empty name", parameterOf(v0, `{"in":"query","name":"","schema":{"type":"string"}}`)},
		{"a parameter without a schema", parameterOf(v0, `{"in":"query","name":"a"}`)},
		{"a parameter with schema and content", parameterOf(v0, `{"in":"query","name":"a","schema":{"type":"string"},"content":{"application/json":{}}}`)},
		{"a parameter with two media types", parameterOf(v0, `{"in":"query","name":"a","content":{"application/json":{},"text/plain":{}}}`)},
		{"a query parameter in the style simple", parameterOf(v0, `{"in":"query","name":"a","style":"simple","schema":{"type":"string"}}`)},
		{"a header in the style form", parameterOf(v0, `{"in":"header","name":"a","style":"form","schema":{"type":"string"}}`)},
		{"a parameter with example and examples", parameterOf(v0, `{"in":"query","name":"a","schema":{"type":"string"},"example":"a","examples":{"b":{"value":"b"}}}`)},
		{"a header with a name", responseOf(v0, `{"description":"","headers":{"H":{"name":"H","schema":{"type":"string"}}}}`)},
		{"a header without a schema", responseOf(v0, `{"description":"","headers":{"H":{}}}`)},
		{"a media type with example and examples", responseOf(v0, `{"description":"","content":{"application/json":{"schema":{"type":"string"},"example":"a","examples":{"b":{"value":"b"}}}}}`)},
		{"an example with value and externalValue", apiOf(v0, `"components":{"examples":{"E":{"value":1,"externalValue":"https://example.com"}}}`)},
		{"a body without content", operationOf(v0, `"requestBody":{"required":true}`)},
		{"a link that leads nowhere", responseOf(v0, `{"description":"","links":{"l":{}}}`)},
		{"a link that leads to two places", responseOf(v0, `{"description":"","links":{"l":{"operationId":"a","operationRef":"#/paths/~1a/get"}}}`)},
		{"an id of two operations", apiOf(v0, `"paths":{"/a":{"get":{"operationId":"x","responses":{"200":{"description":"ok"}}}},"/b":{"get":{"operationId":"x","responses":{"200":{"description":"ok"}}}}}`)},
		{"an unknown member of an operation", operationOf(v0, `"respones":{}`)},
		{"an unknown member of the document", apiOf(v0, `"path":{}`)},
		{"webhooks in 3.0", apiOf(v0, `"webhooks":{}`)},
		{"a dialect in 3.0", apiOf(v0, `"jsonSchemaDialect":"https://json-schema.org/draft/2020-12/schema"`)},
		{"info without a title", `{"openapi":"3.0.3","info":{"version":"1"},"paths":{}}`},
		{"a summary of info in 3.0", `{"openapi":"3.0.3","info":{"title":"a","version":"1","summary":"s"},"paths":{}}`},
		{"a license with identifier and url", `{"openapi":"3.1.0","info":{"title":"a","version":"1","license":{"name":"MIT","identifier":"MIT","url":"https://example.com"}},"paths":{}}`},
		{"a license without a name", `{"openapi":"3.0.3","info":{"title":"a","version":"1","license":{}},"paths":{}}`},
		{"a tag twice", apiOf(v0, `"tags":[{"name":"a"},{"name":"a"}]`)},
		{"external docs without an address", apiOf(v0, `"externalDocs":{}`)},
		{"a server without an address", apiOf(v0, `"servers":[{}]`)},
		{"a server with a variable that is not declared", apiOf(v0, `"servers":[{"url":"https://{r}.example.com"}]`)},
		{"a server without a variable that is declared", apiOf(v0, `"servers":[{"url":"https://example.com","variables":{"r":{"default":"eu"}}}]`)},
		{"a server with a brace that is not closed", apiOf(v0, `"servers":[{"url":"https://{r.example.com"}]`)},
		{"a variable without a default", apiOf(v0, `"servers":[{"url":"https://{r}.example.com","variables":{"r":{}}}]`)},
		{"a security scheme of an unknown type", schemeOf(v0, `{"type":"key"}`)},
		{"a key without a name", schemeOf(v0, `{"type":"apiKey","in":"header"}`)},
		{"a key in the path", schemeOf(v0, `{"type":"apiKey","in":"path","name":"k"}`)},
		{"http without a scheme", schemeOf(v0, `{"type":"http"}`)},
		{"http in a header", schemeOf(v0, `{"type":"http","scheme":"bearer","in":"header"}`)},
		{"a format of tokens for basic", schemeOf(v0, `{"type":"http","scheme":"basic","bearerFormat":"JWT"}`)},
		{"oauth2 without flows", schemeOf(v0, `{"type":"oauth2"}`)},
		{"a flow without scopes", schemeOf(v0, `{"type":"oauth2","flows":{"password":{"tokenUrl":"https://example.com"}}}`)},
		{"an implicit flow with a token address", schemeOf(v0, `{"type":"oauth2","flows":{"implicit":{"authorizationUrl":"https://example.com","tokenUrl":"https://example.com","scopes":{}}}}`)},
		{"openIdConnect without an address", schemeOf(v0, `{"type":"openIdConnect"}`)},
		{"mutualTLS in 3.0", schemeOf(v0, `{"type":"mutualTLS"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := compat.Read([]byte(c.text), nil)
			var refused *compat.Refusal
			if !errors.As(err, &refused) {
				t.Fatalf("it is taken (%v)", err)
			}
			if refused.Line == 0 || refused.Reason == "" {
				t.Errorf("the refusal has no place or no reason: %+v", refused)
			}
		})
	}
}

// TestLenientAPIs checks documents that other validators refuse and that are taken on purpose, as
// docs/contracts.md says: parts of a document, and what says nothing about requests and
// responses.
func TestLenientAPIs(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"no info", `{"openapi":"3.0.3","paths":{}}`},
		{"components alone", `{"openapi":"3.0.3","components":{"schemas":{"A":{"type":"string"}}}}`},
		{"a scheme that is not declared", operationOf("3.0.3", `"security":[{"key":[]}]`)},
		{"a keyword of 3.1 in 3.0", schemaOf("3.0.3", `{"const":"a"}`)},
		{"a keyword that nobody knows", schemaOf("3.0.3", `{"type":"string","unit":"m"}`)},
		{"siblings of a reference", schemaOf("3.0.3", `{"type":"object","properties":{"a":{"$ref":"#/components/schemas/A","maxLength":2}}}`)},
		{"an example that does not match", schemaOf("3.0.3", `{"type":"string","example":1}`)},
		{"a default that does not match", schemaOf("3.0.3", `{"type":"string","default":1}`)},
		{"an example without a value", apiOf("3.0.3", `"components":{"examples":{"E":{"summary":"s"}}}`)},
		{"an expression that RE2 does not have", schemaOf("3.0.3", `{"type":"string","pattern":"^(?=a)"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := compat.Read([]byte(c.text), nil); err != nil {
				t.Errorf("it is refused: %v", err)
			}
		})
	}
}

// TestValidAPIs checks that no valid document is refused.
func TestValidAPIs(t *testing.T) {
	const v0, v1 = "3.0.3", "3.1.0"
	for _, c := range []struct{ name, text string }{
		{"nothing but what is needed", apiOf(v0, `"paths":{}`)},
		{"no paths in 3.1", `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"components":{}}`},
		{"webhooks alone", `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"webhooks":{"a":{"post":{"responses":{"200":{"description":"ok"}}}}}}`},
		{"all of info", `{"openapi":"3.0.3","info":{"title":"a","version":"1","description":"d","termsOfService":"https://example.com","contact":{"name":"n","url":"https://example.com","email":"a@example.com"},"license":{"name":"MIT","url":"https://example.com"},"x-a":1},"paths":{}}`},
		{"a summary and an identifier in 3.1", `{"openapi":"3.1.0","info":{"title":"a","version":"1","summary":"s","license":{"name":"MIT","identifier":"MIT"}},"paths":{}}`},
		{"tags with docs", apiOf(v0, `"tags":[{"name":"a","description":"d","externalDocs":{"url":"https://example.com"}},{"name":"b"}]`)},
		{"a server with variables", apiOf(v0, `"servers":[{"url":"https://{r}.example.com/{v}","variables":{"r":{"default":"eu","enum":["eu","us"]},"v":{"default":"1","description":"d"}}}]`)},
		{"a server with a relative address", apiOf(v0, `"servers":[{"url":"/v1"},{"url":"/"}]`)},
		{"servers of a path and an operation", apiOf(v0, `"paths":{"/a":{"servers":[{"url":"/b"}],"get":{"servers":[{"url":"/c"}],"responses":{"200":{"description":"ok"}}}}}`)},
		{"every method", apiOf(v0, `"paths":{"/a":{"get":{"responses":{"200":{"description":""}}},"put":{"responses":{"200":{"description":""}}},"post":{"responses":{"200":{"description":""}}},"delete":{"responses":{"200":{"description":""}}},"options":{"responses":{"200":{"description":""}}},"head":{"responses":{"200":{"description":""}}},"patch":{"responses":{"200":{"description":""}}},"trace":{"responses":{"200":{"description":""}}}}}`)},
		{"ranges of statuses", apiOf(v0, `"paths":{"/a":{"get":{"responses":{"2XX":{"description":""},"404":{"description":""},"default":{"description":""},"x-a":1}}}}`)},
		{"no responses in 3.1", apiOf(v1, `"paths":{"/a":{"get":{}}}`)},
		{"parameters of the path", apiOf(v0, `"paths":{"/a/{x}/{y}":{"parameters":[{"in":"path","name":"x","required":true,"schema":{"type":"string"}}],"get":{"parameters":[{"in":"path","name":"y","required":true,"style":"matrix","explode":true,"schema":{"type":"array","items":{"type":"string"}}}],"responses":{"200":{"description":""}}}}}`)},
		{"two parameters in one segment", apiOf(v0, `"paths":{"/a/{x}.{y}":{"get":{"parameters":[{"in":"path","name":"x","required":true,"schema":{"type":"string"}},{"in":"path","name":"y","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":""}}}}}`)},
		{"paths that differ by a name", apiOf(v0, `"paths":{"/a/{x}":{},"/a/b":{},"/a/{x}/c":{}}`)},
		{"the same name in two places", parameterOf(v0, `{"in":"query","name":"a","schema":{"type":"string"}},{"in":"header","name":"a","schema":{"type":"string"}},{"in":"cookie","name":"a","schema":{"type":"string"}}`)},
		{"a parameter that is overridden", apiOf(v0, `"paths":{"/a":{"parameters":[{"in":"query","name":"a","schema":{"type":"string"}}],"get":{"parameters":[{"in":"query","name":"a","schema":{"type":"integer"}}],"responses":{"200":{"description":""}}}}}`)},
		{"deepObject", parameterOf(v0, `{"in":"query","name":"f","style":"deepObject","explode":true,"schema":{"type":"object","additionalProperties":{"type":"string"}}}`)},
		{"pipes and blanks", parameterOf(v0, `{"in":"query","name":"f","style":"pipeDelimited","explode":false,"schema":{"type":"array","items":{"type":"string"}}},{"in":"query","name":"g","style":"spaceDelimited","explode":false,"schema":{"type":"array","items":{"type":"string"}}}`)},
		{"a parameter with content", parameterOf(v0, `{"in":"query","name":"f","content":{"application/json":{"schema":{"type":"object"}}}}`)},
		{"allowReserved and allowEmptyValue", parameterOf(v0, `{"in":"query","name":"f","allowReserved":true,"allowEmptyValue":true,"deprecated":true,"schema":{"type":"string"}}`)},
		{"examples of a parameter", apiOf(v0, `"paths":{"/a":{"get":{"parameters":[{"in":"query","name":"f","schema":{"type":"string"},"examples":{"a":{"value":"x","summary":"s"},"b":{"$ref":"#/components/examples/E"}}}],"responses":{"200":{"description":""}}}}},"components":{"examples":{"E":{"value":"y"}}}`)},
		{"nullable and exclusiveMinimum of 3.0", schemaOf(v0, `{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`)},
		{"type lists and numbers of 3.1", schemaOf(v1, `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"number","exclusiveMinimum":0},"c":{"type":"array"},"d":true}}`)},
		{"keywords of 2020-12", schemaOf(v1, `{"type":"object","$defs":{"x":{"$anchor":"x","const":1}},"properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"contains":{"type":"string"},"minContains":0}},"patternProperties":{"^x-":{}},"propertyNames":{"minLength":1},"dependentRequired":{"a":["b"]},"dependentSchemas":{"a":{"minProperties":2}},"if":{"required":["a"]},"then":{},"else":{},"unevaluatedProperties":false}`)},
		{"composition", schemaOf(v0, `{"oneOf":[{"type":"string"},{"type":"integer"}],"anyOf":[{"type":"string"},{"type":"integer"}],"allOf":[{}],"not":{"type":"boolean"}}`)},
		{"a discriminator", apiOf(v0, `"components":{"schemas":{"A":{"oneOf":[{"$ref":"#/components/schemas/B"}],"discriminator":{"propertyName":"k","mapping":{"b":"#/components/schemas/B","c":"B"}}},"B":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}}`)},
		{"recursion", schemaOf(v0, `{"type":"object","properties":{"next":{"$ref":"#/components/schemas/A"},"all":{"type":"array","items":{"$ref":"#/components/schemas/A"}}}}`)},
		{"properties with the names of keywords", schemaOf(v0, `{"type":"object","properties":{"type":{"type":"string"},"$ref":{"type":"string"},"required":{"type":"boolean"},"properties":{"type":"object"},"items":{"type":"array","items":{}},"discriminator":{"type":"string"},"schema":{"type":"string"},"example":{"type":"string"}}}`)},
		{"xml and docs of a schema", schemaOf(v0, `{"type":"object","xml":{"name":"a","wrapped":true},"externalDocs":{"url":"https://example.com"},"deprecated":true,"title":"t","x-a":{"b":[1]}}`)},
		{"an example with a $ref in it", schemaOf(v0, `{"type":"object","example":{"$ref":"nowhere.json"}}`)},
		{"an enum with null", schemaOf(v0, `{"type":"string","nullable":true,"enum":["a",null]}`)},
		{"additionalProperties in three forms", schemaOf(v0, `{"type":"object","properties":{"a":{"type":"object","additionalProperties":true},"b":{"type":"object","additionalProperties":false},"c":{"type":"object","additionalProperties":{"type":"string"}}}}`)},
		{"a body with parts", operationOf(v0, `"requestBody":{"description":"d","required":true,"content":{"multipart/form-data":{"schema":{"type":"object","properties":{"f":{"type":"string","format":"binary"}}},"encoding":{"f":{"contentType":"image/png, image/jpeg","headers":{"X-A":{"schema":{"type":"string"}}}}}},"application/*+json":{"schema":{}},"*/*":{}}}`)},
		{"headers and links", responseOf(v0, `{"description":"","headers":{"X-A":{"description":"d","required":true,"schema":{"type":"integer"}},"X-B":{"style":"simple","explode":true,"schema":{"type":"array","items":{"type":"string"}}}},"links":{"l":{"operationRef":"#/paths/~1a/get","parameters":{"id":"$response.body#/id"},"requestBody":1,"server":{"url":"/x"}}}}`)},
		{"callbacks", operationOf(v0, `"callbacks":{"done":{"{$request.query.url}/done":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object"}}}},"responses":{"200":{"description":""}}}}}}`)},
		{"components of every kind", apiOf(v0, `"paths":{"/a":{"post":{"parameters":[{"$ref":"#/components/parameters/P"}],"requestBody":{"$ref":"#/components/requestBodies/B"},"responses":{"200":{"$ref":"#/components/responses/R"}},"callbacks":{"c":{"$ref":"#/components/callbacks/C"}}}}},"components":{"parameters":{"P":{"in":"query","name":"p","schema":{"type":"string"}}},"requestBodies":{"B":{"content":{"application/json":{"schema":{"type":"string"}}}}},"responses":{"R":{"description":"","headers":{"H":{"$ref":"#/components/headers/H"}},"links":{"L":{"$ref":"#/components/links/L"}}}},"headers":{"H":{"schema":{"type":"string"}}},"links":{"L":{"operationRef":"#/paths/~1a/post"}},"callbacks":{"C":{"{$url}":{"post":{"responses":{"200":{"description":""}}}}}},"examples":{"E":{"externalValue":"https://example.com/e"}}}`)},
		{"path items of components in 3.1", apiOf(v1, `"paths":{"/a":{"$ref":"#/components/pathItems/A"}},"components":{"pathItems":{"A":{"get":{"responses":{"200":{"description":""}}}}}}`)},
		{"a reference with a summary in 3.1", apiOf(v1, `"paths":{"/a":{"get":{"parameters":[{"$ref":"#/components/parameters/P","description":"d","summary":"s"}]}}},"components":{"parameters":{"P":{"in":"query","name":"p","schema":{"type":"string"}}}}`)},
		{"security schemes of every type", apiOf(v1, `"components":{"securitySchemes":{"a":{"type":"apiKey","in":"cookie","name":"k"},"b":{"type":"http","scheme":"Bearer","bearerFormat":"JWT"},"c":{"type":"http","scheme":"basic"},"d":{"type":"oauth2","flows":{"implicit":{"authorizationUrl":"https://example.com","scopes":{}},"password":{"tokenUrl":"https://example.com","scopes":{}},"clientCredentials":{"tokenUrl":"https://example.com","refreshUrl":"https://example.com","scopes":{"r":"read"}},"authorizationCode":{"authorizationUrl":"https://example.com","tokenUrl":"https://example.com","scopes":{}}}},"e":{"type":"openIdConnect","openIdConnectUrl":"https://example.com"},"f":{"type":"mutualTLS","description":"d"}}},"security":[{},{"a":[]},{"b":[],"d":["r"]}]`)},
		{"an operation without security", operationOf(v0, `"security":[]`)},
		{"extensions everywhere", `{"openapi":"3.0.3","info":{"title":"a","version":"1"},"x-a":1,"paths":{"x-b":[1],"/a":{"x-c":null,"get":{"x-d":{},"responses":{"x-e":1,"200":{"description":"","x-f":1,"content":{"application/json":{"x-g":1}}}}}}},"components":{"x-h":1}}`},
		{"escapes in references", apiOf(v0, `"paths":{"/a/{id}":{"get":{"parameters":[{"in":"path","name":"id","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"","content":{"application/json":{"schema":{"type":"string"}}}}}}},"/b":{"get":{"responses":{"200":{"description":"","content":{"application/json":{"schema":{"$ref":"#/paths/~1a~1%7Bid%7D/get/responses/200/content/application~1json/schema"}}}}}}}}`)},
		{"an empty description and an empty media type", responseOf(v0, `{"description":"","content":{"application/json":{}}}`)},
		{"version 3.1.1", apiOf("3.1.1", `"jsonSchemaDialect":"https://spec.openapis.org/oas/3.1/dialect/base"`)},
		{"version 3.0.0", apiOf("3.0.0", `"tags":[]`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := compat.Read([]byte(c.text), nil); err != nil {
				t.Errorf("it is refused: %v", err)
			}
		})
	}
}
