package compat

import (
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// sameExpression reports whether two regular expressions are the same, or two ways to write
// the same one, such as \d and [0-9].
func sameExpression(a, b string) bool {
	if a == b {
		return true
	}
	first := parsed(a)
	second := parsed(b)
	return first != nil && second != nil && first.Simplify().String() == second.Simplify().String()
}

// parsed returns an expression that is not too large to be written out, or nil.
func parsed(pattern string) *syntax.Regexp {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || instructions(re) > maxExpression {
		return nil
	}
	return re
}

// matchesAll reports whether a regular expression matches every text: it matches the empty one
// at any place.
func matchesAll(pattern string) bool {
	re := parsed(pattern)
	if re == nil || hasAnchor(re) {
		return false
	}
	compiled, err := regexp.Compile(pattern)
	return err == nil && compiled.MatchString("")
}

// hasAnchor reports whether an expression looks at what is beside the text that it matches.
func hasAnchor(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(re.Sub, hasAnchor)
}

// maxSample is the length of a sample of a regular expression in characters.
const maxSample = 200

// sample returns a text that a regular expression of RE2 probably matches. Anchors and word
// boundaries are not looked at, so the caller has to try it.
func sample(pattern string, r *rand.Rand) string {
	re := parsed(pattern)
	if re == nil {
		return ""
	}
	var b strings.Builder
	writeSample(&b, re, r, 0) // repetitions are not written out
	return b.String()
}

// writeSample appends a text for one node of an expression.
func writeSample(b *strings.Builder, re *syntax.Regexp, r *rand.Rand, depth int) {
	if depth > 50 || b.Len() > maxSample {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(runeOf(re.Rune, r))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteRune(rune('a' + r.IntN(26)))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			writeSample(b, sub, r, depth+1)
		}
	case syntax.OpAlternate:
		writeSample(b, re.Sub[r.IntN(len(re.Sub))], r, depth+1)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		times := r.IntN(2)
		if re.Op == syntax.OpPlus {
			times = 1 + r.IntN(3)
		} else if re.Op == syntax.OpStar {
			times = r.IntN(4)
		}
		for range times {
			writeSample(b, re.Sub[0], r, depth+1)
		}
	case syntax.OpRepeat:
		times := re.Min
		if re.Max < 0 || re.Max > re.Min {
			times += r.IntN(2)
		}
		for range min(times, maxSample) {
			writeSample(b, re.Sub[0], r, depth+1)
		}
	}
}

// runeOf returns a character of a class, one that people can read if there is one.
func runeOf(ranges []rune, r *rand.Rand) rune {
	if len(ranges) == 0 {
		return 'a'
	}
	for range 8 {
		i := r.IntN(len(ranges)/2) * 2
		low := ranges[i]
		high := min(ranges[i+1], low+200)
		c := low + rune(r.IntN(int(high-low)+1))
		if c >= ' ' && c < 0x7f {
			return c
		}
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= 'a' && ranges[i+1] >= 'a' {
			return 'a'
		}
	}
	return ranges[0]
}
