package upgrade

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// SameVersion reports whether two versions are equal, with or without the v before them.
func SameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

// versionForm matches a version: numbers, and perhaps the word of a version before the release.
var versionForm = pattern.New(`^v?([0-9]+)\.([0-9]+)\.([0-9]+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?$`)

// describedForm matches the suffix of git describe: commits after a tag, the commit, and whether
// files were changed.
var describedForm = pattern.New(`-([0-9]+)-g[0-9a-f]+(-dirty)?$|-dirty$`)

// Older reports whether version a is older than version b. It reports false if one of them is not a
// version, such as that of a development build.
func Older(a, b string) bool {
	order, ok := compare(a, b)
	return ok && order < 0
}

// compare orders two versions by the rules of semantic versioning, but for the suffix of git
// describe: a build after a tag is newer than the tag.
func compare(a, b string) (order int, ok bool) {
	first := describedForm().ReplaceAllString(a, "")
	second := describedForm().ReplaceAllString(b, "")
	x := versionForm().FindStringSubmatch(first)
	y := versionForm().FindStringSubmatch(second)
	if x == nil || y == nil {
		return 0, false
	}
	for i := 1; i <= 3; i++ {
		if order := compareNumbers(x[i], y[i]); order != 0 {
			return order, true
		}
	}
	if order := comparePre(x[4], y[4]); order != 0 {
		return order, true
	}

	// Both have the same tag.
	return cmp.Compare(commitsAfter(a), commitsAfter(b)), true
}

// commitsAfter returns the commits after its tag that a version of git describe counts. Changed files
// count as less than one.
func commitsAfter(version string) float64 {
	m := describedForm().FindStringSubmatch(version)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64) // 0 for a tag with changed files
	if strings.HasSuffix(version, "-dirty") {
		n += 0.5
	}
	return n
}

// compareNumbers orders two numbers of any length.
func compareNumbers(a, b string) int {
	a = strings.TrimLeft(a, "0")
	b = strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// comparePre orders the words of two versions before a release. A release has none, and is newer.
func comparePre(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(len(b), len(a))
	}
	x := strings.Split(a, ".")
	y := strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		if order := comparePart(x[i], y[i]); order != 0 {
			return order
		}
	}
	return cmp.Compare(len(x), len(y))
}

// comparePart orders two parts of such words: numbers by value and before letters, letters by ASCII.
func comparePart(a, b string) int {
	isNumber := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	switch {
	case isNumber(a) && isNumber(b):
		return compareNumbers(a, b)
	case isNumber(a):
		return -1
	case isNumber(b):
		return 1
	}
	return cmp.Compare(a, b)
}
