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
	return isNamedTest(name)
}

// isNamedTest reports whether the name of a file itself is that of a test.
func isNamedTest(name string) bool {
	return slices.ContainsFunc(testNames, func(pattern string) bool {
		ok, _ := path.Match(pattern, path.Base(name)) // the patterns are valid
		return ok
	})
}

// idleFolders hold files that test runners leave out, beside folders that begin with a dot or an
// underscore.
var idleFolders = []string{"testdata", "__snapshots__", "node_modules", "vendor"}

// isIdle reports whether test runners leave a file out because of its folder.
func isIdle(name string) bool {
	for folder := range strings.SplitSeq(path.Dir(name), "/") {
		isHidden := folder != "." && (strings.HasPrefix(folder, ".") || strings.HasPrefix(folder, "_"))
		if slices.Contains(idleFolders, folder) || (isHidden && !slices.Contains(testFolders, folder)) {
			return true
		}
	}
	return false
}

// endings are those of scripts of one language, among which a test may be renamed.
var endings = [][]string{{".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"}}

// idles reports whether a test that ran by its name does not run under another name.
func idles(name, to string) bool {
	from := path.Ext(name)
	isSameKind := from == path.Ext(to) || slices.ContainsFunc(endings, func(kind []string) bool {
		return slices.Contains(kind, from) && slices.Contains(kind, path.Ext(to))
	})
	ran := isNamedTest(name) && !isIdle(name)
	return ran && (!isNamedTest(to) || isIdle(to) || !isSameKind)
}
