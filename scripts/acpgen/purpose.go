package main

import (
	"fmt"
	"strings"
)

// phrases complete the sentence "An X is ..." for each definition that is not a
// message. They are true of both versions. TestPhrases holds them against the
// schemas.
var phrases = map[string]string{
	"AbsolutePath":                             "a path from the root of the file system",
	"AgentAuthCapabilities":                    "the authentication that an agent supports",
	"AgentCapabilities":                        "the optional features of an agent",
	"AgentMessage":                             "a whole message of the agent, which replaces its chunks",
	"AgentThought":                             "a whole thought of the agent, which replaces its chunks",
	"Annotations":                              "hints at how a client may present content",
	"AudioContent":                             "sound, encoded in base64",
	"AuthCapabilities":                         "the authentication that a client supports",
	"AuthMethod":                               "a way to log in",
	"AuthMethodAgent":                          "a way to log in that the agent handles itself",
	"AuthMethodId":                             "the id of a way to log in",
	"AuthMethodTerminal":                       "a way to log in that runs a command in a terminal",
	"AvailableCommand":                         "a command that a user can give to the agent",
	"AvailableCommandInput":                    "the input that a command takes",
	"AvailableCommandsUpdate":                  "the list of commands, which replaces the one before",
	"BackgroundTerminal":                       "a terminal that keeps running beside the conversation",
	"BackgroundToolCall":                       "a tool call that keeps running beside the conversation",
	"BackgroundWork":                           "work that goes on beside the conversation",
	"BlobResourceContents":                     "a resource with binary content, encoded in base64",
	"BooleanConfigOptionCapabilities":          "the support of a client for settings that are on or off",
	"BooleanPropertySchema":                    "a yes or no in a form",
	"CancelledPermissionOutcome":               "the outcome of a permission request whose turn was cancelled",
	"ClientAuthCapabilities":                   "the authentication that a client supports",
	"ClientCapabilities":                       "the optional features of a client",
	"ClientSessionCapabilities":                "the optional features of a client within a session",
	"Command":                                  "a command with a name that the user types",
	"CommandPermissionSubject":                 "a command that the agent wants to run",
	"CompactionCapabilities":                   "the support of a client for updates about compaction",
	"CompactionId":                             "the id of a compaction within a session",
	"CompactionStatus":                         "the progress of a compaction",
	"CompactionSummaryChunk":                   "the next part of the summary of a compaction",
	"CompactionUpdate":                         "the progress of a compaction, in which the agent shortens its context",
	"ConfigOptionUpdate":                       "the list of settings, which replaces the one before",
	"Content":                                  "a content block as output of a tool",
	"ContentBlock":                             "one part of a prompt, of a message or of the output of a tool",
	"ContentChunk":                             "the next part of a message",
	"Cost":                                     "the cost of a session so far",
	"CurrentModeUpdate":                        "the mode that the agent works in from now on",
	"Diff":                                     "a change to files",
	"DiffChange":                               "the change of one file in a Diff",
	"DiffFileType":                             "the type of a changed file",
	"DiffPatch":                                "a Diff as text",
	"DiffPatchFormat":                          "the format of a DiffPatch",
	"DiffPathChange":                           "a change that concerns one path",
	"DiffPathPairChange":                       "a change from one path to another",
	"ElicitationAcceptAction":                  "the answer of a user who filled in a form",
	"ElicitationCancelAction":                  "the answer for a form that was closed without a choice",
	"ElicitationCapabilities":                  "the support of a client for asking the user",
	"ElicitationContentValue":                  "the value of one field of a form",
	"ElicitationDeclineAction":                 "the answer of a user who declined to fill in a form",
	"ElicitationFormCapabilities":              "the support of a client for forms",
	"ElicitationFormMode":                      "a request that shows the user a form",
	"ElicitationId":                            "the id of a request that sends the user to a URL",
	"ElicitationPropertySchema":                "one field of a form",
	"ElicitationRequestScope":                  "the request that a form belongs to",
	"ElicitationSchema":                        "the fields of a form that the user fills in",
	"ElicitationSchemaType":                    "the type of an ElicitationSchema",
	"ElicitationSessionScope":                  "the session, and perhaps the tool call, that a form belongs to",
	"ElicitationUrlCapabilities":               "the support of a client for sending the user to a URL",
	"ElicitationUrlMode":                       "a request that sends the user to a URL",
	"EmbeddedResource":                         "a resource with its content",
	"EmbeddedResourceResource":                 "the content of an EmbeddedResource, text or binary",
	"EnumOption":                               "one choice of a field, with a title",
	"EnvVariable":                              "a variable for the environment of a process",
	"Error":                                    "the failure of a request",
	"ErrorCode":                                "the number that classifies an Error",
	"FileSystemCapabilities":                   "the methods for files that a client supports",
	"HttpHeader":                               "a header of the requests to an MCP server",
	"Icon":                                     "an image that stands for a resource",
	"IconTheme":                                "the background that an Icon is made for",
	"IdleStateUpdate":                          "the state of an agent that waits for a prompt, with the reason why it stopped",
	"ImageContent":                             "an image, encoded in base64",
	"Implementation":                           "the name and version of a client or agent",
	"IntegerPropertySchema":                    "a whole number in a form",
	"LogoutCapabilities":                       "the support of an agent for logging out",
	"McpCapabilities":                          "the transports of MCP servers that an agent supports",
	"McpHttpCapabilities":                      "the support of an agent for MCP servers over HTTP",
	"McpServer":                                "a server of the Model Context Protocol for the agent to connect to",
	"McpServerHttp":                            "an MCP server that is reached over HTTP",
	"McpServerSse":                             "an MCP server that is reached over server-sent events",
	"McpServerStdio":                           "an MCP server that the agent starts as a process",
	"McpStdioCapabilities":                     "the support of an agent for MCP servers that are processes",
	"MediaType":                                "the MIME type of content",
	"MessageId":                                "the id of a message within a session",
	"MultiSelectItems":                         "the choices of a field with several answers",
	"MultiSelectPropertySchema":                "a choice of several answers in a form",
	"Notice":                                   "a remark of the agent to the user",
	"NoticeCapabilities":                       "the support of a client for notices",
	"NoticeSeverity":                           "the weight of a Notice",
	"NumberPropertySchema":                     "a number in a form",
	"PermissionOption":                         "an answer that the user can give to a permission request",
	"PermissionOptionId":                       "the id of an answer to a permission request",
	"PermissionOptionKind":                     "the effect of a PermissionOption: it allows or rejects, once or always",
	"Plan":                                     "the steps that the agent intends to take",
	"PlanEntry":                                "one step of a plan",
	"PlanEntryPriority":                        "the importance of a step",
	"PlanEntryStatus":                          "the progress of a step",
	"PlanId":                                   "the id of a plan within a session",
	"PlanItems":                                "a plan as a list of steps",
	"PlanUpdate":                               "a plan, which replaces the one with the same id",
	"PlanUpdateContent":                        "a plan in one of several forms",
	"PromptAudioCapabilities":                  "the support of an agent for sound in prompts",
	"PromptCapabilities":                       "the content that an agent accepts in prompts",
	"PromptEmbeddedContextCapabilities":        "the support of an agent for embedded resources in prompts",
	"PromptImageCapabilities":                  "the support of an agent for images in prompts",
	"ProtocolVersion":                          "the number of a version of the protocol",
	"ReplayFrom":                               "the place from which the agent repeats the updates of a session",
	"ReplayFromStart":                          "the start of a session as the place to repeat from",
	"RequestId":                                "the id of a request",
	"RequestPermissionOutcome":                 "the result of a permission request",
	"RequestPermissionSubject":                 "the action that needs permission",
	"RequiresActionStateUpdate":                "the state of an agent that waits for an answer of the user",
	"ResourceLink":                             "a resource without its content",
	"Role":                                     "the reader that content is meant for",
	"RunningStateUpdate":                       "the state of an agent that works on a prompt",
	"SelectedPermissionOutcome":                "the answer that the user chose",
	"SessionAdditionalDirectoriesCapabilities": "the support of an agent for more than one directory per session",
	"SessionCapabilities":                      "the optional features of an agent within and around sessions",
	"SessionCloseCapabilities":                 "the support of an agent for closing sessions",
	"SessionConfigBoolean":                     "a setting that is on or off",
	"SessionConfigBooleanValue":                "the new value of a setting that is on or off",
	"SessionConfigGroupId":                     "the id of a group of choices",
	"SessionConfigId":                          "the id of a setting",
	"SessionConfigIDValue":                     "the id of the choice to set",
	"SessionConfigOption":                      "a setting of a session that the user can change",
	"SessionConfigOptionCategory":              "the subject of a setting",
	"SessionConfigOptionsCapabilities":         "the types of settings that a client supports",
	"SessionConfigSelect":                      "a setting with one choice of several",
	"SessionConfigSelectGroup":                 "a named group of choices",
	"SessionConfigSelectOption":                "one choice of a setting",
	"SessionConfigSelectOptions":               "the choices of a setting, in groups or not",
	"SessionConfigValueId":                     "the id of a choice",
	"SessionDeleteCapabilities":                "the support of an agent for deleting sessions",
	"SessionForkCapabilities":                  "the support of an agent for forking sessions",
	"SessionId":                                "the id of a session",
	"SessionInfo":                              "a session in a list",
	"SessionInfoUpdate":                        "a change to the title or time of a session",
	"SessionListCapabilities":                  "the support of an agent for listing sessions",
	"SessionListCursor":                        "the position in a list of sessions where the next page starts",
	"SessionMode":                              "a way of working that the user can choose",
	"SessionModeId":                            "the id of a SessionMode",
	"SessionModeState":                         "the modes of a session and the current one",
	"SessionResumeCapabilities":                "the support of an agent for resuming sessions",
	"SessionUpdate":                            "one event of a session",
	"StateUpdate":                              "the state of the agent: running, idle or waiting for the user",
	"StopReason":                               "the reason why the agent stopped",
	"StringFormat":                             "a hint at the syntax of a string",
	"StringMultiSelectItems":                   "choices without titles",
	"StringPropertySchema":                     "a text or a choice in a form",
	"Terminal":                                 "a reference to a terminal as output of a tool",
	"TerminalAuthCapabilities":                 "the support of a client for ways to log in that run in a terminal",
	"TerminalCancelCapabilities":               "the support for ending the process of a terminal",
	"TerminalCapabilities":                     "the operations on a terminal that the agent supports",
	"TerminalExitStatus":                       "the exit code or signal of a process",
	"TerminalId":                               "the id of a terminal",
	"TerminalOutput":                           "the output of a terminal so far",
	"TerminalOutputChunk":                      "the next part of the output of a terminal",
	"TerminalSize":                             "the columns and rows of a terminal",
	"TerminalUpdate":                           "a change to a terminal; members that are absent stay as they were",
	"TextCommandInput":                         "free text after the name of a command",
	"TextContent":                              "text",
	"TextResourceContents":                     "a resource with text",
	"TitledMultiSelectItems":                   "choices with titles",
	"ToolCall":                                 "an action of the agent with a tool",
	"ToolCallCancelCapabilities":               "the support for cancelling one tool call",
	"ToolCallCapabilities":                     "the operations on a tool call that the agent supports",
	"ToolCallContent":                          "a part of the output of a tool",
	"ToolCallContentChunk":                     "the next part of the output of a tool call",
	"ToolCallId":                               "the id of a tool call within a session",
	"ToolCallLocation":                         "a place in a file that a tool call concerns",
	"ToolCallPermissionSubject":                "a tool call that the agent wants to make",
	"ToolCallStatus":                           "the progress of a tool call",
	"ToolCallUpdate":                           "a change to a tool call; members that are absent stay as they were",
	"ToolKind":                                 "the kind of action of a tool",
	"UnstructuredCommandInput":                 "free text after the name of a command",
	"UnsupportedProtocolVersionErrorData":      "the data of an error about a version that the agent does not speak",
	"SessionNotFoundErrorData":                 "the data of an error about a session that the agent does not have",
	"UsageUpdate":                              "the tokens in the context of the model, and the cost so far",
	"UserMessage":                              "a whole message of the user, which replaces its chunks",
}

// purpose returns the doc comment of a definition: its meaning, and the places
// in the schema where it is used.
func (m *model) purpose(d *def) string {
	name := subject(d.goName)
	if d.method != "" {
		part := "the params of"
		if strings.HasSuffix(d.name, "Response") {
			part = "the result of"
		}
		handler := map[string]string{"agent": "agents handle", "client": "clients handle", "protocol": "both sides handle"}[d.side]
		out := fmt.Sprintf("%s %s %s, which %s.", name, part, d.method, handler)
		if d.unstable {
			out += " It is not stable yet."
		}
		return out
	}
	out := ""
	if phrase, ok := phrases[d.name]; ok {
		out = name + " " + phrase + "."
	}
	switch uses := m.uses[d]; {
	case len(uses) > 3:
		out += " Used in " + uses[0] + ", " + uses[1] + " and elsewhere."
	case len(uses) > 0:
		out += " Used in " + join(uses) + "."
	}
	return strings.TrimSpace(out)
}

// subject returns how a sentence about a type begins.
func subject(name string) string {
	switch {
	case strings.HasSuffix(name, "Capabilities"):
		return name + " declare"
	case strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "Status") && !strings.HasSuffix(name, "Contents"):
		return name + " are"
	}
	for _, vowel := range []string{"A", "E", "I", "O", "Un", "MCP"} {
		if strings.HasPrefix(name, vowel) {
			return "An " + name + " is"
		}
	}
	return "A " + name + " is"
}

func join(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
