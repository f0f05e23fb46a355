// Package render has the verdicts of a run of compliance tests, and writes them:
// Markdown and HTML for people, JUnit XML and SARIF for build servers, JSON for
// programs.
//
// A [Report] has an [AgentReport] for each agent, and that a [Result] for each
// test. A [Baseline] marks the failures that are expected. Text of agents is never
// trusted: it is written so that neither Markdown nor XML nor a terminal takes it
// for more than text.
//
//	report, err := render.ParseReport(path, text)
//	...
//	baseline.Apply(report, time.Now())
//	if report.Failed() {
//		err = report.Markdown(os.Stdout, nil)
//	}
//
// # Verdicts
//
// A finding fails a run if it breaks a MUST, the baseline does not accept it, and
// the requirements of the run ask for its rule. That is one decision,
// [rules.Finding.Fails], and every form of the report uses it: a JUnit case, an
// error in SARIF and the exit code of the command agree. The status of a test says
// more: WARN for a broken SHOULD, PARTIAL for an optional test that came some way.
//
// Two lists hold findings. Those of a test are in its Result. Those of the checks
// of every frame are in the ledger of the agent, each rule once, because an agent
// that makes a mistake makes it in every conversation. [Report.Index] merges both
// for readers.
//
// The package runs nothing and judges nothing but findings. It reads no files: the
// caller reads and names them.
package render
