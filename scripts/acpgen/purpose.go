package main

import (
	"fmt"
	"strings"
)

// phrases say what the definitions that users meet most are. They are true of both
// versions.
var phrases = map[string]string{
	"AbsolutePath":                "a path from the root of the file system",
	"AgentCapabilities":           "what an agent can do",
	"Annotations":                 "a hint at how content is meant to be used",
	"AuthMethod":                  "a way to log in",
	"AvailableCommand":            "a command that a user can give to the agent",
	"BackgroundWork":              "work that goes on beside the conversation",
	"ClientCapabilities":          "what a client can do",
	"CompactionUpdate":            "news of the agent shortening what it remembers",
	"ContentBlock":                "one part of a prompt, of a message or of what a tool puts out",
	"ContentChunk":                "one more part of a message",
	"Cost":                        "what a session has cost so far",
	"Diff":                        "a change to files",
	"ElicitationPropertySchema":   "a field of a form that the user is asked to fill in",
	"ElicitationSchema":           "a form that the user is asked to fill in",
	"EmbeddedResource":            "a resource with its content",
	"EnvVariable":                 "a variable for the environment of a process",
	"Error":                       "the failure of a request",
	"ErrorCode":                   "the number that says which kind of failure an Error is",
	"IdleStateUpdate":             "the news that the agent does nothing for the user at the moment, and why it stopped",
	"Implementation":              "the name and version of a client or agent",
	"McpServer":                   "a server of the Model Context Protocol that the agent is to connect to",
	"MessageId":                   "the name of a message within a session",
	"Notice":                      "something that the user should know",
	"PermissionOption":            "an answer that the user can give to a permission request",
	"PermissionOptionKind":        "what a PermissionOption grants or refuses",
	"Plan":                        "what the agent intends to do",
	"PlanEntry":                   "one step of a plan",
	"PlanUpdateContent":           "what the agent intends to do",
	"ReplayFrom":                  "the place from which a session is to be told again",
	"RequestId":                   "the id of a request",
	"RequestPermissionOutcome":    "what became of a permission request",
	"RequestPermissionSubject":    "what a permission request is about",
	"ResourceLink":                "a resource without its content",
	"Role":                        "whom content is for",
	"SessionConfigOption":         "a setting of a session that the user can change",
	"SessionConfigOptionCategory": "a hint at what a setting is about",
	"SessionId":                   "the name of a session",
	"SessionInfo":                 "a session in a list",
	"SessionMode":                 "a way for the agent to work",
	"SessionUpdate":               "one piece of news about a session",
	"StateUpdate":                 "the news of what the agent is doing",
	"StopReason":                  "why the agent has stopped",
	"StringFormat":                "a hint at what a string is",
	"Terminal":                    "a reference to a terminal",
	"TerminalExitStatus":          "how a process has ended",
	"TextContent":                 "text",
	"ToolCall":                    "something that the agent does with a tool",
	"ToolCallContent":             "a part of what a tool puts out",
	"ToolCallId":                  "the name of a tool call within a session",
	"ToolCallLocation":            "a place in a file that a tool call is about",
	"ToolCallStatus":              "how far a tool call has come",
	"ToolCallUpdate":              "a change to a tool call, in which what is absent stays as it was",
	"ToolKind":                    "the kind of thing that a tool does",
	"UsageUpdate":                 "how full the context of the model is, and what it has cost",
}

// purpose says what a definition is for.
func (m *model) purpose(d *def) string {
	name := subject(d.goName)
	if d.method != "" {
		what := "the params of"
		if strings.HasSuffix(d.name, "Response") {
			what = "the result of"
		}
		who := map[string]string{"agent": "agents handle", "client": "clients handle", "protocol": "both sides handle"}[d.side]
		out := fmt.Sprintf("%s %s %s, which %s.", name, what, d.method, who)
		if d.unstable {
			out += " It is not stable yet."
		}
		return out
	}
	uses := m.uses[d]
	found := ""
	switch len(uses) {
	case 0:
		found = "a value that no other definition refers to"
	case 1, 2, 3:
		found = "found in " + join(uses)
	default:
		found = "found in " + uses[0] + ", " + uses[1] + " and elsewhere"
	}
	if phrase, ok := phrases[d.name]; ok {
		return name + " " + phrase + ", " + found + "."
	}
	return name + " " + found + "."
}

// subject returns how a sentence about a type begins.
func subject(name string) string {
	if strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "Status") {
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
