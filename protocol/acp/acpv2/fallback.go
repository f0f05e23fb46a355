package acpv2

import "slices"

// A Fallback is the recommended treatment of an unknown value that a program cannot
// act on. With every fallback, a program that stores, replays or forwards the message
// keeps the value.
type Fallback string

// The fallbacks.
const (
	FallbackIgnore   Fallback = "ignore"   // go on as if the value were not there
	FallbackDisplay  Fallback = "display"  // show it in a generic way
	FallbackPreserve Fallback = "preserve" // keep it for programs that know it, and do nothing else
	FallbackFail     Fallback = "fail"     // do not go on as if it were one of the known values
)

// A FieldFallback is the Fallback for unknown values in one member.
type FieldFallback struct {
	Definition string // name in the schema
	Member     string
	Choice     string // the enum or union that the value is of, by its name in the schema
	Fallback   Fallback
	Meaning    string // the fallback in words
}

// fallbacks has a row for every member that can hold an unknown value.
var fallbacks = []FieldFallback{
	{"AgentMessage", "content", "ContentBlock", FallbackDisplay, "show a placeholder with the type"},
	{"AgentThought", "content", "ContentBlock", FallbackDisplay, "show a placeholder with the type"},
	{"Annotations", "audience", "Role", FallbackIgnore, "the content has no particular reader"},
	{"AvailableCommandsUpdate", "availableCommands", "AvailableCommand", FallbackIgnore, "do not offer the command"},
	{"Command", "input", "AvailableCommandInput", FallbackIgnore, "offer the command without input"},
	{"CompactionSummaryChunk", "content", "ContentBlock", FallbackDisplay, "show a placeholder with the type"},
	{"CompactionUpdate", "status", "CompactionStatus", FallbackDisplay, "show the word; not finished"},
	{"CompactionUpdate", "summary", "ContentBlock", FallbackDisplay, "show a placeholder with the type"},
	{"ConfigOptionUpdate", "configOptions", "SessionConfigOption", FallbackIgnore, "do not offer the option"},
	{"Content", "content", "ContentBlock", FallbackDisplay, "show a placeholder with the type"},
	{"ContentChunk", "content", "ContentBlock", FallbackDisplay, "show a placeholder with the type"},
	{"CreateElicitationRequest", "mode", "CreateElicitationRequest", FallbackFail, "answer with an error; never as a form or a link"},
	{"CreateElicitationResponse", "action", "CreateElicitationResponse", FallbackFail, "as if cancelled; never as accepted"},
	{"Diff", "changes", "DiffChange", FallbackDisplay, "show the operation and its members"},
	{"DiffChange", "fileType", "DiffFileType", FallbackDisplay, "show the path; do not open the file as text"},
	{"DiffChange", "operation", "DiffChange", FallbackDisplay, "show the operation; never apply it"},
	{"DiffPatch", "format", "DiffPatchFormat", FallbackDisplay, "show the text as it is; never apply it"},
	{"ElicitationAcceptAction", "content", "ElicitationContentValue", FallbackFail, "the value does not fit the schema that was sent"},
	{"ElicitationSchema", "properties", "ElicitationPropertySchema", FallbackFail, "decline if the property is required; else leave it out"},
	{"Error", "code", "ErrorCode", FallbackPreserve, "an error like any other"},
	{"Error", "data", "ErrorData", FallbackPreserve, "of no meaning here"},
	{"ForkSessionRequest", "mcpServers", "McpServer", FallbackFail, "the server cannot be reached"},
	{"ForkSessionResponse", "availableCommands", "AvailableCommand", FallbackIgnore, "do not offer the command"},
	{"ForkSessionResponse", "configOptions", "SessionConfigOption", FallbackIgnore, "do not offer the option"},
	{"Icon", "theme", "IconTheme", FallbackIgnore, "an icon for any theme"},
	{"IdleStateUpdate", "background", "BackgroundWork", FallbackIgnore, "some work goes on"},
	{"IdleStateUpdate", "stopReason", "IdleStateUpdate", FallbackFail, "the turn is over; never as a success"},
	{"InitializeResponse", "authMethods", "AuthMethod", FallbackIgnore, "do not offer the method"},
	{"MultiSelectPropertySchema", "items", "MultiSelectItems", FallbackFail, "decline if the property is required; else leave it out"},
	{"NewSessionRequest", "mcpServers", "McpServer", FallbackFail, "the server cannot be reached"},
	{"NewSessionResponse", "availableCommands", "AvailableCommand", FallbackIgnore, "do not offer the command"},
	{"NewSessionResponse", "configOptions", "SessionConfigOption", FallbackIgnore, "do not offer the option"},
	{"Notice", "severity", "NoticeSeverity", FallbackDisplay, "show the notice without a severity"},
	{"PermissionOption", "kind", "PermissionOptionKind", FallbackFail, "a person may choose it; never as an approval by rule"},
	{"PlanEntry", "priority", "PlanEntryPriority", FallbackDisplay, "show the entry without a priority"},
	{"PlanEntry", "status", "PlanEntryStatus", FallbackDisplay, "show the word; not completed"},
	{"PlanUpdate", "plan", "PlanUpdateContent", FallbackDisplay, "show that there is a plan"},
	{"PromptRequest", "prompt", "ContentBlock", FallbackFail, "refuse the prompt: it cannot be understood in part"},
	{"RequestPermissionRequest", "subject", "RequestPermissionSubject", FallbackDisplay, "show title and description; never approve by rule"},
	{"RequestPermissionResponse", "outcome", "RequestPermissionOutcome", FallbackFail, "as if cancelled; never as an approval"},
	{"RequiresActionStateUpdate", "background", "BackgroundWork", FallbackIgnore, "some work goes on"},
	{"ResumeSessionRequest", "mcpServers", "McpServer", FallbackFail, "the server cannot be reached"},
	{"ResumeSessionRequest", "replayFrom", "ReplayFrom", FallbackFail, "refuse: where to begin is not known"},
	{"ResumeSessionResponse", "availableCommands", "AvailableCommand", FallbackIgnore, "do not offer the command"},
	{"ResumeSessionResponse", "configOptions", "SessionConfigOption", FallbackIgnore, "do not offer the option"},
	{"RunningStateUpdate", "background", "BackgroundWork", FallbackIgnore, "some work goes on"},
	{"SessionConfigOption", "category", "SessionConfigOptionCategory", FallbackIgnore, "an option like any other"},
	{"SessionConfigOption", "type", "SessionConfigOption", FallbackIgnore, "do not offer the option"},
	{"SessionUpdate", "state_update", "StateUpdate", FallbackIgnore, "the state is as it was"},
	{"SetSessionConfigOptionRequest", "type", "SetSessionConfigOptionRequest", FallbackFail, "refuse: the value has no meaning"},
	{"SetSessionConfigOptionResponse", "configOptions", "SessionConfigOption", FallbackIgnore, "do not offer the option"},
	{"StateUpdate", "idle", "IdleStateUpdate", FallbackFail, "the turn is over; never as a success"},
	{"StringPropertySchema", "format", "StringFormat", FallbackIgnore, "an annotation: any string will do"},
	{"ToolCallContentChunk", "content", "ToolCallContent", FallbackDisplay, "show a placeholder with the type"},
	{"ToolCallUpdate", "content", "ToolCallContent", FallbackDisplay, "show a placeholder with the type"},
	{"ToolCallUpdate", "kind", "ToolKind", FallbackDisplay, "show the call as of no particular kind"},
	{"ToolCallUpdate", "status", "ToolCallStatus", FallbackDisplay, "show the word; not completed"},
	{"UpdateSessionNotification", "update", "SessionUpdate", FallbackIgnore, "go on with the next update"},
	{"UserMessage", "content", "ContentBlock", FallbackDisplay, "show a placeholder with the type"},
}

// Fallbacks returns a row for every member that can hold an unknown value, sorted
// by definition and member.
func Fallbacks() []FieldFallback { return slices.Clone(fallbacks) }

// FallbackFor returns the fallback for an unknown value in a member, given their
// names in the schema.
func FallbackFor(definition, member string) (Fallback, bool) {
	for _, f := range fallbacks {
		if f.Definition == definition && f.Member == member {
			return f.Fallback, true
		}
	}
	return "", false
}
