package report

import (
	"path"
	"slices"
	"strings"
)

// LintOptions changes the checks of a lint function. The zero value works.
// Parse.Mode decides how the text is read; the other checks are the same in both
// modes.
type LintOptions struct {
	Parse Options

	// Scope holds the prefixes of the paths that the agent may touch, as in
	// Dispatch.Scope. If it is empty, any path below the working folder is allowed.
	Scope []string
}

// Lint reads a report as ParseAny does and returns all findings: those of the parser,
// those of Check, and whether the text differs from the canonical form. opts may be
// nil.
// Whether the text is canonical is said only of a text without other findings of
// the parser, since each of those says so already. A text that is not a report is
// not an error of Lint: the findings say so.
func Lint(text string, opts *LintOptions) ([]Diagnostic, error) {
	if opts == nil {
		opts = new(LintOptions)
	}
	o, err := opts.Parse.withDefaults()
	if err != nil {
		return nil, err
	}
	r, err := ParseAny(text, &o)
	if err != nil {
		return r.Diagnostics, nil
	}
	said := func(d Diagnostic) bool { // by the parser, with its line
		return d.Code == CodeUnknown && slices.ContainsFunc(r.Diagnostics, func(p Diagnostic) bool { return p.Code == d.Code })
	}
	all := slices.Concat(r.Diagnostics, slices.DeleteFunc(r.Report.Check(opts.Scope), said))
	if canonical, err := r.Text(); err == nil && len(r.Diagnostics) == 0 && canonical != text {
		all = append(all, Diagnostic{Code: CodeNotCanonical, Message: "the report can be read, but it is not in canonical form"})
	}
	return all, nil
}

// Check returns the contradictions in a report, and the paths that an agent should not
// touch. It reads no file.
// Of several contradictions about the status only the first is reported.
func (r Report) Check(scope []string) []Diagnostic {
	var d diagnostics
	failed := r.Tests.State() == Fail || r.Build == Fail
	switch {
	case r.Status != "" && !r.Status.Known():
		d.add(CodeUnknown, 0, messages[CodeUnknown], "STATUS", brief(string(r.Status)))
	case r.OK() && failed:
		d.add(CodeContradiction, 0, "STATUS is %s, but TESTS or BUILD is fail", r.Status)
	case r.Status == StatusNoChanges && len(r.FilesCreated)+len(r.FilesModified) > 0:
		d.add(CodeContradiction, 0, "STATUS is no_changes, but files are listed")
	case r.OK() && r.Error != "":
		d.add(CodeUnexpectedError, 0, "STATUS is %s, but ERROR is set", r.Status)
	case !r.OK() && r.Error == "" && r.Learned == "":
		d.add(CodeMissingReason, 0, "STATUS is %s, but neither ERROR nor LEARNED says why", r.Status)
	}
	seen := map[string]bool{}
	for _, p := range slices.Concat(r.FilesCreated, r.FilesModified) {
		if seen[p] {
			d.add(CodeListedTwice, 0, "%s is listed twice", brief(p))
			continue
		}
		seen[p] = true
		checkPath(&d, p, scope)
	}
	return d.all
}

// checkPath adds the finding about a path. Both kinds of slash count as separators on
// every system.
// A report may come from another machine, so paths are judged by their form
// alone: a drive letter is absolute on Unix as well.
func checkPath(d *diagnostics, p string, scope []string) {
	slashed := strings.ReplaceAll(p, `\`, "/")
	switch {
	case strings.HasPrefix(slashed, "/"), strings.HasPrefix(slashed, "~"), len(p) > 1 && letter(p[0]) && p[1] == ':':
		d.add(CodeAbsolutePath, 0, "%s is not below the working folder", brief(p))
	case slices.Contains(strings.Split(slashed, "/"), ".."):
		d.add(CodeParentPath, 0, `%s contains ".."`, brief(p))
	case len(scope) > 0 && !slices.ContainsFunc(scope, func(s string) bool { return covers(s, slashed) }):
		d.add(CodeOutsideScope, 0, "%s is outside the scope", brief(p))
	}
}

// covers reports whether a path lies below a prefix of the scope.
// A prefix covers whole names only: src covers src/a.go and not srcs/a.go. Stars at
// its end are ignored, as in src/**.
func covers(scope, p string) bool {
	scope = strings.TrimRight(strings.ReplaceAll(scope, `\`, "/"), "/*")
	scope, p = path.Clean(scope), path.Clean(p)
	return scope == "." || p == scope || strings.HasPrefix(p, scope+"/")
}

// LintDispatch reads a dispatch, text or JSON, and returns all findings. opts may be
// nil.
func LintDispatch(text string, opts *LintOptions) ([]Diagnostic, error) {
	if opts == nil {
		opts = new(LintOptions)
	}
	o, err := opts.Parse.withDefaults()
	if err != nil {
		return nil, err
	}
	r, err := ParseAnyDispatch(text, &o)
	if err != nil {
		return r.Diagnostics, nil
	}
	return slices.Concat(r.Diagnostics, r.Dispatch.Check()), nil
}

// Check returns the important fields that a dispatch lacks, and bad paths in its scope.
func (d Dispatch) Check() []Diagnostic {
	var out diagnostics
	for _, need := range []struct {
		name    string
		missing bool
		why     string
	}{
		{"ACCEPTANCE", len(d.Acceptance) == 0, "the agent cannot tell when the work is done"},
		{"SCOPE", len(d.Scope) == 0, "the agent may touch any file"},
		{"VERIFY", len(d.Verify) == 0, "no command shows that the work is done"},
		{"DONE", d.Done == "", "the agent does not know how to report"},
	} {
		if need.missing {
			out.add(CodeMissingField, 0, "%s is missing: %s", need.name, need.why)
		}
	}
	for _, p := range d.Scope {
		checkPath(&out, p, nil)
	}
	return out.all
}
