package render

import (
	"fmt"
	"html/template"
	"io"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// page is the HTML report: one file without anything from elsewhere. The template escapes all
// text of agents for the place that it stands in.
// Everything is inline, and the policy in the page allows nothing to be loaded: a
// report can be attached to a mail and opened from a disk. The script filters rows
// and does nothing else.
var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"statuses": Statuses,
	"total":    func(a *AgentReport, s Status) int { return a.Totals[s] },
	"rule":     rules.Find,
	"example":  rules.ExampleOf,
	"kept":     kept,
	"plain":    plaintext.Text,
	"seconds":  func(ms int64) string { return fmt.Sprintf("%.1f s", float64(ms)/1000) },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>ACP compliance report</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c1c1c;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.2rem .5rem;text-align:left;vertical-align:top}
pre{background:#f4f4f4;padding:.5rem;overflow:auto;white-space:pre-wrap;word-break:break-all}
.PASS{color:#176617}.FAIL,.PARTIAL,.ERROR,.MUST{color:#a51212;font-weight:600}.WARN,.SHOULD{color:#7a5200}.NA,.ADV,.MAY{color:#555}
details{border:1px solid #ccc;border-radius:.3rem;margin:.5rem 0;padding:.3rem .7rem}summary{cursor:pointer}
@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#222}td,th,details{border-color:#444}.PASS{color:#7fd17f}.FAIL,.PARTIAL,.ERROR,.MUST{color:#ff9a9a}.WARN,.SHOULD{color:#f0c674}.NA,.ADV,.MAY{color:#aaa}}
</style></head><body>
<h1>ACP compliance report</h1>
<p>{{if .Report.Failed}}<strong class="FAIL">failed</strong>{{else}}<strong class="PASS">passed</strong>{{end}}; protocol version {{.Report.Protocol}}, {{.Report.Tool}}, suite {{.Report.Suite}}, {{.Report.Started}}, {{seconds .Report.DurationMs}}{{if .Report.Interrupted}}; the run was interrupted; tests that did not run are ERROR{{end}}</p>
<p><label>Show tests and findings with the word <input id="filter" type="search"></label></p>
{{range $i, $a := .Report.Agents}}
<h2>{{plain $a.Name}}</h2>
<p>{{range statuses}}<span class="{{.}}">{{.}} {{total $a .}}</span> &nbsp; {{end}}</p>
{{with $a.AgentInfo}}<p>Agent: <code>{{printf "%s" .}}</code></p>{{end}}{{with $a.ClientInfo}}<p>Client: <code>{{printf "%s" .}}</code></p>{{end}}
{{range $a.Notes}}<p>Note: {{plain .}}</p>{{end}}
{{range $a.Stale}}<p class="FAIL">The baseline is stale: {{plain .}} no longer fails.</p>{{end}}
<table><tr><th>test</th><th>status</th><th>time</th><th>reason</th></tr>
{{range $a.Tests}}<tr class="row"><td>{{.ID}}<br><small>{{plain .Title}}</small></td><td class="{{.Status}}">{{.Status}}{{if .Known}} (accepted){{end}}</td><td>{{seconds .DurationMs}}</td><td>{{plain .Reason}}{{range .Ignored}}<br><small>not performed: {{plain .}}</small>{{end}}</td></tr>
{{end}}</table>
{{end}}
<h2>Findings</h2>
{{define "frames"}}{{range .}}<pre>{{.Seq}} {{if eq (printf "%s" .Direction) "out"}}client to agent{{else}}agent to client{{end}}
{{plain .Text}}</pre>{{end}}{{end}}{{range .Findings}}<details class="row" id="{{.ID}}"><summary><b>{{.ID}}</b> {{plain .Agent}}: {{.Rule}} <span class="{{.Level}}">{{.Level}}</span> {{plain .Actual}}</summary>
{{$r := rule .Rule}}{{with $r.Text}}<p><b>The rule:</b> {{.}}.</p>{{end}}
<p><b>Expected:</b> {{plain .Expected}}<br><b>Came:</b> {{plain .Actual}}</p>
{{if .Known}}<p>The baseline accepts this: {{plain .Reason}}</p>{{end}}{{if .Unasked}}<p>The requirements of this run do not include it.</p>{{end}}
{{with .Context}}<details><summary>The messages that led to it</summary>{{template "frames" .}}</details>{{end}}{{template "frames" .Frames}}
{{with $r.Harm}}<p><b>What breaks:</b> {{.}}</p>{{end}}<p><b>To do:</b> {{plain .Fix}}</p>
{{$rule := rule .Rule}}{{with (example .Rule).Good}}<p>{{kept $rule}}</p><pre>{{plain .}}</pre>{{end}}
<p>Seen in {{range .Tests}}<code>{{.}}</code> {{end}}</p>{{range .Docs}}<p>{{plain .}}</p>{{end}}</details>
{{else}}<p>None.</p>{{end}}
<script>
document.getElementById("filter").addEventListener("input",function(){var w=this.value.toLowerCase();document.querySelectorAll(".row").forEach(function(r){r.hidden=w!==""&&r.textContent.toLowerCase().indexOf(w)<0})})
</script></body></html>
`))

// HTML writes the report as one page that needs nothing else: summary, matrix, and each
// finding with its frames and explanation.
// Text of agents passes two defences: the template escapes it, and the writer
// removes characters that hide or reorder text.
func (r *Report) HTML(w io.Writer) error {
	return page.Execute(plaintext.NewWriter(w), struct {
		Report   *Report
		Findings []IndexedFinding
	}{r, r.Index()})
}

// Badge writes a picture of the verdict as SVG.
// Tests that do not apply do not count. The picture is red if the run failed, which
// may be for a finding of the ledger although all tests passed.
func (r *Report) Badge(w io.Writer) error {
	passed := 0
	all := 0
	color := "#2b7a2b"
	for _, a := range r.Agents {
		for _, t := range a.Tests {
			if t.Status == NA {
				continue
			}
			if all++; !t.Failed() {
				passed++
			}
		}
	}
	if r.Failed() {
		color = "#a51212"
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="150" height="20" role="img" aria-label="ACP: %[1]d of %[2]d">
<rect width="40" height="20" fill="#444"/><rect x="40" width="110" height="20" fill="%[3]s"/>
<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle"><text x="20" y="14">ACP</text><text x="95" y="14">%[1]d of %[2]d passed</text></g></svg>
`, passed, all, color)
	return err
}
