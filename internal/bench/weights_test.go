package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
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
	"github.com/parley-agents/parley/internal/ground/effects"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

func init() { parts["weights"] = (*table).weights }

// The weights are inputs of at most maxWeight bytes that were made to take long, for every
// operation that takes content of an agent.
const maxWeight = 64 << 10

// heavyTexts are texts that are parsed or searched.
var heavyTexts = map[string]string{
	"10,000 braces":      "touch " + strings.Repeat("{a,b}", 10_000),
	"60,000 open braces": strings.Repeat("{", 60_000),
	"one line of 60 kB":  strings.Repeat("x", 60_000),
	"30,000 lines":       strings.Repeat("x\n", 30_000),
	"nested repetitions": strings.Repeat("(", 900) + "a" + strings.Repeat("*)", 900),
	"5,000 words of FTS": strings.Repeat(`"a" NEAR b* OR `, 4_000),
	"a report":           "STATUS: " + strings.Repeat("ok | ", 10_000),
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

// heavyNames are names of files: many, long, and such that hide or lead elsewhere.
var heavyNames = map[string][]string{
	"4,000 names":             numbered(4_000, "d/f%d.txt"),
	"16 names of 4,000 bytes": numbered(16, strings.Repeat("d/", 1_990)+"f%d"),
	"3,000 odd names":         numbered(500, "a\x00%d", "d/\u202etxt.%d", "d/a\nb%d", "../%d", ":(exclude)%d", "-%d\r\u200b"),
}

// numbered returns n names of each of some forms.
func numbered(n int, forms ...string) (out []string) {
	for i := range n {
		for _, form := range forms {
			out = append(out, fmt.Sprintf(form, i))
		}
	}
	return out
}

// heavyFiles are files that people and agents write in YAML: parley.yaml, and contracts.
var heavyFiles = map[string]string{
	"names of names, ten times doubled": "a0: &a0 [x, x]\n" + doubledNames(10) + "checks: *a10\n",
	"names of names, forty times":       "a0: &a0 [x, x]\n" + doubledNames(40) + "checks: *a40\n",
	"one list named 5,000 times":        "agents: {a: &a [" + strings.Repeat("x, ", 80) + "x]}\nteams: [" + strings.Repeat("*a, ", 5_000) + "*a]\n",
	"30,000 brackets":                   "checks: " + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000),
	"1,500 checks":                      "checks:\n" + listed(1_500, "  c%d: {command: [make, t], when: [a]}\n", "", ""),
	"one line of 60 kB":                 "checks: {a: {command: " + strings.Repeat("x", 60_000) + "}}",
	"10,000 lines of text":              "checks: {a: {command: |\n" + strings.Repeat("    x\n", 10_000) + "  }}",
}

// doubledNames returns members of which each has the one before twice.
func doubledNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return b.String()
}

// heavyPatterns are patterns of files that take long to compare: as many, as long and with as many
// stars as one agent may reserve.
var heavyPatterns = map[string][]string{
	"64 patterns of stars":                 numbered(64, strings.Repeat("**/*a*b*c/", 3)+"%d"),
	"6 patterns at the longest length":     numbered(6, strings.Repeat("*a/b", 16)+strings.Repeat("a/b", 148)+"%d"),
	"64 patterns at the longest length":    numbered(64, "*"+strings.Repeat("a/b", 150)+"%d"),
	"64 patterns of any single characters": numbered(64, "*"+strings.Repeat("?", 500)+"%d"),
}

// heavyFolders are files deep in folders, with which the patterns are compared.
var heavyFolders = numbered(reservation.MaxQuestion, strings.Repeat("a/b", 35)+"/%d")

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
func (w weighed) params(t testing.TB, known map[string]any, text, content string, names []string) []byte {
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
		value := heavyValue(f.Type, text, names, share)
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
func heavyValue(t reflect.Type, text string, names []string, share int) any {
	switch t.Kind() {
	case reflect.Pointer:
		return heavyValue(t.Elem(), text, names, share)
	case reflect.String:
		return text[:min(len(text), share)]
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return within(names, share)
		}
		return []any{heavyValue(t.Elem(), text, names, share)}
	case reflect.Map:
		out := map[string]any{}
		for _, path := range within(names, share/4) {
			out[path] = heavyValue(t.Elem(), "x", names, share)
		}
		return out
	case reflect.Struct, reflect.Interface:
		return map[string]any{}
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return reflect.Zero(t).Interface()
	}
	return nil
}

// within returns the first names that have about a number of bytes together.
func within(names []string, share int) []string {
	for i, name := range names {
		if share -= len(name) + 4; share < 0 {
			return names[:i]
		}
	}
	return names
}

// A heavyHub is a hub with a project, to which agents send weights.
type heavyHub struct {
	url   string
	keys  map[hub.AgentID]string
	known map[string]any
	stop  func() error // returns when the hub has ended

	repository string // a folder with a git repository, under a root

	operator *rpc.Client
}

// newHeavyHub starts a hub in this process with nine agents.
func newHeavyHub(t testing.TB) *heavyHub {
	t.Helper()
	home := t.TempDir()
	repository := filepath.Join(t.TempDir(), "repository")
	s, err := server.New(t.Context(), server.Options{Home: home, Addr: "127.0.0.1:0", NoInboxFiles: true, Limits: server.Limits{Unsafe: true}, Roots: []string{filepath.Dir(repository)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	h := &heavyHub{url: s.URL(), keys: map[hub.AgentID]string{}, repository: repository}
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
	h.known = map[string]any{"projectId": p.Project, "type": "data_model", "to": []string{"a1"}, "name": "Heavy", "kind": "edit", "tree": repository, "repoName": "api"}
	h.git(t, "init", "-q", "-b", "main", repository)
	h.commit(t, "first", map[string]string{"a.txt": "one\n"})
	return h
}

// git runs git in the repository.
func (h *heavyHub) git(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	if _, err := os.Stat(h.repository); err == nil {
		cmd.Dir = h.repository
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %.200q: %v\n%s", args, err, out)
	}
}

// commit commits files by their names.
func (h *heavyHub) commit(t testing.TB, message string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(h.repository, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.git(t, "add", "-A")
	h.git(t, "commit", "-q", "--allow-empty", "-m", message)
}

// heavyChanges are files before and after a change: little in git, and much to compare.
var heavyChanges = map[string][2]map[string]string{
	"8 MiB of line ends":          {{"ends": strings.Repeat("\n", 8<<20)}, {"ends": strings.Repeat("x\n\n", 4<<20)}},
	"90,000 lines of eight kinds": {{"kinds": ofKinds(90_000, 7)}, {"kinds": ofKinds(90_000, 11)}},
	"150 moved files":             {movedFiles("a", 0), movedFiles("b", 1)},
	"a line of 15 MiB":            {{"line": strings.Repeat("x", 15<<20)}, {"line": strings.Repeat("x", 15<<20-1) + "y"}},
	"a text of 40 MiB":            {{}, {"text": strings.Repeat("a line of this text\n", 2<<20)}},
	"300 odd names":               {{}, oddFiles(300)},
}

// ofKinds returns lines of eight kinds in an order without repetition.
func ofKinds(n, seed int) string {
	var b strings.Builder
	state := uint64(seed)
	for range n {
		state = state*6364136223846793005 + 1442695040888963407
		b.WriteByte("abcdefgh"[state>>61])
		b.WriteByte('\n')
	}
	return b.String()
}

// movedFiles returns 150 files in a folder, each with 1,000 lines that differ a little for each seed.
func movedFiles(folder string, seed int) map[string]string {
	out := map[string]string{}
	for i := range 150 {
		out[fmt.Sprintf("%s/%d", folder, i)] = ofKinds(1_000, 1_000*seed+i)
	}
	return out
}

// oddFiles returns files whose names hide, or are as long as a file system takes.
func oddFiles(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("odd/\u202etxt\n%d", i)] = "x\n"
		out[fmt.Sprintf("odd/%s%d", strings.Repeat(strings.Repeat("n", 200)+"/", 10), i)] = "x\n"
	}
	return out
}

// landing queues a heavy change, whose beginning is in main, and returns its entry.
func (h *heavyHub) landing(t testing.TB, name string) hub.LandingID {
	t.Helper()
	branch := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
	h.git(t, "checkout", "-q", "main")
	h.commit(t, "before "+name, heavyChanges[name][0])
	h.git(t, "checkout", "-q", "-b", branch)
	for file := range heavyChanges[name][0] {
		h.git(t, "rm", "-q", "--", file)
	}
	h.commit(t, name, heavyChanges[name][1])
	got, err := rpc.Call(t.Context(), h.client("a0"), api.Land, api.LandParams{Ref: branch, Repo: h.repository})
	if err != nil {
		t.Fatalf("land %s: %v", name, err)
	}
	return got.Entries[0].ID
}

// landings lets changes land in main that another agent approves.
func (h *heavyHub) landings(t testing.TB) {
	t.Helper()
	isOpen := true
	p := api.LandingParams{Repo: h.repository, Into: "main", NoChecks: &isOpen, Review: "a1", By: hub.LandingOperator}
	if _, err := rpc.Call(t.Context(), h.operator, api.SetLanding, p); err != nil {
		t.Fatal(err)
	}
}

// A heavyCall is a call whose parameters are accepted up to their heavy part. Generic parameters may
// be refused before that.
type heavyCall struct {
	method string
	params map[string]any
}

// heavyCalls returns packages of handoffs and questions about files.
func (h *heavyHub) heavyCalls(names []string, content string) []heavyCall {
	initiate := func(members map[string]any) heavyCall {
		maps.Copy(members, map[string]any{"action": "initiate", "to": "a1", "task_id": "W-1", "title": "w", "summary": "s", "next_step": "n", "unproven": "a weight"})
		return heavyCall{"acp/handoff", members}
	}
	references := []any{}
	for _, name := range within(names, maxWeight/2) {
		references = append(references, map[string]any{"type": "file", "path": name, "description": "d"})
	}
	return []heavyCall{
		initiate(map[string]any{"success_criteria": within(names, maxWeight)}),
		initiate(map[string]any{"success_criteria": "c", "worktree_path": h.repository, "scope": within(names, maxWeight)}),
		initiate(map[string]any{"success_criteria": "c", "worktree_path": h.repository, "artifacts": references}),
		initiate(map[string]any{"success_criteria": "c", "expect": map[string]any{"paths": within(names, maxWeight)}}),
		initiate(map[string]any{"success_criteria": "c", "package": map[string]any{"notes": json.RawMessage(content)}}),
		initiate(map[string]any{"success_criteria": "c", "package": map[string]any{"evidence": []any{map[string]any{"run_id": "r1", "diff": map[string]any{"created": within(names, maxWeight)}}}}}),
		{"parley/reservations/ask", map[string]any{"tree": h.repository, "kind": "edit", "paths": within(names[:min(len(names), reservation.MaxQuestion)], maxWeight)}},
		{"parley/reservations/reserve", map[string]any{"tree": h.repository, "patterns": names[:min(len(names), 64)]}},
		{"parley/files", map[string]any{"action": "who", "tree": h.repository, "paths": within(names, maxWeight)}},
		{"parley/files", map[string]any{"action": "release", "tree": h.repository, "paths": within(names, maxWeight)}},
	}
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
func sorted[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }

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
	names := sorted(heavyNames)
	for _, w := range operations {
		for i := range max(len(texts), len(contents)) {
			text := heavyTexts[texts[i%len(texts)]]
			content := heavyContents[contents[i%len(contents)]]
			params := w.params(t, h.known, text, content, heavyNames[names[i%len(names)]])
			h.call(t, agent, w.method, params)
			h.call(t, h.operator, w.method, params)
		}
	}
	for i, name := range names {
		for _, c := range h.heavyCalls(heavyNames[name], heavyContents[contents[i]]) {
			raw, err := json.Marshal(c.params)
			if err != nil {
				t.Fatal(err)
			}
			h.call(t, agent, c.method, raw)
		}
	}
}

// TestWeightsOfPatterns has two agents reserve heavy patterns, and a third one asks about many files
// while they are stored.
func TestWeightsOfPatterns(t *testing.T) {
	for _, name := range sorted(heavyPatterns) {
		h := newHeavyHub(t)
		h.call(t, h.client("a0"), "parley/reservations/reserve", h.patterns(t, heavyPatterns[name]))
		others := slices.Clone(heavyPatterns[name])
		for i := range others {
			others[i] += "x"
		}
		h.call(t, h.client("a2"), "parley/reservations/reserve", h.patterns(t, heavyPatterns[name])) // it waits for the first
		for _, c := range []heavyCall{
			{"parley/reservations/reserve", map[string]any{"tree": h.repository, "patterns": others}},
			{"parley/reservations/ask", map[string]any{"tree": h.repository, "kind": "edit", "paths": heavyFolders}},
			{"parley/reservations/ask", map[string]any{"tree": h.repository, "kind": "edit", "command": "rm " + strings.Join(heavyFolders[:200], " ")}},
			{"parley/files", map[string]any{"action": "who", "tree": h.repository, "paths": heavyFolders}},
			{"parley/reservations/list", map[string]any{}},
			{"parley/files", map[string]any{"action": "release", "tree": h.repository}},
		} {
			raw, err := json.Marshal(c.params)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.call(t, h.client("a1"), c.method, raw); err != nil {
				t.Errorf("%s: %s: %.300v", name, c.method, err)
			}
		}
		if err := h.stop(); err != nil {
			t.Errorf("%s: the hub ended with %v", name, err)
		}
	}
}

// patterns returns the parameters that reserve patterns.
func (h *heavyHub) patterns(t testing.TB, patterns []string) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"tree": h.repository, "patterns": patterns})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestRefusalsNameSizes asks for more than is allowed. Each refusal says how much it was and how much is
// allowed.
func TestRefusalsNameSizes(t *testing.T) {
	h := newHeavyHub(t)
	files := func(n int) []string { return numbered(n, "f%d") }
	for _, c := range []struct {
		method string
		params map[string]any
		sizes  [2]int
	}{
		{"parley/reservations/ask", map[string]any{"tree": h.repository, "kind": "edit", "paths": files(513)}, [2]int{513, 512}},
		{"parley/reservations/ask", map[string]any{"tree": h.repository, "kind": "edit", "command": strings.Repeat("x", 1<<18+1)}, [2]int{1<<18 + 1, 1 << 18}},
		{"parley/reservations/reserve", map[string]any{"tree": h.repository, "patterns": files(65)}, [2]int{65, 64}},
		{"parley/reservations/reserve", map[string]any{"tree": h.repository, "patterns": files(1), "why": strings.Repeat("x", 501)}, [2]int{501, 500}},
		{"parley/reservations/reserve", map[string]any{"tree": h.repository, "patterns": []string{strings.Repeat("x", 513)}}, [2]int{513, 512}},
		{"parley/reservations/reserve", map[string]any{"tree": h.repository, "patterns": []string{strings.Repeat("*a/b", 900)}}, [2]int{3_600, 512}},
		{"parley/reservations/reserve", map[string]any{"tree": h.repository, "patterns": []string{"src/" + strings.Repeat("*a", 17)}}, [2]int{17, 16}},
		{"parley/files", map[string]any{"action": "who", "tree": h.repository, "paths": files(4_097)}, [2]int{4_097, 4_096}},
		{"acp/query", map[string]any{"text": strings.Repeat("x", 1_001)}, [2]int{1_001, 1_000}},
	} {
		raw, err := json.Marshal(c.params)
		if err != nil {
			t.Fatal(err)
		}
		err = h.call(t, h.client("a0"), c.method, raw)
		if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprint(c.sizes[0])) || !strings.Contains(text, fmt.Sprint(c.sizes[1])) {
			t.Errorf("%s: %.300s; it must name %d and %d", c.method, text, c.sizes[0], c.sizes[1])
		}
	}
}

// TestWeightsInRepositories shows heavy changes that wait to land, and lists the checks of heavy files.
func TestWeightsInRepositories(t *testing.T) {
	patience.NotUnderRace(t)
	h := newHeavyHub(t)
	h.landings(t)
	for _, name := range sorted(heavyChanges) {
		id := h.landing(t, name)
		got, err := rpc.Call(t.Context(), h.client("a1"), api.ShowEntry, api.EntryParams{ID: id})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(got.Difference) == 0 || len(got.Difference) > 300<<10 {
			t.Errorf("%s: a difference of %d bytes", name, len(got.Difference))
		}
	}
	h.git(t, "checkout", "-q", "main")
	for _, name := range sorted(heavyFiles) {
		if len(heavyFiles[name]) > maxWeight {
			t.Errorf("%s has %d bytes", name, len(heavyFiles[name]))
		}
		h.commit(t, name, map[string]string{"parley.yaml": heavyFiles[name]})
		raw, _ := json.Marshal(api.RepositoryParams{Repository: h.repository})
		h.call(t, h.client("a1"), api.ListChecks.Method, raw)
		compat.Read([]byte(heavyFiles[name]), nil) // it ends
	}
}

// TestStepsOfWeights compares each heavy content with a changed one, and heavy patterns with many
// files. The number of steps has a bound, and so has the memory of the guard for each heavy text.
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
	for _, name := range sorted(heavyPatterns) {
		if steps := comparePatterns(name); steps > maxPatternSteps {
			t.Errorf("%s: %d steps, at most %d", name, steps, maxPatternSteps)
		}
	}
	for _, name := range sorted(heavyTexts) {
		if _, mib := cost(func() { effects.Read(heavyTexts[name], "/w") }); mib > maxMemory {
			t.Errorf("the guard takes %.0f MiB for %s, at most %d", mib, name, maxMemory)
		}
	}
}

// maxPatternSteps is the number of steps in which the patterns of one agent are compared with the files
// of a question: a fifth of those that a question has, so that several agents may have such patterns.
const maxPatternSteps = 10_000_000

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

// A weight is the cost of an operation with an input that was made to take long.
type weight struct {
	took, mib      float64 // milliseconds, and all memory that was taken, in MiB
	steps          int     // 0 where none are counted
	slowest, large string  // the inputs, where several were tried
}

// add makes w the cost of the slower and larger of two inputs.
func (w *weight) add(input string, took, mib float64) {
	if took >= w.took {
		w.took, w.slowest = took, input
	}
	if mib >= w.mib {
		w.mib, w.large = mib, input
	}
}

// input returns the inputs of the largest costs.
func (w *weight) input() string {
	if w.slowest == w.large {
		return w.slowest
	}
	return w.slowest + "; most memory: " + w.large
}

const (
	maxTime   = 1_000 // milliseconds of one operation on a quiet machine
	maxMemory = 64    // MiB
)

// weigh adds a row to the table of weights. The operation may take some milliseconds, and maxMemory.
func (t *table) weigh(operation, input string, w weight, most float64) {
	verdict := "ok"
	if w.took > most || w.mib > maxMemory {
		verdict = "MISSED"
	}
	steps := ""
	if w.steps > 0 {
		steps = fmt.Sprint(w.steps)
	}
	t.weighed = append(t.weighed, fmt.Sprintf("| %s | %s | %.1f ms | %.1f MiB | %s | %.0f ms, %d MiB | %s |", operation, input, w.took, w.mib, steps, most, maxMemory, verdict))
}

// weights measures each weight: comparisons and shell texts by themselves, each operation with all
// heavy contents, and the inbox of an agent while eight others ask heavy questions.
func (t *table) weights() {
	b := t.b
	for _, name := range sorted(heavyContents) {
		var w weight
		w.took, w.mib = cost(func() { w.steps = compareWeight(b, name).Steps })
		t.weigh("contract diff, impact, update", name, w, maxTime)
	}
	for _, name := range sorted(heavyTexts) {
		var w weight
		w.took, w.mib = cost(func() { effects.Read(heavyTexts[name], "/w") })
		t.weigh("shell text for the guard", name, w, maxTime)
	}
	for _, name := range sorted(heavyPatterns) {
		var w weight
		w.took, w.mib = cost(func() { w.steps = comparePatterns(name) })
		t.weigh("patterns with the files of a question", name, w, maxTime)
	}

	h := newHeavyHub(b)
	of := h.contract(b, h.client("a0"))
	h.known["contractId"] = of.Contract
	agent := h.client("a0")
	for _, o := range weighedOperations() {
		var w weight
		texts, contents := sorted(heavyTexts), sorted(heavyContents)
		for i := range max(len(texts), len(contents)) {
			text, content := texts[i%len(texts)], contents[i%len(contents)]
			params := o.params(b, h.known, heavyTexts[text], heavyContents[content], heavyNames["4,000 names"])
			took, mib := cost(func() { h.call(b, agent, o.method, params) })
			w.add(text+" and "+content, took, mib)
		}
		t.weigh(o.method, w.input(), w, maxTime)
	}
	for _, name := range sorted(heavyNames) {
		var w weight
		for _, c := range h.heavyCalls(heavyNames[name], heavyContents["1,500 properties"]) {
			raw, err := json.Marshal(c.params)
			must(b, err)
			took, mib := cost(func() { h.call(b, agent, c.method, raw) })
			w.add(c.method, took, mib)
		}
		t.weigh("packages of handoffs, questions about files", name+": "+w.input(), w, maxTime)
	}
	t.weightsOfPatterns()
	t.weightsOfFiles(h)

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

// comparePatterns compares heavy patterns with the files of a question, and returns the steps.
func comparePatterns(name string) (steps int) {
	for _, p := range heavyPatterns[name] {
		m := effects.Compile(effects.Pathspec(p))
		for _, file := range heavyFolders {
			m.Count("/"+file, &steps)
		}
	}
	return steps
}

// weightsOfPatterns measures the reservation of heavy patterns, and a question about many files while
// they are stored.
func (t *table) weightsOfPatterns() {
	b := t.b
	for _, name := range sorted(heavyPatterns) {
		h := newHeavyHub(b)
		for i, agent := range []hub.AgentID{"a0", "a1"} {
			own := slices.Clone(heavyPatterns[name])
			for j := range own {
				own[j] += strings.Repeat("x", i)
			}
			var w weight
			raw := h.patterns(b, own)
			w.took, w.mib = cost(func() { h.call(b, h.client(agent), api.ReserveFiles.Method, raw) })
			t.weigh(api.ReserveFiles.Method, fmt.Sprintf("%s, %d stored", name, i*len(own)), w, maxTime)
		}
		raw, err := json.Marshal(map[string]any{"tree": h.repository, "kind": "edit", "paths": heavyFolders})
		must(b, err)
		var w weight
		w.took, w.mib = cost(func() { h.call(b, h.client("a2"), api.AskFiles.Method, raw) })
		t.weigh(api.AskFiles.Method, fmt.Sprintf("%d paths while %s of two agents are stored", len(heavyFolders), name), w, maxTime)
		must(b, h.stop())
	}
}

// memoryOfPrograms returns the bytes of the largest program that this one started and that has ended;
// nil where the system does not say.
var memoryOfPrograms func() int64

// maxDifference is the number of milliseconds in which a difference is shown: git compares committed
// files of many MiB, which is more than a call brings. docs/configuration.md names its bounds.
const maxDifference = 10_000

// weightsOfFiles measures heavy files and changes in a repository.
func (t *table) weightsOfFiles(h *heavyHub) {
	b := t.b
	repo, err := json.Marshal(api.RepositoryParams{Repository: h.repository})
	must(b, err)
	for _, name := range sorted(heavyFiles) {
		var w weight
		w.took, w.mib = cost(func() { compat.Read([]byte(heavyFiles[name]), nil) })
		t.weigh("contract file in YAML", name, w, maxTime)
		h.commit(b, name, map[string]string{"parley.yaml": heavyFiles[name]})
		w.took, w.mib = cost(func() { h.call(b, h.client("a1"), api.ListChecks.Method, repo) })
		t.weigh("parley.yaml", name, w, maxTime)
	}

	h.landings(b)
	for _, name := range sorted(heavyChanges) {
		id := h.landing(b, name)
		raw, err := json.Marshal(api.EntryParams{ID: id})
		must(b, err)
		var w weight
		w.took, w.mib = cost(func() { h.call(b, h.client("a1"), api.ShowEntry.Method, raw) })
		t.weigh("difference of a landing, in the hub", name, w, maxDifference)
	}
	if memoryOfPrograms != nil {
		t.fact("memory of git, for the hub and for these rows, at most", fmt.Sprintf("%d MiB", memoryOfPrograms()>>20))
	}
	h.git(b, "checkout", "-q", "main")

	// Another agent sends while one asks about as many files as a question has.
	ask, err := json.Marshal(map[string]any{"tree": h.repository, "kind": "edit", "paths": heavyNames["4,000 names"][:reservation.MaxQuestion]})
	must(b, err)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for c := h.client("a1"); ; {
			select {
			case <-stop:
				return
			default:
				h.call(b, c, api.AskFiles.Method, ask)
			}
		}
	})
	longest := 0.0
	for range 40 {
		took, _ := cost(func() {
			_, err := rpc.Call(b.Context(), h.client("a2"), api.Send, api.SendParams{To: []hub.AgentID{"a3"}, Text: "x"})
			must(b, err)
		})
		longest = max(longest, took)
	}
	close(stop)
	asking.Wait()
	t.most(fmt.Sprintf("the slowest of 40 sends while another agent asks about %d files again and again", reservation.MaxQuestion), longest, 250, "ms")
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
