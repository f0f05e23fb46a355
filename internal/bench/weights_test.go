package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/effects"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/coordination"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

func init() { parts["weights"] = (*table).weights }

// The weights are inputs of at most maxWeight bytes that were made to take long, for every
// operation that takes content of an agent.
const maxWeight = 64 << 10

// heavyTexts are texts that are parsed or searched.
var heavyTexts = map[string]string{
	"10,000 braces":       "touch " + strings.Repeat("{a,b}", 10_000),
	"60,000 open braces":  strings.Repeat("{", 60_000),
	"one line of 60 kB":   strings.Repeat("x", 60_000),
	"30,000 lines":        strings.Repeat("x\n", 30_000),
	"nested repetitions":  strings.Repeat("(", 900) + "a" + strings.Repeat("*)", 900),
	"5,000 words of FTS":  strings.Repeat(`"a" NEAR b* OR `, 4_000),
	"YAML with its names": "a: &a [x]\n" + strings.Repeat("b: [*a, *a, *a]\n", 3_000),
	"a report":            "STATUS: " + strings.Repeat("ok | ", 10_000),
}

// heavyContents are contents of contracts and packets, and other JSON.
var heavyContents = map[string]string{
	"definitions that name each other twice": doubling("anyOf", 40),
	"definitions in all of two":              doubling("allOf", 40),
	"definitions in one of two":              doubling("oneOf", 40),
	"1,000 constants":                        listed(1000, `{"const":"v%d"}`, `{"type":"object","properties":{"kind":{"anyOf":[`, `]}}}`),
	"200 kinds":                              listed(200, `{"type":"object","required":["kind"],"properties":{"kind":{"const":"k%d"}}}`, `{"oneOf":[`, `]}`),
	"1,500 properties":                       listed(1500, `"p%d":{"type":"string"}`, `{"type":"object","properties":{`, `}}`),
	"500 expressions":                        listed(500, `"^(a|b){1,%d}$":{"type":"string"}`, `{"type":"object","patternProperties":{`, `}}`),
	"arrays in arrays":                       `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
}

// doubling returns definitions of which each names the next one twice.
func doubling(word string, levels int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"l%d":{"%s":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, word, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d":{"type":"object","properties":{"a":{"type":"string"}}}}}`, levels)
	return b.String()
}

// listed returns n items between a beginning and an end.
func listed(n int, item, begin, end string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(item, i+1)
	}
	return begin + strings.Join(items, ",") + end
}

// heavyPaths are names of files.
func heavyPaths() []string {
	paths := make([]string, 4_000)
	for i := range paths {
		paths[i] = fmt.Sprintf("d/f%d.txt", i)
	}
	return paths
}

// contentNames are the members of parameters that hold content of an agent. A member that is any
// JSON is content, whatever its name.
var contentNames = []string{
	"ask", "body", "change", "changeNotes", "chosen", "code", "command", "comment", "content", "decision", "description", "difference", "doc",
	"estimatedFiles", "evidence", "files", "findings", "implications", "instructions", "message", "notes", "objective", "output", "parts", "paths", "pattern", "patterns",
	"payload", "plan", "prompt", "query", "question", "rationale", "report", "seen", "snippet", "summary", "text", "title", "why",
}

// A weighed is one operation with the members of its parameters that take content.
type weighed struct {
	method   string
	members  []reflect.StructField
	all      map[string]reflect.StructField
	isAgents bool
}

// weighedOperations returns every operation that agents may call and that takes content.
func weighedOperations() (all []weighed) {
	operations := []any{}
	for _, o := range api.Operations {
		operations = append(operations, o)
	}
	for _, o := range coordination.Operations {
		operations = append(operations, o)
	}
	for _, o := range operations {
		v := reflect.ValueOf(o)
		spec := v.FieldByName("Spec").Interface().(rpc.Spec)
		w := weighed{method: spec.Method, all: map[string]reflect.StructField{}, isAgents: slices.Contains(spec.Callers, hub.CallerAgent)}
		w.collect(v.FieldByName("Do").Type().In(3))
		if w.isAgents && len(w.members) > 0 {
			all = append(all, w)
		}
	}
	return all
}

// collect adds the members of a type of parameters.
func (w *weighed) collect(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		tag, isTagged := f.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		inside := f.Type
		if inside.Kind() == reflect.Pointer {
			inside = inside.Elem()
		}
		isInline := (f.Anonymous && name == "") || strings.Contains(tag, ",inline")
		switch {
		case name == "-" || (!f.IsExported() && !f.Anonymous):
			continue
		case isInline:
			w.collect(inside)
			continue
		case !isTagged:
			name = f.Name
		}
		f.Name = name
		w.all[name] = f
		if isJSON(f.Type) || slices.Contains(contentNames, name) {
			w.members = append(w.members, f)
		}
	}
}

// isJSON reports whether a member holds any JSON.
func isJSON(t reflect.Type) bool { return t == reflect.TypeFor[json.RawMessage]() }

// params returns parameters with a heavy value in each member that takes content. known has the
// values of others.
func (w weighed) params(t testing.TB, known map[string]any, text, content string) []byte {
	t.Helper()
	out := map[string]any{}
	for name := range w.all {
		if value, ok := known[name]; ok {
			out[name] = value
		}
	}
	share := maxWeight / len(w.members)
	for _, f := range w.members {
		if isJSON(f.Type) {
			out[f.Name] = json.RawMessage(content)
			continue
		}
		value := heavyValue(f.Type, text, share)
		if value == nil {
			t.Errorf("%s takes content in %s, and there is no weight for a %s", w.method, f.Name, f.Type)
		}
		out[f.Name] = value
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// heavyValue returns a heavy value of a type, of about a number of bytes; nil if there is none.
func heavyValue(t reflect.Type, text string, share int) any {
	switch t.Kind() {
	case reflect.Pointer:
		return heavyValue(t.Elem(), text, share)
	case reflect.String:
		return text[:min(len(text), share)]
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return heavyPaths()[:min(4_000, share/16)]
		}
		return []any{heavyValue(t.Elem(), text, share)}
	case reflect.Map:
		out := map[string]any{}
		for _, path := range heavyPaths()[:min(1_000, share/64)] {
			out[path] = heavyValue(t.Elem(), "x", share)
		}
		return out
	case reflect.Struct, reflect.Interface:
		return map[string]any{}
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return reflect.Zero(t).Interface()
	}
	return nil
}

// A heavyHub is a hub with a project, to which agents send weights.
type heavyHub struct {
	url   string
	keys  map[hub.AgentID]string
	known map[string]any
	stop  func() error // returns when the hub has ended

	operator *rpc.Client
}

// newHeavyHub starts a hub in this process with nine agents.
func newHeavyHub(t testing.TB) *heavyHub {
	t.Helper()
	home := t.TempDir()
	s, err := server.New(t.Context(), server.Options{Home: home, Addr: "127.0.0.1:0", NoInboxFiles: true, Limits: server.Limits{Unsafe: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	h := &heavyHub{url: s.URL(), keys: map[hub.AgentID]string{}}
	h.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { h.stop() })

	key, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	token, err := rpc.NewOperator("", h.url, strings.TrimSpace(string(key)), "").Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.operator = rpc.NewClient(h.url, token, "", nil)
	for i := range 9 {
		name := hub.AgentID(fmt.Sprintf("a%d", i))
		made, err := rpc.Call(t.Context(), h.operator, api.AddAgent, api.AgentParams{ID: name})
		if err != nil {
			t.Fatal(err)
		}
		h.keys[name] = made.Key
	}

	p, err := rpc.Call(t.Context(), h.operator, coordination.CreateProject, coordination.NewProject{Name: "p", Objective: "p", Repos: []coordination.NewRepo{{Name: "api", Role: "backend", Language: "go"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rpc.Call(t.Context(), h.client("a0"), coordination.JoinProject, coordination.JoinParams{InProject: contract.In(p.Project), Repo: "api"}); err != nil {
		t.Fatal(err)
	}
	h.known = map[string]any{"projectId": p.Project, "type": "data_model", "to": []string{"a1"}, "name": "Heavy", "kind": "edit", "tree": t.TempDir(), "repoName": "api"}
	return h
}

// client returns a client of an agent.
func (h *heavyHub) client(name hub.AgentID) *rpc.Client {
	return rpc.NewClient(h.url, h.keys[name], "", &http.Client{})
}

// call performs an operation and returns the error of its answer. A request that is broken off
// fails the test.
func (h *heavyHub) call(t testing.TB, c *rpc.Client, method string, params []byte) error {
	t.Helper()
	_, err := c.Raw(t.Context(), method, params)
	switch hub.CodeOf(err) {
	case hub.CodeInternal, hub.CodeOverloaded, hub.CodeDegraded, hub.CodeUnreachable:
		t.Errorf("%s: %.300v", method, err)
	}
	return err
}

// contract makes a contract and returns where it is.
func (h *heavyHub) contract(t testing.TB, c *rpc.Client) contract.InContract {
	t.Helper()
	project := coord.ProjectID(fmt.Sprint(h.known["projectId"]))
	made, err := rpc.Call(t.Context(), c, coordination.Propose, contract.Proposal{
		InProject: contract.In(project), As: contract.As{Repo: "api"}, Type: coord.ContractModel, Name: "Heavy", Content: json.RawMessage(heavyContents["definitions that name each other twice"]),
	})
	if err != nil {
		t.Fatal(err)
	}
	return contract.Of(project, made.Contract)
}

// sorted returns the names of inputs in order.
func sorted(all map[string]string) []string { return slices.Sorted(maps.Keys(all)) }

// takers are operations of which it is known that they take content. All others are found by the
// members of their parameters.
var takers = []string{
	"acp/handoff", "acp/query", "acp/send", "acp/status", "cacp/contract/diff", "cacp/contract/propose", "cacp/contract/respond", "cacp/contract/update",
	"cacp/context/share", "cacp/implementation/complete", "parley/contract/impact", "parley/contract/use", "parley/files",
	"parley/landings/review", "parley/reservations/ask", "parley/reservations/reserve", "parley/run/end",
}

// TestWeights sends heavy content to every operation that takes content of an agent. Each call is
// answered, done or refused with a reason: none ends at its deadline, and none fails inside.
func TestWeights(t *testing.T) {
	h := newHeavyHub(t)
	h.known["contractId"] = h.contract(t, h.client("a0")).Contract
	agent := h.client("a0")
	operations := weighedOperations()
	for _, method := range takers {
		if !slices.ContainsFunc(operations, func(w weighed) bool { return w.method == method }) {
			t.Errorf("%s takes content of an agent, and gets no weight: name its member in contentNames", method)
		}
	}
	texts := sorted(heavyTexts)
	contents := sorted(heavyContents)
	for _, w := range operations {
		for i := range max(len(texts), len(contents)) {
			text := heavyTexts[texts[i%len(texts)]]
			content := heavyContents[contents[i%len(contents)]]
			params := w.params(t, h.known, text, content)
			h.call(t, agent, w.method, params)
			h.call(t, h.operator, w.method, params)
		}
	}
}

// TestStepsOfWeights compares each heavy content with a changed one. The number of steps has a
// bound, and so has the memory of the guard for each heavy text.
func TestStepsOfWeights(t *testing.T) {
	for _, name := range sorted(heavyContents) {
		if len(heavyContents[name]) > maxWeight {
			t.Errorf("%s has %d bytes", name, len(heavyContents[name]))
		}
		v := compareWeight(t, name)
		if v.Steps > compat.MaxSteps+compat.MaxExampleSteps+10_000 {
			t.Errorf("%s: %d steps", name, v.Steps)
		}
	}
}

// compareWeight compares a heavy content with one that differs a little.
func compareWeight(t testing.TB, name string) compat.Verdict {
	t.Helper()
	text := heavyContents[name]
	changed := strings.Replace(strings.Replace(text, `"string"`, `"integer"`, 1), `"v7"`, `"v0"`, 1)
	read := func(text string) compat.Document {
		d, err := compat.Read([]byte(text), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return d
	}
	return compat.Compare(read(text), read(changed), compat.Options{})
}

// TestHeavyQuestionsAtOnce has eight agents ask heavy questions at once. Another agent still reads
// its inbox, and the hub ends when it is asked to.
func TestHeavyQuestionsAtOnce(t *testing.T) {
	h := newHeavyHub(t)
	of := h.contract(t, h.client("a0"))
	var asking sync.WaitGroup
	for i := range 8 {
		c := h.client(hub.AgentID(fmt.Sprintf("a%d", i)))
		asking.Go(func() {
			content := doubling("oneOf", 30+i)
			rpc.Call(t.Context(), c, coordination.DiffContract, contract.DiffQuery{InContract: of, Content: json.RawMessage(content)}) // it may be cut off
		})
	}
	if _, err := rpc.Call(t.Context(), h.client("a8"), api.Inbox, api.InboxParams{}); err != nil {
		t.Errorf("the inbox of another agent: %v", err)
	}
	if err := h.stop(); err != nil {
		t.Errorf("the hub ended with %v", err)
	}
	asking.Wait()
}

// weights measures each weight: comparisons and shell texts by themselves, and the inbox of an
// agent while eight others ask heavy questions.
func (t *table) weights() {
	b := t.b
	for _, name := range sorted(heavyContents) {
		steps := 0
		took, mib := cost(func() { steps = compareWeight(b, name).Steps })
		t.most(fmt.Sprintf("contract diff, impact, update: %s, %d steps, %.0f MiB", name, steps, mib), took, 1000, "ms")
	}
	for _, name := range sorted(heavyTexts) {
		took, mib := cost(func() { effects.Read(heavyTexts[name], "/w") })
		t.most(fmt.Sprintf("shell text for the guard: %s, %.0f MiB", name, mib), took, 1000, "ms")
	}

	h := newHeavyHub(b)
	of := h.contract(b, h.client("a0"))
	h.known["contractId"] = of.Contract
	agent := h.client("a0")
	for _, w := range weighedOperations() {
		slowest, which := 0.0, ""
		for _, name := range sorted(heavyTexts) {
			params := w.params(b, h.known, heavyTexts[name], heavyContents["1,500 properties"])
			took, _ := cost(func() { h.call(b, agent, w.method, params) })
			if took > slowest {
				slowest, which = took, name
			}
		}
		t.most(w.method+": "+which, slowest, 1000, "ms")
	}

	stop := make(chan struct{})
	var asking sync.WaitGroup
	for i := range 8 {
		c := h.client(hub.AgentID(fmt.Sprintf("a%d", i)))
		asking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				content := doubling("oneOf", 20+n%40+i)
				rpc.Call(b.Context(), c, coordination.DiffContract, contract.DiffQuery{InContract: of, Content: json.RawMessage(content)})
			}
		})
	}
	other := h.client("a8")
	inbox := medianOf(15, func() {
		_, err := rpc.Call(b.Context(), other, api.Inbox, api.InboxParams{})
		must(b, err)
	})
	close(stop)
	asking.Wait()
	t.most("inbox of another agent while eight ask heavy questions", inbox, 250, "ms")
}

// cost returns the time of f in milliseconds and the memory that it took in all, in MiB.
func cost(f func()) (took, mib float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	f()
	took = float64(time.Since(began).Microseconds()) / 1000
	runtime.ReadMemStats(&after)
	return took, float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
}
