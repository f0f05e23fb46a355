package landing

// A Question is one question of the gate, with what keeps a change from landing and the line by which the
// operator decides otherwise.
type Question struct {
	Name   string // of the tries in the tests
	Asked  string // what a yes needs
	Else   string // the answer without it
	Opened string // by the operator alone
}

// Questions are all questions that are asked before a change lands. The documentation lists them.
var Questions = []Question{
	{"check", "each check of the policy, each `required` one of the repository and those of the package or task passed on the state that will be", "returned; it waits if a check is gone or cannot run", "`parley land policy set --no-checks`, where no check is asked for; for one change `parley land approve l7 --without test --because TEXT`"},
	{"concern", "a check concerns the change: one without `when`, or with a pattern that the change touches", "waits", "`parley land policy set --unconcerned-lands`"},
	{"review", "each reviewer that the policy and the package or task name approved this commit, after fetching the whole difference, and is none of the authors", "waits", "`parley land policy set --no-review`, for the policy's reviewer alone; for one change `parley land approve l7 --without review --because TEXT`"},
	{"judge", "a word, if the change touches what judges it: scripts of checks, `parley.yaml`, `.parley/keys`, a deleted test", "waits for the reviewer of the policy, else the operator", "`parley land review l7 approve`"},
	{"fewer tests", "a word, if fewer tests pass than before, as a check with `junit` counts them", "waits, likewise", "`parley land review l7 approve`"},
	{"taken back", "a word, if the change takes back what others landed, and for the undo of an agent", "waits, likewise", "`parley land review l7 approve`"},
	{"contract", "the contracts of the repository hold for the commit", "returned", "`parley land policy set --no-contracts`; for one change `parley land approve l7 --without contracts --because TEXT`"},
	{"yes", "the operator's yes, unless the policy is `--by auto`", "waits", "`parley land policy set --by auto --review WHO`; for one change `parley approve l7`"},
}
