package comply_test

import (
	"context"
	"fmt"
	"os"

	"github.com/parley-agents/parley/protocol/comply"
)

// Run the built-in tests on an agent and print its findings.
func ExampleRun() {
	tests, err := comply.Suite()
	if err != nil {
		panic(err)
	}
	agents := []comply.Agent{{Name: "mine", Command: "my-agent", Args: []string{"--acp"}}}
	report, err := comply.Run(context.Background(), agents, tests, &comply.Options{Jobs: 4})
	if err != nil {
		panic(err)
	}
	for _, result := range report.Agents[0].Tests {
		for _, f := range result.Findings {
			fmt.Printf("%s: %s: expected %s, but %s\n", result.ID, f.Rule, f.Expected, f.Actual)
		}
	}
	if err := report.Markdown(os.Stdout, nil); err != nil {
		panic(err)
	}
}

// An error in a test file has its line.
func ExampleParse() {
	_, err := comply.Parse("mine.jsont", []byte(`{
  "title": "Mine",
  "severity": "required",
  "steps": [{ "delayMs": "long" }]
}`))
	fmt.Println(err)
	// Output: mine.jsont:4: "delayMs" must be a number, not a string
}
