package rules

// The methods of the protocol that a check, a service or the runner itself must
// know. All others are just names.
const (
	MethodInitialize = "initialize"
	MethodNewSession = "session/new"
	MethodPrompt     = "session/prompt"
	MethodCancel     = "session/cancel"
	MethodClose      = "session/close"
	MethodReadFile   = "fs/read_text_file"
	MethodWriteFile  = "fs/write_text_file"
	MethodPermission = "session/request_permission"
	MethodElicit     = "elicitation/create"
	MethodLogin1     = "authenticate" // in version 1
	MethodLogin2     = "auth/login"   // in version 2
)

// Openers are the methods that open a session.
var Openers = []string{MethodNewSession, "session/load", "session/resume", "session/fork"}
