package evidence

import (
	"path"
	"slices"
	"strings"
)

// testFolders hold tests and their data.
var testFolders = []string{"test", "tests", "__tests__", "__snapshots__", "testdata", "e2e"}

// testNames are patterns of the names of tests and of the settings of test runners, as in
// path.Match.
var testNames = []string{
	"*_test.*", "*_tests.*", "test_*.*", "*.test.*", "*.tests.*", "*.spec.*", "*_spec.rb", "*.bats",
	"*Test.java", "*Tests.java", "*Test.kt", "*Tests.kt", "*Test.scala", "*Spec.scala", "*Test.cs", "*Tests.cs", "*Test.php", "*Tests.swift", "*Test.swift",
	"conftest.py", "pytest.ini", "tox.ini", "spec_helper.rb", "rails_helper.rb", ".rspec", "phpunit.xml", "phpunit.xml.dist", ".mocharc*",
	"jest.config.*", "vitest.config.*", "playwright.config.*", "cypress.config.*", "karma.conf.*",
}

// isTest reports whether a file is a test, the data of one, or the settings of a test
// runner, as far as its name tells.
func isTest(name string) bool {
	for folder := range strings.SplitSeq(path.Dir(name), "/") {
		if slices.Contains(testFolders, folder) {
			return true
		}
	}
	return slices.ContainsFunc(testNames, func(pattern string) bool {
		ok, _ := path.Match(pattern, path.Base(name)) // the patterns are valid
		return ok
	})
}
