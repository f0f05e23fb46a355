package rules

import (
	"slices"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// An event is an entry of a conversation with its parts taken out.
type event struct {
	*Entry
	end bool // the end of the conversation; Entry is empty then

	object    object // the whole message; nil if the entry is none
	params    object
	result    object // nil also for results that are no object
	succeeded bool   // it has a result
	request   *Entry // the request that a response answers
	update    object // of session/update
	tag       string // the kind of update

	proof []*Entry // earlier entries that prove a flaw
}

// sessionID returns the session that the params name.
func (e *event) sessionID() string { return text(e.params, "sessionId") }

// A state has the facts that a client knows at one point of a conversation. Maps
// are by id; an entry is the key where it is the request itself that is meant.
type state struct {
	version     schema.Version // as initialize agreed
	hello       *Entry         // the last initialize
	clientCaps  object
	agentCaps   object // nil until initialize was answered
	initialized bool   // initialize was answered
	welcome     *Entry // the result of initialize; nil until it came
	logins      int    // how many ways to log in it offers

	questions map[*Entry]*Entry   // the request by its response
	agentAsks map[string]*Entry   // requests of the agent without an answer
	agentIDs  map[string]bool     // ids of all requests of the agent
	withdrawn map[string]bool     // ids of the client's requests that it has cancelled
	waiting   map[*Entry]bool     // requests of the client without an answer
	sessions  map[string]*session // sessions that the client has opened
	early     map[string]*Entry   // the first update of each session that is not open yet
	terminals map[string]*terminal
	pages     map[string]bool // pages for the user, and whether one still waits
	turns     map[*Entry]*turn
	permitted map[string]*Entry // questions for permission without an answer, by permissionKey
}

// A session is a session that the client has opened.
type session struct {
	id         string
	roots      []string // the folders it works in
	loading    bool
	turns      []*turn // the running turns
	last       *turn   // the turn that ended last; nil if none has
	calls      map[string]*toolState
	modes      []string
	options    []string            // ids, in their order
	messages   map[string]string   // the tag of the update by message id
	streams    map[string][]string // message ids by tag, in the order of their first pieces
	plan       []object
	cost       *float64
	compacting map[string]bool // compactions, and whether one goes on
}

// A toolState is the last known state of a tool call.
type toolState struct {
	status    string
	announced *Entry // nil if it was only updated
	changed   *Entry // the entry that gave it its status
	turn      *turn
	terminals []string // ids that were shown
}

// final reports whether a tool call with that status has ended.
func final(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// A turn is a prompt from its request to its end.
type turn struct {
	session   *session
	request   *Entry
	cancelled bool
	joined    bool   // another prompt of the session came while it ran
	stop      string // the stop reason; "" while it runs
	ended     *Entry // the entry that ended it
}

// A terminal is a terminal that the client has made.
type terminal struct {
	session  string
	made     *Entry
	killed   bool
	released bool
}

// newState returns the state before the first entry. version is the version that the client
// asks for; the answer to initialize may change it.
func newState(version schema.Version, calls []*Call) *state {
	s := &state{
		version: version, questions: map[*Entry]*Entry{}, agentAsks: map[string]*Entry{}, agentIDs: map[string]bool{}, withdrawn: map[string]bool{}, waiting: map[*Entry]bool{},
		sessions: map[string]*session{}, early: map[string]*Entry{}, terminals: map[string]*terminal{}, pages: map[string]bool{},
		turns: map[*Entry]*turn{}, permitted: map[string]*Entry{},
	}
	for _, q := range calls {
		if q.Answer != nil {
			s.questions[q.Answer] = q.Request
		}
	}
	return s
}

// event takes an entry apart. The answer to initialize sets the version here, so
// that the answer itself is judged by it.
// The parts are nil or empty if the message does not have them in the form of the
// protocol, so a check can read them without looking twice.
func (s *state) event(raw *Entry) *event {
	e := &event{Entry: raw}
	e.object, _ = raw.Value.(object)
	e.params, e.result = inner(e.object, "params"), inner(e.object, "result")
	_, e.succeeded = e.object["result"]
	if raw.Direction == jsonrpc.In && raw.Class == jsont.Response {
		if e.request = s.questions[raw]; e.request != nil && e.request.Method == MethodInitialize {
			s.agree(e)
		}
	}
	if raw.Direction == jsonrpc.Out && raw.Class == jsont.Response {
		e.request = s.agentAsks[IDKey(raw.ID)]
	}
	if raw.Method == "session/update" {
		e.update = inner(e.params, "update")
		e.tag = text(e.update, "sessionUpdate")
	}
	return e
}

// agree sets the version that an answer to initialize has.
func (s *state) agree(e *event) {
	switch jsont.Stringify(e.result["protocolVersion"]) {
	case "1":
		s.version = schema.V1
	case "2":
		s.version = schema.V2
	}
}

// session returns the session that an event names, nil if it is not open.
func (s *state) session(e *event) *session { return s.sessions[e.sessionID()] }

// running returns the turn of a session that runs, nil if none does.
func (x *session) running() *turn {
	if x == nil || len(x.turns) == 0 {
		return nil
	}
	return x.turns[len(x.turns)-1]
}

// cancelled reports whether the client has given up a request, or its session.
func (s *state) cancelled(request *Entry) bool {
	if s.withdrawn[IDKey(request.ID)] {
		return true
	}
	t := s.turns[request]
	return t != nil && t.cancelled
}

// can reports whether the client has a capability: it is true or an object.
func (s *state) can(path string) bool {
	v, _ := jsont.Lookup(any(s.clientCaps), path)
	return v == true || isMap(v)
}

// apply changes the state as an event does.
func (s *state) apply(e *event) {
	if e.object == nil {
		return
	}
	if e.Direction == jsonrpc.Out {
		s.clientSent(e)
	} else {
		s.agentSent(e)
	}
}

// clientSent applies a message of the client.
// Frames of the client are not judged: a test may send anything. They count as
// facts.
func (s *state) clientSent(e *event) {
	switch e.Class {
	case jsont.Response:
		s.clientAnswered(e)
		delete(s.agentAsks, IDKey(e.ID))
	case jsont.ClientRequest:
		s.waiting[e.Entry] = true
	}

	id := e.sessionID()
	switch e.Method {
	case MethodInitialize:
		s.hello = e.Entry
		s.clientCaps = inner(e.params, "clientCapabilities")
		if c := inner(e.params, "capabilities"); s.version == schema.V2 && c != nil {
			s.clientCaps = c
		}

	case "session/load", "session/resume":
		x := s.open(id, e.params)
		x.loading, x.streams = true, map[string][]string{} // the messages come again

	// Turns that run at the same time are all marked as joined.
	case MethodPrompt:
		if x := s.sessions[id]; x != nil && e.Class == jsont.ClientRequest {
			t := &turn{session: x, request: e.Entry, joined: len(x.turns) > 0}
			for _, running := range x.turns {
				running.joined = true
			}
			x.turns, s.turns[e.Entry] = append(x.turns, t), t
		}

	case MethodCancel, "session/close":
		if x := s.sessions[id]; x != nil {
			for _, t := range x.turns {
				t.cancelled = true
			}
		}

	case jsonrpc.CancelMethod:
		key := IDKey(jsont.Encode(e.params["requestId"]))
		s.withdrawn[key] = true
		for request, t := range s.turns {
			if IDKey(request.ID) == key {
				t.cancelled = true
			}
		}
	}
}

// open returns the session with that id, made if need be, with the folders in params.
func (s *state) open(id string, params object) *session {
	x := s.sessions[id]
	if x == nil {
		x = &session{id: id, calls: map[string]*toolState{}, messages: map[string]string{}, streams: map[string][]string{}, compacting: map[string]bool{}}
		s.sessions[id] = x
	}
	x.roots = []string{text(params, "cwd")}
	more, _ := params["additionalDirectories"].([]any)
	for _, d := range more {
		if dir, ok := d.(string); ok {
			x.roots = append(x.roots, dir)
		}
	}
	delete(s.early, id)
	return x
}

// clientAnswered applies an answer of the client.
func (s *state) clientAnswered(e *event) {
	if e.request == nil {
		return
	}
	asked := s.event(e.request)
	id := text(asked.params, "terminalId")
	switch asked.Method {
	case "terminal/create":
		if made := text(e.result, "terminalId"); made != "" {
			s.terminals[made] = &terminal{session: asked.sessionID(), made: asked.Entry}
		}
	case "terminal/release":
		if t := s.terminals[id]; t != nil && e.succeeded {
			t.released = true
		}
	case "session/request_permission":
		delete(s.permitted, permissionKey(asked))
	case "elicitation/create":
		if page := text(asked.params, "elicitationId"); page != "" {
			s.pages[page] = false
		}
	}
}

// permissionKey returns the key of a question for permission.
func permissionKey(e *event) string {
	return e.sessionID() + "\n" + text(permissionSubject(e), "toolCallId")
}

// permissionSubject returns the tool call that a question for permission is about.
func permissionSubject(e *event) object {
	if subject := inner(e.params, "subject"); subject != nil {
		return inner(subject, "toolCall")
	}
	return inner(e.params, "toolCall")
}

// agentSent applies a message of the agent.
func (s *state) agentSent(e *event) {
	switch {
	case e.Class == jsont.ClientRequest:
		s.agentAsks[IDKey(e.ID)], s.agentIDs[IDKey(e.ID)] = e.Entry, true
		s.agentRequested(e)
	case e.request != nil:
		delete(s.waiting, e.request)
		s.agentAnswered(e)
	case e.update != nil:
		s.agentUpdated(e)
	}
}

// agentRequested applies a request of the agent.
func (s *state) agentRequested(e *event) {
	switch e.Method {
	case "terminal/kill":
		if t := s.terminals[text(e.params, "terminalId")]; t != nil {
			t.killed = true
		}
	case "session/request_permission":
		s.permitted[permissionKey(e)] = e.Entry
	case "elicitation/create":
		if page := text(e.params, "elicitationId"); page != "" {
			s.pages[page] = true
		}
	}
}

// agentAnswered applies an answer of the agent: it opens sessions and ends turns.
func (s *state) agentAnswered(e *event) {
	asked := s.event(e.request)
	switch asked.Method {
	case MethodInitialize:
		s.initialized = true
		if e.result == nil {
			return
		}
		if s.agentCaps = inner(e.result, "agentCapabilities"); s.agentCaps == nil {
			s.agentCaps = inner(e.result, "capabilities")
		}
		s.welcome, s.logins = e.Entry, len(authMethods(e))

	case MethodNewSession, "session/fork":
		if id := text(e.result, "sessionId"); id != "" {
			s.opened(s.open(id, asked.params), e.result)
		}

	case "session/load", "session/resume":
		if x := s.sessions[asked.sessionID()]; x != nil {
			x.loading = false
			s.opened(x, e.result)
		}

	case "session/set_config_option":
		if x := s.sessions[asked.sessionID()]; x != nil && e.result != nil {
			x.options = optionIDs(e.result)
		}

	// In version 2 the answer to a prompt only accepts it; a state update ends the turn.
	case MethodPrompt:
		if t := s.turns[e.request]; t != nil && (s.version == schema.V1 || !e.succeeded) {
			t.end(e, text(e.result, "stopReason"))
		}
	}
}

// opened sets the modes and options that the answer to opening a session has.
func (s *state) opened(x *session, result object) {
	x.modes = nil
	for _, m := range objects(inner(result, "modes"), "availableModes") {
		x.modes = append(x.modes, text(m, "id"))
	}
	x.options = optionIDs(result)
}

// optionIDs returns the ids of options in their order.
func optionIDs(o object) (ids []string) {
	for _, option := range objects(o, "configOptions") {
		ids = append(ids, optionID(option))
	}
	return ids
}

// optionID returns the id of an option in either version.
func optionID(option object) string {
	if id := text(option, "configId"); id != "" {
		return id
	}
	return text(option, "id")
}

// end ends a turn.
func (t *turn) end(by *event, stop string) {
	t.stop, t.ended = stop, by.Entry
	t.session.last = t
	t.session.turns = slices.DeleteFunc(t.session.turns, func(other *turn) bool { return other == t })
}

// agentUpdated applies an update. The first update of a session that is not open yet is
// kept, in case that it never is.
func (s *state) agentUpdated(e *event) {
	x := s.session(e)
	if x == nil {
		if s.early[e.sessionID()] == nil {
			s.early[e.sessionID()] = e.Entry
		}
		return
	}

	u := e.update
	switch e.tag {
	case "user_message_chunk", "agent_message_chunk", "agent_thought_chunk":
		x.speak(e.tag, text(u, "messageId"))
	case "tool_call", "tool_call_update":
		x.track(e, u)

	case "plan":
		x.plan = objects(u, "entries")
	case "config_option_update":
		x.options = optionIDs(u)

	case "usage_update":
		if amount, ok := number(inner(u, "cost")["amount"]); ok {
			x.cost = &amount
		}
	case "compaction_update":
		x.compacting[text(u, "compactionId")] = text(u, "status") == "in_progress"

	case "state_update":
		if t := x.running(); t != nil && text(u, "state") == "idle" && u["stopReason"] != nil {
			t.end(e, text(u, "stopReason"))
		}
	}
}

// speak records a piece of a message.
func (x *session) speak(tag, id string) {
	if id == "" {
		return
	}
	if _, known := x.messages[id]; !known {
		x.messages[id] = tag
	}
	ids := x.streams[tag]
	if len(ids) == 0 || ids[len(ids)-1] != id {
		x.streams[tag] = append(ids, id)
	}
}

// track records an update of a tool call.
// A call is assigned to the turn in which it was first seen.
func (x *session) track(e *event, u object) {
	id := text(u, "toolCallId")
	c := x.calls[id]
	if c == nil {
		c = &toolState{status: "pending", changed: e.Entry, turn: x.running()}
		x.calls[id] = c
	}
	if e.tag == "tool_call" {
		c.announced = e.Entry
	}
	if status := text(u, "status"); status != "" {
		c.status, c.changed = status, e.Entry
	}
	for _, item := range objects(u, "content") {
		if text(item, "type") == "terminal" {
			c.terminals = append(c.terminals, text(item, "terminalId"))
		}
	}
}
