// Package render has the verdicts of a run of compliance tests, and writes them:
// Markdown and HTML for people, JUnit XML and SARIF for build servers, JSON for programs.
//
// A [Report] has an [AgentReport] for each agent, and that a [Result] for each
// test. A [Baseline] marks the failures that are expected. Text of agents is never
// trusted: it is written so that neither Markdown nor XML nor a terminal takes it
// for more than text.
package render
