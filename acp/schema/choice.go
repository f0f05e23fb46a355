package schema

import "slices"

// A Choice is a definition that offers alternatives: an enum or a union.
type Choice struct {
	Name string // of the definition

	// Tag is the member that tells the variants of a union apart; "" for an enum,
	// and for a union told apart by its shape.
	Tag string

	// Open means that an unknown value is legal. If it begins with _ it belongs
	// to an implementation, else to a future version of the protocol.
	Open bool
}

const (
	open   = true
	closed = false
)

// choices says of every enum and union whether it is open.
var choices = map[Version][]Choice{
	V1: {
		{"AuthMethod", "type", closed},
		{"AvailableCommandInput", "", closed},
		{"CompactionStatus", "", open},
		{"ContentBlock", "type", closed},
		{"CreateElicitationRequest", "mode", open},
		{"CreateElicitationResponse", "action", open},
		{"ElicitationContentValue", "", closed},
		{"ElicitationFormMode", "", closed},
		{"ElicitationPropertySchema", "type", open},
		{"ElicitationSchemaType", "", closed},
		{"ElicitationUrlMode", "", closed},
		{"EmbeddedResourceResource", "", closed},
		{"ErrorCode", "", open},
		{"McpServer", "type", closed},
		{"MultiSelectItems", "type", open},
		{"NoticeSeverity", "", open},
		{"PermissionOptionKind", "", closed},
		{"PlanEntryPriority", "", closed},
		{"PlanEntryStatus", "", closed},
		{"RequestId", "", closed},
		{"RequestPermissionOutcome", "outcome", closed},
		{"Role", "", closed},
		{"SessionConfigOption", "type", closed},
		{"SessionConfigOptionCategory", "", open},
		{"SessionConfigSelectOptions", "", closed},
		{"SessionUpdate", "sessionUpdate", closed},
		{"SetSessionConfigOptionRequest", "type", closed},
		{"StopReason", "", closed},
		{"StringFormat", "", closed},
		{"ToolCallContent", "type", closed},
		{"ToolCallStatus", "", closed},
		{"ToolKind", "", closed},
	},
	V2: {
		{"AuthMethod", "type", open},
		{"AvailableCommand", "type", open},
		{"AvailableCommandInput", "type", open},
		{"BackgroundWork", "type", open},
		{"CompactionStatus", "", open},
		{"ContentBlock", "type", open},
		{"CreateElicitationRequest", "mode", open},
		{"CreateElicitationResponse", "action", open},
		{"DiffChange", "operation", open},
		{"DiffFileType", "", open},
		{"DiffPatchFormat", "", open},
		{"ElicitationContentValue", "", open},
		{"ElicitationFormMode", "", closed},
		{"ElicitationPropertySchema", "type", open},
		{"ElicitationSchemaType", "", closed},
		{"ElicitationUrlMode", "", closed},
		{"EmbeddedResourceResource", "", closed},
		{"ErrorCode", "", open},
		{"ErrorData", "", open},
		{"IconTheme", "", open},
		{"IdleStateUpdate", "stopReason", open},
		{"McpServer", "type", open},
		{"MultiSelectItems", "type", open},
		{"NoticeSeverity", "", open},
		{"PermissionOptionKind", "", open},
		{"PlanEntryPriority", "", open},
		{"PlanEntryStatus", "", open},
		{"PlanUpdateContent", "type", open},
		{"ReplayFrom", "type", open},
		{"RequestId", "", closed},
		{"RequestPermissionOutcome", "outcome", open},
		{"RequestPermissionSubject", "type", open},
		{"Role", "", open},
		{"SessionConfigOption", "type", open},
		{"SessionConfigOptionCategory", "", open},
		{"SessionConfigSelectOptions", "", closed},
		{"SessionUpdate", "sessionUpdate", open},
		{"SetSessionConfigOptionRequest", "type", open},
		{"StateUpdate", "state", open},
		{"StringFormat", "", open},
		{"ToolCallContent", "type", open},
		{"ToolCallStatus", "", open},
		{"ToolKind", "", open},
	},
}

// Choices returns all enums and unions, sorted by name.
func (v Version) Choices() []Choice { return slices.Clone(choices[v]) }

// Choice returns the enum or union with that name.
func (v Version) Choice(name string) (Choice, bool) {
	for _, c := range choices[v] {
		if c.Name == name {
			return c, true
		}
	}
	return Choice{}, false
}
