package goodagent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
)

// A Mutant is the good agent with one flaw. It breaks its rule, those that are
// listed under Breaks, and nothing else.
type Mutant struct {
	Rule string // the id of the rule
	Name string // tells it from others of the same rule; may be empty
	Does string // its mistake, for people

	// Out and In see each message on its way to the client and from it, and
	// return the messages that go on in its place. They may change the message. Both are
	// called one message after the other, and never at the same time.
	Out, In func(w *Wire, m Message) []Message

	// Bytes stands before In: it changes the bytes of the client, before they are taken
	// apart into lines.
	Bytes func(in io.Reader) io.Reader

	// Begin is called before anything is read.
	Begin func(w *Wire)

	// End is called after the agent has said everything.
	End func(w *Wire)

	// Change changes the agent before it is served.
	Change func(*Agent)

	// Breaks are the rules that an agent also breaks when it breaks Rule this way.
	Breaks []string

	// Process says that it has to be a process of its own.
	Process bool

	// Suspected says that a client can only suspect it: a finding does not fail a run.
	Suspected bool

	// V2 says that it is a mutant of version 2 of the protocol.
	V2 bool
}

// ID returns rule and name.
func (m *Mutant) ID() string {
	if m.Name == "" {
		return m.Rule
	}
	return m.Rule + "/" + m.Name
}

// mutants is the table of all mutants, sorted by their ids.
var mutants = slices.SortedFunc(slices.Values(slices.Concat(
	transportFrameMutants(), newSessionMutants(), authMutants(), initializeMutants(), sessionFrameMutants(), loadMutants(), listMutants(), forkMutants(), cancelMutants(), cancelRequestMutants(), promptMutants(), turnFrameMutants(),
	updateFrameMutants(), toolFrameMutants(), toolsMutants(), clientFrameMutants(), settingFrameMutants(), settingsMutants(), serversMutants(),
	providersMutants(), transportMutants(), answerMutants(), exchangeMutants(), questionMutants(), v2Mutants(), v2SetupMutants(), v2SessionMutants(), v2PromptMutants(), v2ExchangeMutants(),
)), func(a, b *Mutant) int { return strings.Compare(a.ID(), b.ID()) })

// Mutants returns all mutants, sorted by their ids.
func Mutants() []*Mutant { return slices.Clone(mutants) }

// Find returns the mutant with that id, nil if there is none.
func Find(id string) *Mutant {
	for _, m := range mutants {
		if m.ID() == id {
			return m
		}
	}
	return nil
}

// A Message is one on its way.
type Message struct {
	Object map[string]any // nil for a message that is no object
	Raw    []byte         // if set, goes out as it is, in place of Object

	// Answers is the request that a response belongs to.
	Answers *Message
}

// Method returns the method, "" if it has none.
func (m Message) Method() string {
	s, _ := m.Object["method"].(string)
	return s
}

// Params returns the params, nil if there are none.
func (m Message) Params() map[string]any { return child(m.Object, "params") }

// Result returns the result of a response if it is an object.
func (m Message) Result() map[string]any { return child(m.Object, "result") }

// Update returns the update of session/update, nil for anything else.
func (m Message) Update() map[string]any {
	if m.Method() != "session/update" {
		return nil
	}
	return child(m.Params(), "update")
}

// Tag returns the kind of an update, "" for anything else.
func (m Message) Tag() string {
	s, _ := m.Update()["sessionUpdate"].(string)
	return s
}

func child(o map[string]any, name string) map[string]any {
	c, _ := o[name].(map[string]any)
	return c
}

// Copy returns a message that shares nothing with m.
func (m Message) Copy() Message {
	object, _ := decode(encode(m.Object)).(map[string]any)
	return Message{Object: object}
}

func decode(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// A Wire is where the messages of one conversation pass.
type Wire struct {
	Note map[string]any // the memory of the mutant

	m   *Mutant
	mu  sync.Mutex // held while a message passes
	out io.Writer
	in  map[string]*Message // requests of the client by id
	ask map[string]*Message // requests of the agent by id
}

// Send writes a message to the client, past Out.
func (w *Wire) Send(m Message) {
	raw := m.Raw
	if raw == nil {
		raw = append(encode(m.Object), '\n')
	}
	w.out.Write(raw) // the agent notices a closed pipe itself
}

// Open returns the request of the client with that method that was last made
// and not answered, nil if there is none.
func (w *Wire) Open(method string) *Message {
	for _, m := range w.in {
		if m.Method() == method {
			return m
		}
	}
	return nil
}

// asks reports whether a request of the agent with that method waits.
func (w *Wire) asks(method string) bool {
	for _, m := range w.ask {
		if m.Method() == method {
			return true
		}
	}
	return false
}

// filter puts the mutant between the agent and its client.
func (m *Mutant) filter(in io.Reader, out io.Writer) (io.Reader, io.Writer, func()) {
	w := &Wire{Note: map[string]any{}, m: m, out: out, in: map[string]*Message{}, ask: map[string]*Message{}}
	if m.Bytes != nil {
		in = struct {
			io.Reader
			io.Closer
		}{m.Bytes(in), closerOf(in)}
	}
	if m.Begin != nil {
		m.Begin(w)
	}
	r, feed := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		feed.CloseWithError(w.read(in, feed))
	}()
	return r, w, func() {
		if m.End != nil {
			m.End(w)
		}
		r.Close()
		if c, ok := in.(io.Closer); ok {
			c.Close()
		}
		<-done
	}
}

// closerOf returns in as a closer, or one that does nothing.
func closerOf(in io.Reader) io.Closer {
	if c, ok := in.(io.Closer); ok {
		return c
	}
	return io.NopCloser(in)
}

// read passes on the messages of the client.
func (w *Wire) read(in io.Reader, feed io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			for _, m := range w.pass(line, w.m.In, w.in, w.ask) {
				raw := m.Raw
				if raw == nil {
					raw = append(encode(m.Object), '\n')
				}
				if _, err := feed.Write(raw); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Write takes whole lines of the agent.
func (w *Wire) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		for _, m := range w.pass(line, w.m.Out, w.ask, w.in) {
			w.mu.Lock()
			w.Send(m)
			w.mu.Unlock()
		}
	}
	return len(b), nil
}

// maxSeen is how long a line may be that a mutant sees; longer ones would only
// make it slow.
const maxSeen = 1 << 20

// pass lets a mutant see a line. Requests are noted in asked, answers to those in
// asking are recognized.
func (w *Wire) pass(line []byte, see func(*Wire, Message) []Message, asked, asking map[string]*Message) []Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(line) > maxSeen {
		return []Message{{Raw: bytes.Clone(line)}}
	}
	object, ok := decode(line).(map[string]any)
	if !ok {
		return []Message{{Raw: bytes.Clone(line)}}
	}
	m := Message{Object: object}
	if id, ok := object["id"]; ok {
		key := string(encode(id))
		if m.Method() != "" {
			request := m.Copy()
			asked[key] = &request
		} else {
			m.Answers = asking[key]
			delete(asking, key)
		}
	}
	if see == nil {
		return []Message{{Raw: bytes.Clone(line)}}
	}
	return see(w, m)
}
