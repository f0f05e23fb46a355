package report_test

import (
	"fmt"

	"github.com/parley-agents/parley/protocol/report"
)

func ExampleParse() {
	r, err := report.Parse("All done.\n\n**Status:** ok\nTESTS: 12 passed\n", nil)
	if err != nil {
		fmt.Println("no report:", err)
		return
	}
	fmt.Println(r.Status, r.Tests, r.OK())
	for _, d := range r.Diagnostics {
		fmt.Println(d.Line, d.Code)
	}
	// Output:
	// ok pass:12 true
	// 1 prose_before
	// 3 decorated
	// 4 normalised_value
}

func ExampleReport_Text() {
	text, err := report.Report{
		Status:       report.StatusPartial,
		FilesCreated: []string{"limit.go", "notes, old.md"},
		Tests:        "fail:2",
		Error:        "two tests still fail",
	}.Text()
	fmt.Print(text, err)
	// Output:
	// STATUS:partial
	// FILES_CREATED:limit.go,"notes, old.md"
	// TESTS:fail:2
	// ERROR:two tests still fail
	// <nil>
}

func ExampleParseLine() {
	fmt.Println(report.ParseLine("Status:  OK"))
	// Output: STATUS ok true
}
