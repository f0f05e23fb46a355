package goodagent

import "slices"

// provider is one whose model the agent can use, as a draft of the protocol has it.
// The agent itself has none, so mutants bring them.
type provider struct {
	id        string
	supported []any // the kinds of API that it may be reached by
	required  bool
}

var providers = []provider{
	{"main", []any{"openai", "anthropic"}, true},
	{"spare", []any{"openai"}, false},
}

// offersProviders advertises them.
var offersProviders = onResult("initialize", within("agentCapabilities", set("providers", object{})))

// provides answers requests about providers correctly, and sends the answer through flaw.
func provides(flaw filter) filter {
	methods := map[string]func(w *Wire, params, response map[string]any){
		"providers/list": listProviders, "providers/set": setProvider, "providers/disable": disableProvider,
	}
	return func(w *Wire, m Message) []Message {
		answer, ok := methods[m.Method()]
		if !ok {
			return keep(m)
		}
		response := Message{Object: object{"jsonrpc": "2.0", "id": m.Object["id"], "result": object{}}, Answers: &m}
		answer(w, m.Params(), response.Object)
		for _, out := range flaw(w, response) {
			w.Send(out)
		}
		return nil
	}
}

// disabled returns the name of the note that a provider is switched off.
func disabled(id string) string { return "disabled " + id }

func listProviders(w *Wire, _, response map[string]any) {
	var list []any
	for _, p := range providers {
		entry := object{"providerId": p.id, "supported": p.supported, "required": p.required}
		if w.Note[disabled(p.id)] == nil {
			entry["current"] = object{"apiType": p.supported[0], "baseUrl": "https://example.com"}
		}
		list = append(list, entry)
	}
	response["result"] = object{"providers": list}
}

// known returns the provider that params name.
func known(params map[string]any) (provider, bool) {
	i := slices.IndexFunc(providers, func(p provider) bool { return p.id == params["providerId"] })
	if i < 0 {
		return provider{}, false
	}
	return providers[i], true
}

func setProvider(w *Wire, params, response map[string]any) {
	p, ok := known(params)
	if !ok || !slices.Contains(p.supported, params["apiType"]) {
		fail(response, -32602)
		return
	}
	delete(w.Note, disabled(p.id))
}

func disableProvider(w *Wire, params, response map[string]any) {
	p, ok := known(params)
	if p.required {
		fail(response, -32602)
		return
	}
	if ok {
		w.Note[disabled(p.id)] = true
	}
}

// providersMutants is the part of the table of mutants that is about providers.
func providersMutants() (out []*Mutant) {
	const list, disable = "providers/list", "providers/disable"
	for _, c := range []struct {
		rule, does string
		flaw       filter
	}{
		{"PRV-01", "does not say what its providers support", onResult(list, each("providers", unset("supported")))},
		{"PRV-02", "sets a provider that it does not have", accept("providers/set", is("providerId", "no-such-provider"), object{})},
		{"PRV-03", "switches off a provider that it needs", accept(disable, is("providerId", "main"), object{})},
		{"PRV-04", "shows settings of a provider that is off", onResult(list, each("providers", set("current", object{})))},
		{"PRV-05", "cannot switch off a provider that it does not have", refuse(disable, is("providerId", "no-such-provider"), -32602)},
	} {
		out = append(out, &Mutant{Rule: c.rule, Does: c.does, In: provides(c.flaw), Out: offersProviders})
	}
	return out
}
