package compat

import "slices"

// RulesVersion is the version of the table of rules. It grows when a rule gives another
// verdict than before, so that kept verdicts can be computed again.
const RulesVersion = 1

// A Rule explains one sort of difference between two versions. Its id is stable: it begins
// with REQ- for requests, RES- for responses and BOTH- for both directions.
type Rule struct {
	ID      string
	Verdict Word // of a finding without an example; a document that proves it makes it breaking
	IfUsed  bool // breaking for a consumer that declared the part

	Changed string   // what is different
	Why     string   // why it breaks, or why it does not
	How     string   // how to reach the same without breaking
	Library []string // ids of the same difference in oasdiff
}

// RuleByID returns a rule.
func RuleByID(id string) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return Rules[i], true
}

// kindRules are the rules of gaps in proofs: of requests and of responses.
var kindRules = map[kind][2]string{
	kindType:         {"REQ-type-narrowed", "RES-type-widened"},
	kindEnum:         {"REQ-enum-value-removed", "RES-enum-value-added"},
	kindEnumAdded:    {"REQ-enum-added", "RES-enum-removed"},
	kindRange:        {"REQ-range-narrowed", "RES-range-widened"},
	kindLength:       {"REQ-length-narrowed", "RES-length-widened"},
	kindPattern:      {"REQ-pattern-changed", "RES-pattern-changed"},
	kindItems:        {"REQ-item-count-narrowed", "RES-item-count-widened"},
	kindUnique:       {"REQ-items-became-unique", "RES-items-may-repeat"},
	kindRequired:     {"REQ-property-became-required", "RES-property-became-optional"},
	kindForbidden:    {"REQ-property-removed", "RES-property-added-to-closed"},
	kindUndescribed:  {"REQ-property-ignored", "RES-property-removed"},
	kindDescribed:    {"REQ-property-added", "RES-property-added"},
	kindAdditional:   {"REQ-additional-properties-closed", "RES-additional-properties-opened"},
	kindCount:        {"REQ-property-count-narrowed", "RES-property-count-widened"},
	kindNames:        {"REQ-property-names-narrowed", "RES-property-names-widened"},
	kindDependent:    {"REQ-dependency-added", "RES-dependency-removed"},
	kindUnion:        {"REQ-alternatives-narrowed", "RES-alternatives-widened"},
	kindNot:          {"REQ-exclusion-added", "RES-exclusion-removed"},
	kindCondition:    {"REQ-condition-tightened", "RES-condition-loosened"},
	kindUnevaluated:  {"REQ-unevaluated-closed", "RES-unevaluated-opened"},
	kindContains:     {"REQ-contains-tightened", "RES-contains-loosened"},
	kindFormat:       {"BOTH-format-changed", "BOTH-format-changed"},
	kindDefault:      {"BOTH-default-changed", "BOTH-default-changed"},
	kindReadWrite:    {"BOTH-read-write-changed", "BOTH-read-write-changed"},
	kindDiscriminate: {"BOTH-discriminator-changed", "BOTH-discriminator-changed"},
	kindContent:      {"BOTH-content-encoding-changed", "BOTH-content-encoding-changed"},
	kindKeyword:      {"BOTH-keyword-without-rule", "BOTH-keyword-without-rule"},
	kindBound:        {"BOTH-comparison-bound", "BOTH-comparison-bound"},
}

// ruleOf returns the id of the rule for a kind of gap.
func ruleOf(d Direction, k kind) (string, bool) {
	pair, ok := kindRules[k]
	if d == Response {
		return pair[1], ok
	}
	return pair[0], ok
}

// Rules is the table of rules: requests, responses, both.
var Rules = []Rule{
	// Requests: the new version must take every document that the old one took.
	{
		ID: "REQ-accepts-no-less", Verdict: Compatible,
		Changed: "A schema of requests changed, and the new one takes every document that the old one took.",
		Why:     "Nothing that a consumer sends is refused.",
		How:     "There is nothing to do.",
	},
	{
		ID: "REQ-additional-properties-closed", Verdict: Breaking,
		Changed: "An object in a request no longer takes properties that the schema does not name, or takes fewer of them.",
		Why:     "A consumer that sends another property, perhaps without knowing, is refused.",
		How:     "Leave the object open and ignore what you do not know, or name the properties that consumers send before you close it.",
	},
	{
		ID: "REQ-alternatives-narrowed", Verdict: Unknown,
		Changed: "The alternatives (anyOf, oneOf) of a value in a request changed.",
		Why:     "A document that matched an alternative may match none now, or two where exactly one is allowed.",
		How:     "Add alternatives and keep the old ones. With oneOf, give each alternative a required property with a value of its own.",
		Library: []string{"request-body-one-of-removed", "request-body-any-of-removed", "request-property-one-of-removed", "request-property-any-of-removed"},
	},
	{
		ID: "REQ-body-added", Verdict: Compatible,
		Changed: "A request may have a body now.",
		Why:     "Consumers that send none are still taken.",
		How:     "There is nothing to do.",
		Library: []string{"request-body-added-optional"},
	},
	{
		ID: "REQ-body-became-required", Verdict: Breaking,
		Changed: "A request must have a body now.",
		Why:     "A consumer that sends none is refused.",
		How:     "Keep the body optional and choose a default for requests without one.",
		Library: []string{"request-body-became-required", "request-body-added-required"},
	},
	{
		ID: "REQ-body-removed", Verdict: Unknown,
		Changed: "A request has no body any more.",
		Why:     "The new version may refuse requests with a body, or ignore what consumers send.",
		How:     "Keep taking the body, and announce that it is no longer read.",
	},
	{
		ID: "REQ-condition-tightened", Verdict: Unknown,
		Changed: "A condition (if, then, else) of a value in a request changed.",
		Why:     "A document for which the condition holds may have to meet more than before.",
		How:     "Demand no more in then and else than before, or describe the new form as another alternative.",
	},
	{
		ID: "REQ-contains-tightened", Verdict: Unknown,
		Changed: "An array in a request must contain other items (contains, minContains, maxContains).",
		Why:     "An array that was taken may not have these items.",
		How:     "Keep the old demand.",
	},
	{
		ID: "REQ-dependency-added", Verdict: Breaking,
		Changed: "A property in a request now demands other properties, or another form of the object.",
		Why:     "A consumer that sends the property alone is refused.",
		How:     "Choose a default for the properties that are missing.",
	},
	{
		ID: "REQ-enum-added", Verdict: Breaking,
		Changed: "Only listed values are taken in a request, where every value of the type was taken.",
		Why:     "A consumer that sends another value is refused.",
		How:     "Take other values as before and treat them as a default.",
		Library: []string{"request-parameter-became-enum", "request-body-became-enum", "request-property-became-enum"},
	},
	{
		ID: "REQ-enum-value-removed", Verdict: Breaking,
		Changed: "A listed value is no longer taken in a request.",
		Why:     "A consumer that sends the value is refused.",
		How:     "Keep taking the value, and treat it as its successor.",
		Library: []string{"request-parameter-enum-value-removed", "request-property-enum-value-removed", "request-body-enum-value-removed"},
	},
	{
		ID: "REQ-exclusion-added", Verdict: Unknown,
		Changed: "Values that match a schema are excluded from requests (not).",
		Why:     "A document that matches the schema was taken before.",
		How:     "Do not exclude what was taken; answer such documents with a result that says so.",
	},
	{
		ID: "REQ-item-count-narrowed", Verdict: Breaking,
		Changed: "An array in a request must have more items than before, or fewer (minItems, maxItems).",
		Why:     "An array of another length is refused.",
		How:     "Keep the bounds, and work on long arrays in parts.",
		Library: []string{"request-body-min-items-increased", "request-body-max-items-decreased", "request-property-min-items-increased", "request-property-max-items-decreased", "request-parameter-max-items-decreased"},
	},
	{
		ID: "REQ-items-became-unique", Verdict: Breaking,
		Changed: "The items of an array in a request must not repeat (uniqueItems).",
		Why:     "An array with an item twice is refused.",
		How:     "Take repeated items and drop the copies.",
	},
	{
		ID: "REQ-length-narrowed", Verdict: Breaking,
		Changed: "A text in a request must be longer than before, or shorter (minLength, maxLength).",
		Why:     "A text of another length is refused.",
		How:     "Keep the bounds, and cut or pad the text yourself.",
		Library: []string{"request-body-max-length-decreased", "request-body-min-length-increased", "request-property-max-length-decreased", "request-property-min-length-increased", "request-parameter-max-length-decreased", "request-parameter-min-length-increased", "request-body-max-length-set", "request-property-max-length-set", "request-parameter-max-length-set"},
	},
	{
		ID: "REQ-media-type-added", Verdict: Compatible,
		Changed: "A body may be sent in one more media type.",
		Why:     "The old media types are still taken.",
		How:     "There is nothing to do.",
		Library: []string{"request-body-media-type-added"},
	},
	{
		ID: "REQ-media-type-removed", Verdict: Breaking,
		Changed: "A body is no longer taken in a media type.",
		Why:     "A consumer that sends this media type is refused.",
		How:     "Keep taking the media type until no consumer sends it.",
		Library: []string{"request-body-media-type-removed"},
	},
	{
		ID: "REQ-parameter-added", Verdict: Compatible,
		Changed: "An optional parameter is new.",
		Why:     "Requests without it are taken as before.",
		How:     "There is nothing to do.",
		Library: []string{"new-optional-request-parameter"},
	},
	{
		ID: "REQ-parameter-became-optional", Verdict: Compatible,
		Changed: "A required parameter is optional now.",
		Why:     "Consumers that send it are taken as before.",
		How:     "There is nothing to do.",
		Library: []string{"request-parameter-became-optional"},
	},
	{
		ID: "REQ-parameter-became-required", Verdict: Breaking,
		Changed: "An optional parameter is required now.",
		Why:     "A consumer that does not send it is refused.",
		How:     "Keep it optional and choose a default.",
		Library: []string{"request-parameter-became-required"},
	},
	{
		ID: "REQ-parameter-encoding-changed", Verdict: Unknown,
		Changed: "A parameter is written in another way (style, explode, allowReserved, allowEmptyValue).",
		Why:     "The provider may read something else from the same text.",
		How:     "Add a parameter with another name for the new form.",
	},
	{
		ID: "REQ-parameter-removed", Verdict: Unknown,
		Changed: "A parameter is gone.",
		Why:     "The provider ignores what a consumer asks for with it, or refuses the request.",
		How:     "Keep the parameter and mark it as deprecated; remove it when no consumer sends it.",
		Library: []string{"request-parameter-removed"},
	},
	{
		ID: "REQ-parameter-required-added", Verdict: Breaking,
		Changed: "A required parameter is new.",
		Why:     "No consumer sends it yet, so every request is refused.",
		How:     "Make it optional and choose a default.",
		Library: []string{"new-required-request-parameter", "new-request-path-parameter"},
	},
	{
		ID: "REQ-pattern-changed", Verdict: Breaking,
		Changed: "A text in a request must match another regular expression, or one where none was given (pattern).",
		Why:     "A text that does not match is refused. Two expressions are not compared with each other: without a document that proves the difference it is unknown.",
		How:     "Keep the old expression as an alternative of the new one.",
		Library: []string{"request-property-pattern-added", "request-property-pattern-changed", "request-parameter-pattern-added", "request-parameter-pattern-changed"},
	},
	{
		ID: "REQ-property-added", Verdict: Compatible,
		Changed: "An optional property of a request is described now.",
		Why:     "Consumers that do not send it are taken as before. A consumer that sent the same name with another meaning is not looked at: it relied on a property that nobody described.",
		How:     "There is nothing to do.",
		Library: []string{"new-optional-request-property"},
	},
	{
		ID: "REQ-property-became-required", Verdict: Breaking,
		Changed: "A property of a request must be present.",
		Why:     "A consumer that does not send it is refused.",
		How:     "Keep it optional and choose a default.",
		Library: []string{"request-property-became-required", "new-required-request-property"},
	},
	{
		ID: "REQ-property-count-narrowed", Verdict: Breaking,
		Changed: "An object in a request must have more properties than before, or fewer (minProperties, maxProperties).",
		Why:     "An object with another number of properties is refused.",
		How:     "Keep the bounds.",
	},
	{
		ID: "REQ-property-ignored", Verdict: Unknown,
		Changed: "A property of a request is no longer described; the object still takes every name.",
		Why:     "The document is taken, but the provider may ignore what the consumer says with the property.",
		How:     "Keep describing the property, and mark it as deprecated.",
		Library: []string{"request-property-removed"},
	},
	{
		ID: "REQ-property-names-narrowed", Verdict: Breaking,
		Changed: "The names of properties in a request must match other rules (propertyNames).",
		Why:     "An object with another name is refused.",
		How:     "Keep taking the old names.",
	},
	{
		ID: "REQ-property-removed", Verdict: Breaking,
		Changed: "A property of a request is no longer taken.",
		Why:     "The object takes no other names, so a consumer that sends the property is refused.",
		How:     "Keep the property and ignore it, until no consumer sends it.",
		Library: []string{"request-property-removed"},
	},
	{
		ID: "REQ-range-narrowed", Verdict: Breaking,
		Changed: "A number in a request has narrower bounds (minimum, maximum, multipleOf).",
		Why:     "A number outside of the bounds is refused.",
		How:     "Keep the bounds, and clamp the number yourself.",
		Library: []string{"request-body-max-decreased", "request-body-min-increased", "request-property-max-decreased", "request-property-min-increased", "request-parameter-max-decreased", "request-parameter-min-increased", "request-body-max-set", "request-property-max-set", "request-parameter-max-set", "request-body-min-set", "request-property-min-set", "request-parameter-min-set"},
	},
	{
		ID: "REQ-security-loosened", Verdict: Compatible,
		Changed: "An operation needs fewer credentials, or takes others as well.",
		Why:     "A caller with the old credentials is let in as before. Whether the data may be seen by more callers is a question that this rule does not answer.",
		How:     "Check that the operation was meant to be opened.",
		Library: []string{"api-security-removed", "api-global-security-removed"},
	},
	{
		ID: "REQ-security-scheme-changed", Verdict: Unknown,
		Changed: "A security scheme is defined in another way.",
		Why:     "Credentials of the old form may not be taken.",
		How:     "Add a second scheme and take both.",
	},
	{
		ID: "REQ-security-tightened", Verdict: Breaking,
		Changed: "An operation needs credentials or scopes that were not needed.",
		Why:     "A caller with the old credentials is refused.",
		How:     "Take the old credentials as an alternative until all callers have the new ones.",
		Library: []string{"api-security-added", "api-global-security-added", "api-security-scope-added"},
	},
	{
		ID: "REQ-type-narrowed", Verdict: Breaking,
		Changed: "A value in a request may have fewer types.",
		Why:     "A value of another type is refused.",
		How:     "Keep taking the old types and convert them, or add a property with the new type.",
		Library: []string{"request-body-type-changed", "request-property-type-changed", "request-parameter-type-changed", "request-property-became-not-nullable", "request-body-became-not-nullable"},
	},
	{
		ID: "REQ-unevaluated-closed", Verdict: Unknown,
		Changed: "A request no longer takes properties or items that no other keyword describes (unevaluatedProperties, unevaluatedItems).",
		Why:     "A consumer that sends them may be refused.",
		How:     "Leave the schema open.",
	},

	// Responses: every document of the new version must be one that the old one allowed.
	{
		ID: "RES-additional-properties-opened", Verdict: Breaking,
		Changed: "An object in a response may have properties that the old version excluded.",
		Why:     "A consumer that checks its input against the old version refuses them.",
		How:     "Describe the new properties by name in a version that consumers agree to.",
	},
	{
		ID: "RES-alternatives-widened", Verdict: Unknown,
		Changed: "The alternatives (anyOf, oneOf) of a value in a response changed.",
		Why:     "A consumer may get a form that it does not know.",
		How:     "Offer the new form in another operation or media type, or on request.",
		Library: []string{"response-body-one-of-added", "response-body-any-of-added", "response-property-one-of-added", "response-property-any-of-added"},
	},
	{
		ID: "RES-condition-loosened", Verdict: Unknown,
		Changed: "A condition (if, then, else) of a value in a response changed.",
		Why:     "A response may lack what the condition promised.",
		How:     "Keep what the condition promised.",
	},
	{
		ID: "RES-contains-loosened", Verdict: Unknown,
		Changed: "An array in a response need not contain the items that it contained (contains, minContains, maxContains).",
		Why:     "A consumer that looks for such an item may not find it.",
		How:     "Keep the promise.",
	},
	{
		ID: "RES-dependency-removed", Verdict: Breaking,
		Changed: "A property in a response no longer comes with the properties that it came with.",
		Why:     "A consumer that reads them finds nothing.",
		How:     "Keep sending them together.",
	},
	{
		ID: "RES-enum-removed", Verdict: Breaking,
		Changed: "A value in a response may be any value of its type, where the values were listed.",
		Why:     "A consumer with a case for each listed value meets one that it does not know.",
		How:     "Keep the list, and send new values in another property.",
	},
	{
		ID: "RES-enum-value-added", Verdict: Breaking,
		Changed: "A value in a response may be one that was not listed.",
		Why:     "A consumer with a case for each listed value meets one that it does not know.",
		How:     "Announce the value before you send it, or send it only to consumers that ask for it.",
		Library: []string{"response-property-enum-value-added", "response-mediatype-enum-value-added"},
	},
	{
		ID: "RES-exclusion-removed", Verdict: Unknown,
		Changed: "Values that the old version excluded from responses (not) may come.",
		Why:     "A consumer relies on not getting them.",
		How:     "Keep the exclusion.",
	},
	{
		ID: "RES-gives-no-more", Verdict: Compatible,
		Changed: "A schema of responses changed, and every document of the new version is one that the old one allowed.",
		Why:     "A consumer of the old version can read all of them.",
		How:     "There is nothing to do.",
	},
	{
		ID: "RES-header-added", Verdict: Compatible,
		Changed: "A response has one more header.",
		Why:     "Consumers ignore headers that they do not know.",
		How:     "There is nothing to do.",
	},
	{
		ID: "RES-header-became-optional", Verdict: Breaking,
		Changed: "A header of a response may be missing.",
		Why:     "A consumer that reads it may find nothing.",
		How:     "Keep sending it.",
		Library: []string{"response-header-became-optional"},
	},
	{
		ID: "RES-header-removed", Verdict: Unknown, IfUsed: true,
		Changed: "A header of a response is gone.",
		Why:     "A consumer that reads it finds nothing. A required header breaks every consumer.",
		How:     "Keep sending it until no consumer reads it.",
		Library: []string{"required-response-header-removed", "optional-response-header-removed"},
	},
	{
		ID: "RES-item-count-widened", Verdict: Breaking,
		Changed: "An array in a response may have fewer items than before, or more (minItems, maxItems).",
		Why:     "A consumer relies on the old bounds, for instance on a first item.",
		How:     "Keep the bounds; use pages for longer lists.",
		Library: []string{"response-body-min-items-decreased", "response-property-min-items-decreased", "response-body-max-items-increased"},
	},
	{
		ID: "RES-items-may-repeat", Verdict: Breaking,
		Changed: "The items of an array in a response may repeat (uniqueItems).",
		Why:     "A consumer that uses them as keys fails on the second one.",
		How:     "Keep sending each item once.",
	},
	{
		ID: "RES-length-widened", Verdict: Breaking,
		Changed: "A text in a response may be shorter than before, or longer (minLength, maxLength).",
		Why:     "A consumer may have no room for a longer text, or no case for an empty one.",
		How:     "Keep the bounds.",
		Library: []string{"response-body-max-length-increased", "response-property-max-length-increased", "response-body-min-length-decreased", "response-property-min-length-decreased", "response-property-max-length-unset", "response-body-max-length-unset"},
	},
	{
		ID: "RES-media-type-added", Verdict: Compatible,
		Changed: "A response may be had in one more media type.",
		Why:     "Consumers ask for the media type that they read.",
		How:     "There is nothing to do.",
		Library: []string{"response-media-type-added"},
	},
	{
		ID: "RES-media-type-removed", Verdict: Breaking,
		Changed: "A response no longer comes in a media type.",
		Why:     "A consumer that asks for it gets none that it can read.",
		How:     "Keep the media type until no consumer asks for it.",
		Library: []string{"response-media-type-removed"},
	},
	{
		ID: "RES-pattern-changed", Verdict: Breaking,
		Changed: "A text in a response need not match the regular expression of the old version (pattern).",
		Why:     "A consumer that takes the text apart by its form fails. Two expressions are not compared with each other: without a document that proves the difference it is unknown.",
		How:     "Keep the form, and send the new one in another property.",
		Library: []string{"response-property-pattern-changed", "response-property-pattern-removed"},
	},
	{
		ID: "RES-property-added", Verdict: Compatible,
		Changed: "A response has one more property.",
		Why:     "The object takes other names, so consumers ignore what they do not know.",
		How:     "There is nothing to do.",
		Library: []string{"response-optional-property-added", "response-required-property-added"},
	},
	{
		ID: "RES-property-added-to-closed", Verdict: Breaking,
		Changed: "A response has a property, and the old version allowed no other names.",
		Why:     "A consumer that checks its input against the old version refuses it.",
		How:     "Leave objects of responses open from the start.",
	},
	{
		ID: "RES-property-became-optional", Verdict: Breaking,
		Changed: "A property of a response may be missing.",
		Why:     "A consumer that reads it may find nothing.",
		How:     "Keep sending it, with a default if there is no value.",
		Library: []string{"response-property-became-optional"},
	},
	{
		ID: "RES-property-count-widened", Verdict: Breaking,
		Changed: "An object in a response may have fewer properties than before, or more (minProperties, maxProperties).",
		Why:     "A consumer relies on the old bounds.",
		How:     "Keep the bounds.",
	},
	{
		ID: "RES-property-names-widened", Verdict: Breaking,
		Changed: "The names of properties in a response need not match the rules of the old version (propertyNames).",
		Why:     "A consumer that takes the names apart fails.",
		How:     "Keep the form of the names.",
	},
	{
		ID: "RES-property-removed", Verdict: Unknown, IfUsed: true,
		Changed: "A property of a response is no longer described.",
		Why:     "A consumer that reads it finds nothing. For a consumer that declared its parts without the property nothing changes; for one that declared none it is unknown. A required property breaks every consumer.",
		How:     "Mark the property as deprecated and keep sending it until no consumer uses it.",
		Library: []string{"response-optional-property-removed", "response-required-property-removed"},
	},
	{
		ID: "RES-range-widened", Verdict: Breaking,
		Changed: "A number in a response has wider bounds (minimum, maximum, multipleOf).",
		Why:     "A consumer relies on the old bounds.",
		How:     "Keep the bounds.",
		Library: []string{"response-body-max-increased", "response-property-max-increased", "response-body-min-decreased", "response-property-min-decreased"},
	},
	{
		ID: "RES-status-added", Verdict: Compatible,
		Changed: "An operation may answer with one more status.",
		Why:     "Consumers must be ready for every status of HTTP. Check that a success which they know does not become another status.",
		How:     "There is nothing to do, if the old statuses keep their meaning.",
		Library: []string{"response-success-status-added", "response-non-success-status-added"},
	},
	{
		ID: "RES-status-removed", Verdict: Unknown,
		Changed: "An operation no longer answers with a status that is not a success.",
		Why:     "A consumer that waits for the status, such as 404, may not learn what it says any more.",
		How:     "Keep the status for the same cases.",
		Library: []string{"response-non-success-status-removed"},
	},
	{
		ID: "RES-success-removed", Verdict: Breaking,
		Changed: "An operation no longer answers with a success status.",
		Why:     "A consumer that waits for this status takes every answer for a failure.",
		How:     "Keep the status, or offer the new one in another operation.",
		Library: []string{"response-success-status-removed"},
	},
	{
		ID: "RES-type-widened", Verdict: Breaking,
		Changed: "A value in a response may have more types.",
		Why:     "A consumer that expects the old types fails on another one, such as null.",
		How:     "Keep the types, and send the new form in another property.",
		Library: []string{"response-body-type-changed", "response-property-type-changed", "response-property-became-nullable", "response-body-became-nullable"},
	},
	{
		ID: "RES-unevaluated-opened", Verdict: Unknown,
		Changed: "A response may have properties or items that the old version excluded (unevaluatedProperties, unevaluatedItems).",
		Why:     "A consumer that checks its input against the old version may refuse them.",
		How:     "Keep the schema closed, or agree on the new properties.",
	},

	// Both directions.
	{
		ID: "BOTH-comparison-bound", Verdict: Unknown,
		Changed: "The schemas are so large or so entangled that the comparison was given up.",
		Why:     "A comparison that was not finished proves nothing.",
		How:     "Split the schema, or use fewer alternatives inside each other.",
	},
	{
		ID: "BOTH-content-encoding-changed", Verdict: Unknown,
		Changed: "The encoding or media type of a text changed (contentEncoding, contentMediaType).",
		Why:     "The other side may read something else from the same text.",
		How:     "Add a property with the new encoding.",
	},
	{
		ID: "BOTH-custom-content", Verdict: Unknown,
		Changed: "Content without a format changed.",
		Why:     "There are no rules for it.",
		How:     "Write the contract as JSON Schema or OpenAPI.",
	},
	{
		ID: "BOTH-default-changed", Verdict: Unknown,
		Changed: "The default of a value changed.",
		Why:     "A consumer that leaves the value out gets other behaviour, although every document is taken.",
		How:     "Keep the default, or add a property for the new behaviour.",
		Library: []string{"request-parameter-default-value-changed", "request-property-default-value-changed", "request-body-default-value-changed"},
	},
	{
		ID: "BOTH-difference-without-rule", Verdict: Unknown,
		Changed: "A part of the document changed for which there is no rule.",
		Why:     "A difference that no rule explains may break a consumer.",
		How:     "Ask the consumers.",
	},
	{
		ID: "BOTH-discriminator-changed", Verdict: Unknown,
		Changed: "The discriminator of alternatives changed.",
		Why:     "Programs choose the form of a value by it, and may choose another one.",
		How:     "Add mappings and keep the old ones.",
	},
	{
		ID: "BOTH-extension-changed", Verdict: Unknown,
		Changed: "An extension (x-...) changed.",
		Why:     "Its meaning is known to some programs only.",
		How:     "Ask the consumers that read it.",
	},
	{
		ID: "BOTH-format-changed", Verdict: Unknown,
		Changed: "The format of a value changed, such as date or uuid.",
		Why:     "Validators differ in what they check, and programs read the value by its format.",
		How:     "Keep the format, and add a property with the new one.",
		Library: []string{"request-property-type-changed", "response-property-type-changed"},
	},
	{
		ID: "BOTH-format-of-document-changed", Verdict: Unknown,
		Changed: "The contract is written in another format, such as OpenAPI where it was JSON Schema.",
		Why:     "Documents of two formats are not compared.",
		How:     "Change the format in a version of its own, with the same content.",
	},
	{
		ID: "BOTH-keyword-unsupported", Verdict: Unknown,
		Changed: "The document uses a keyword that is not compared, such as $dynamicRef.",
		Why:     "Without the keyword nothing can be said about the schemas that it applies to.",
		How:     "Use $ref and $defs.",
	},
	{
		ID: "BOTH-keyword-without-rule", Verdict: Unknown,
		Changed: "A keyword of a schema changed that is not part of its format, or text of a contract that is no type.",
		Why:     "Its meaning is not known.",
		How:     "Use keywords of the format.",
	},
	{
		ID: "BOTH-operation-added", Verdict: Compatible,
		Changed: "An operation is new.",
		Why:     "No consumer uses it yet.",
		How:     "There is nothing to do.",
		Library: []string{"endpoint-added"},
	},
	{
		ID: "BOTH-operation-removed", Verdict: Breaking,
		Changed: "An operation is gone: its path or its method changed, or it was removed.",
		Why:     "A consumer that calls it gets an error.",
		How:     "Keep the old operation beside the new one, mark it as deprecated, and remove it when no consumer calls it.",
		Library: []string{"api-removed-without-deprecation", "api-path-removed-without-deprecation"},
	},
	{
		ID: "BOTH-pattern-unsupported", Verdict: Unknown,
		Changed: "The document has a regular expression that RE2 does not know, such as one that looks ahead.",
		Why:     "Such expressions can take longer than any bound, so they are not run. What they take is not known.",
		How:     "Write the expression without looking ahead or back and without back references.",
	},
	{
		ID: "BOTH-read-write-changed", Verdict: Unknown,
		Changed: "A property is in requests or responses alone now, or no longer (readOnly, writeOnly).",
		Why:     "The other side may refuse, ignore or miss it.",
		How:     "Add a property for the other direction.",
		Library: []string{"request-optional-property-became-read-only", "response-optional-property-became-write-only"},
	},
	{
		ID: "BOTH-schema-removed", Verdict: Unknown,
		Changed: "A named schema that no operation uses is gone.",
		Why:     "Consumers may refer to it by name.",
		How:     "Keep the schema until no consumer refers to it.",
		Library: []string{"api-schema-removed"},
	},
	{
		ID: "BOTH-server-changed", Verdict: Unknown,
		Changed: "The list of servers changed.",
		Why:     "Consumers call the old addresses.",
		How:     "Keep the old servers until no consumer calls them.",
	},
	{
		ID: "BOTH-same-meaning", Verdict: Compatible,
		Changed: "Only words for readers changed, such as titles, descriptions, examples and marks of deprecation, or the arrangement of the document.",
		Why:     "No document is taken or refused because of it.",
		How:     "There is nothing to do.",
	},
	{
		ID: "BOTH-webhook-added", Verdict: Compatible,
		Changed: "A webhook is new.",
		Why:     "Only consumers that subscribe to it get it.",
		How:     "There is nothing to do.",
	},
	{
		ID: "BOTH-webhook-removed", Verdict: Breaking,
		Changed: "A webhook is gone.",
		Why:     "A consumer that waits for it waits in vain.",
		How:     "Keep sending it until no consumer is subscribed.",
	},
}
