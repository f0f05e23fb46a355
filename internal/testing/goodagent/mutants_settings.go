package goodagent

// settingsMutants is the part of the table of mutants that is about settings.
func settingsMutants() []*Mutant {
	const (
		setMode   = "session/set_mode"
		setOption = "session/set_config_option"
		load      = "session/load"
	)
	// mode changes the setting that is the mode.
	mode := func(change func(map[string]any)) func(map[string]any) {
		return each("configOptions", func(o map[string]any) {
			if o["id"] == "mode" {
				change(o)
			}
		})
	}
	busy := func(method string) filter {
		return func(w *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == method && w.Open("session/prompt") != nil {
				fail(m.Object, -32603)
			}
			return keep(m)
		}
	}
	return []*Mutant{
		{Rule: "MODE-02", Does: "answers session/set_mode with null", Out: results(setMode, nil)},
		{Rule: "MODE-03", Does: "accepts a mode that it does not have", Out: accept(setMode, is("modeId", "no-such-mode"), object{})},
		{Rule: "MODE-04", Does: "does not change its mode while a turn runs", Out: busy(setMode)},
		{Rule: "MODE-07", Does: "does not keep mode and setting together", Breaks: []string{"CFG-11"}, Out: onResult(load, mode(set("currentValue", modePlan)))},
		{Rule: "MODE-07", Name: "update", Does: "changes the mode and not the setting of the client", In: notes(setMode, every), Out: noted(without("config_option_update"))},
		{Rule: "MODE-08", Does: "changes the mode of a session that never was", Out: accept(setMode, unknownSession, object{})},
		{Rule: "MODE-09", Does: "changes modes that it does not have", Breaks: []string{"CFG-11"}, Out: both(onResult("session/new", unset("modes")), accept(setMode, is("modeId", "code"), object{}))},
		{Rule: "MODE-10", Does: "forgets the mode", Breaks: []string{"MODE-07", "SNEW-04"}, Out: onResult(load, within("modes", set("currentModeId", modePlan)))},

		{Rule: "CFG-04", Does: "answers with some of the settings", Breaks: []string{"CFG-09"}, Out: onResult(setOption, func(r map[string]any) {
			if list, _ := r["configOptions"].([]any); len(list) > 1 {
				r["configOptions"] = list[:1]
			}
		})},
		{Rule: "CFG-05", Does: "answers with the old value", Out: func(_ *Wire, m Message) []Message {
			if q := m.Answers; q != nil && q.Method() == setOption && q.Params()["configId"] == "mode" && m.Result() != nil {
				mode(set("currentValue", modeAsk))(m.Result())
			}
			return keep(m)
		}},
		{Rule: "CFG-06", Does: "accepts a setting that it does not have", Out: accept(setOption, is("configId", "no-such-setting"), object{"configOptions": []any{}}), Breaks: []string{"CFG-09", "CFG-04"}},
		{Rule: "CFG-07", Does: "accepts a value that it did not offer", Out: accept(setOption, is("value", "no-such-value"), object{"configOptions": []any{}}), Breaks: []string{"CFG-09", "CFG-04"}},
		{Rule: "CFG-08", Does: "accepts an object as value", Out: accept(setOption, says(`"not":"a value"`), object{"configOptions": []any{}}), Breaks: []string{"CFG-09", "CFG-04"}},
		{Rule: "CFG-11", Does: "offers its modes as a setting only", Breaks: []string{"MODE-07"}, Out: onResult("session/new", unset("modes"))},
		{Rule: "CFG-13", Does: "does not change settings while a turn runs", Out: busy(setOption)},
		{Rule: "CFG-14", Does: "has switches that cannot be switched", Out: refuse(setOption, is("type", "boolean"), -32602)},
	}
}
