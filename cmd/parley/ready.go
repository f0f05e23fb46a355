package main

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A readyOperation is the operation of can-merge or can-deploy.
type readyOperation = rpc.Operation[*coordination.Services, coordination.ReadyParams, contract.Readiness]

// evidenceFlags adds the flags that name the commit and the test behind a report of work.
func (a *app) evidenceFlags(cmd *cobra.Command, into *contract.Evidence, result *string) preparation {
	f := cmd.Flags()
	f.StringVar(&into.Commit, "commit", "", "commit that was tested: an id, or a name such as HEAD in a repository")
	f.StringVar(&into.Branch, "branch", "", "branch of the commit")
	f.StringVar(&into.Build, "build", "", "address of the build")
	f.StringVar(&into.Check, "check", "", "check of the repository that the hub ran, or the name of the test")
	f.Var((*strictjson.Count)(&into.Against), "version", "version of the contract that was tested (default the agreed one)")
	junit := f.String("junit", "", "JUnit file with the results of the test")
	return func(ctx context.Context, _ []string) error {
		into.Commit = resolveCommit(ctx, into.Commit)
		if *junit == "" {
			return nil
		}
		if into.Check == "" {
			return usagef("--junit needs --check: name the check whose result it is")
		}
		passed, err := a.readJUnit(ctx, *junit)
		if err != nil {
			return err
		}
		*result = contract.VerifySuccess
		if !passed {
			*result = contract.VerifyFailure
		}
		return nil
	}
}

// resolveCommit returns the id of a commit, if the working directory is in a repository that has it.
// Else the id is the text itself.
func resolveCommit(ctx context.Context, commit string) string {
	program, err := exec.LookPath("git")
	if commit == "" || err != nil || strings.HasPrefix(commit, "-") {
		return commit
	}
	out, err := git.In(ctx, program, ".", "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}").Output()
	if err != nil {
		return commit
	}
	return strings.TrimSpace(string(out))
}

// maxJUnit is the most bytes of a JUnit file.
const maxJUnit = 64 << 20

// readJUnit reports whether all tests of a JUnit file passed.
func (a *app) readJUnit(ctx context.Context, name string) (bool, error) {
	tooLarge := hub.Errorf(hub.CodePayloadTooLarge, "parley", "%s is larger than %d bytes", name, maxJUnit)
	text, err := a.read(ctx, strings.TrimPrefix(name, "@"), maxJUnit, tooLarge)
	if err != nil {
		return false, err
	}
	cases, failed := 0, 0
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, hub.Errorf(hub.CodeInvalid, "parley", "%s is no JUnit file: %v", name, err)
		}
		start, ok := token.(xml.StartElement)
		switch {
		case !ok:
		case start.Name.Local == "testcase":
			cases++
		case start.Name.Local == "failure" || start.Name.Local == "error":
			failed++
		}
	}
	if cases == 0 {
		return false, hub.Errorf(hub.CodeInvalid, "parley", "%s has no test", name)
	}
	return failed == 0, nil
}

func (a *app) deployedCommand() *cobra.Command {
	var p contract.Release
	cmd := &cobra.Command{
		Use: "deployed REPO --env ENV --commit COMMIT", Short: "Record that a commit runs in an environment",
		Long: `Record that a commit of a repository runs in an environment. parley contract can-deploy compares
with it. The operator may, and a project token with the permission deploy; the environment
must be declared with parley contract env add.`,
		Example: `  parley contract deployed backend-api --env prod --commit HEAD`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Env, "env", "", "environment, such as prod")
	cmd.Flags().StringVar(&p.Commit, "commit", "", "commit: an id, or a name such as HEAD in a repository")
	return operation(a, cmd, coordination.Deployed, &p, func(w io.Writer, got coordination.Deployment) {
		source := ""
		if !got.Deployment.Verified {
			source = " (as CI says: this hub does not have the commit)"
		}
		fmt.Fprintf(w, "%s runs commit %s in %s%s\n", got.Deployment.Repository, shortCommit(got.Deployment.Commit), got.Deployment.Env, source)
	}, argument(0, &p.Repo), func(ctx context.Context, _ []string) error {
		if p.Env == "" || p.Commit == "" {
			return usagef("--env and --commit are required")
		}
		p.Commit = resolveCommit(ctx, p.Commit)
		return nil
	}, a.inProject(cmd, &p.InProject))
}

func (a *app) canMergeCommand() *cobra.Command {
	var p coordination.ReadyParams
	cmd := &cobra.Command{
		Use: "can-merge --repo REPO --commit COMMIT", Short: "Answer whether a commit may be merged (for CI)",
		Long: `Answer whether a commit of a repository may be merged: yes if for each contract of the
repository its test was run on that commit, or on one with the same tree, against the
version in force, and passed. The test is the check that parley contract test names, else
all required checks of the repository together. A breaking change of a provider also waits
for its consumers, at the head of the branch that their work lands in. With --wait, missing
tests are run where the hub has the repository. The exit code is 0 for yes, 1 for no and 2
for a repository that the project does not have.`,
		Example: `  parley contract can-merge --repo backend-api --commit HEAD
  parley contract can-merge --repo backend-api --commit HEAD --wait 10m`,
		Args: cobra.NoArgs,
	}
	return a.readyCommand(cmd, coordination.CanMerge, &p)
}

func (a *app) canDeployCommand() *cobra.Command {
	var p coordination.ReadyParams
	cmd := &cobra.Command{
		Use: "can-deploy --repo REPO --commit COMMIT --env ENV", Short: "Answer whether a commit may be deployed (for CI)",
		Long: `Answer whether a commit of a repository may be deployed to an environment: whether the
versions that it was tested against fit the commits that run there, as parley contract deployed
recorded them. While the other side of a contract does not run there, the answer is no
unless --first is given (operator, or a token with the permission deploy or evidence). The
exit code is 0 for yes, 1 for no and 2 for an environment that is not declared.`,
		Example: `  parley contract can-deploy --repo frontend-app --commit HEAD --env prod`,
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Env, "env", "", "environment, such as prod")
	cmd.Flags().BoolVar(&p.First, "first", false, "the other side of a contract need not run there yet")
	return a.readyCommand(cmd, coordination.CanDeploy, &p)
}

// readyCommand completes can-merge and can-deploy.
func (a *app) readyCommand(cmd *cobra.Command, ask readyOperation, p *coordination.ReadyParams) *cobra.Command {
	cmd.Flags().StringVar(&p.Repo, "repo", "", "repository of the commit")
	cmd.Flags().StringVar(&p.Commit, "commit", "", "commit: an id, or a name such as HEAD in a repository")
	cmd.Flags().BoolVar(&p.AllowNone, "allow-none", false, "answer yes for a repository without contracts")
	wait := cmd.Flags().Duration("wait", 0, "run missing tests where the hub can, and wait this long for a yes")
	var junit string
	junitFlag(cmd, &junit)
	return prepared(cmd, func(ctx context.Context) error {
		got, err := a.askReady(ctx, ask, *p, *wait)
		if err == nil {
			err = writeJUnit(junit, cmd.Name(), readyCases(got, p.Repo))
		}
		if err != nil {
			return err
		}
		return a.check(got.OK(), got, func(w io.Writer) { a.writeReadiness(w, got) })
	}, func(ctx context.Context, _ []string) error {
		if p.Repo == "" || p.Commit == "" {
			return usagef("--repo and --commit are required")
		}
		p.Commit = resolveCommit(ctx, p.Commit)
		return nil
	}, a.inProject(cmd, &p.InProject))
}

// askReady asks until the answer is yes or the time is over. The hub holds each request while
// nothing changes.
func (a *app) askReady(ctx context.Context, ask readyOperation, p coordination.ReadyParams, wait time.Duration) (contract.Readiness, error) {
	for end := time.Now().Add(wait); ; {
		left := max(time.Until(end), 0)
		p.WaitS = strictjson.Count((min(left, watchWait*time.Second) + time.Second - 1) / time.Second) // rounded up
		got, err := call(ctx, a, ask, p)
		if err != nil || got.OK() || p.WaitS == 0 {
			return got, err
		}
	}
}

// writeReadiness prints the answer and each reason.
func (a *app) writeReadiness(w io.Writer, got contract.Readiness) {
	colour := "31"
	if got.OK() {
		colour = "32"
	}
	fmt.Fprintf(w, "%s (%s checked)\n", a.paint(w, colour, got.Answer), counted(got.Checked, "contract"))
	for _, x := range got.Asked {
		fmt.Fprintf(w, "%s: %s passed on %s (%s)\n", x.What, x.Evidence, x.Of, x.By)
	}
	for _, x := range got.NotAsked {
		fmt.Fprintf(w, "not asked: %s\n", x)
	}
	for _, x := range got.Opened {
		fmt.Fprintf(w, "opened: %s\n", x)
	}
	for _, m := range got.Missing {
		fmt.Fprintf(w, "%s\n  %s: %s\n", m.What, m.Who, m.Next)
	}
	for _, r := range got.Notes {
		fmt.Fprintf(w, "note: %s: %s\n", r.Contract, r.Reason)
	}
}

func (a *app) contractMatrixCommand() *cobra.Command {
	var p contract.MatrixQuery
	var page bool
	cmd := &cobra.Command{
		Use: "matrix", Short: "Show which version of each contract each repository was tested against",
		Long: `Show repositories and contracts: the version that each repository was tested against, at
which commit, whether the result was run or said, and the verdict on the change to the
newest version. With --env it shows the commits that run in an environment.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Env, "env", "", "environment, such as prod (default the newest results)")
	cmd.Flags().StringVar((*string)(&p.After), "after", "", "next of the page before")
	cmd.Flags().Var((*strictjson.Count)(&p.Limit), "limit", "contracts on a page (default 100)")
	cmd.Flags().BoolVar(&page, "html", false, "print an HTML page")
	return prepared(cmd, func(ctx context.Context) error {
		got, err := call(ctx, a, coordination.Matrix, p)
		if err != nil {
			return err
		}
		if page {
			return matrixPage.Execute(a.out, got)
		}
		return a.print(got, func(w io.Writer) { a.writeMatrix(w, got) })
	}, a.inProject(cmd, &p.InProject))
}

// writeMatrix prints the matrix as a table.
func (a *app) writeMatrix(w io.Writer, got contract.Matrix) {
	writeList(w, "results", "CONTRACT, REPOSITORY, ROLE, VERSION, STATE, COMMIT, RESULT, VERDICT, AT", got.Rows, func(r contract.MatrixRow) []any {
		const none = "-"
		version := none
		result, at := none, none
		if r.Version > 0 {
			version = fmt.Sprintf("%d of %d", r.Version, r.Newest)
			result = r.Result + " (" + string(r.Kind) + ")"
			at = whenInstant(r.At)
		}
		return []any{r.Contract, r.Repository, r.Role, version, stateOf(r), cmp.Or(shortCommit(r.Commit), "-"), result, r.Verdict, at}
	})
	if got.Next != "" {
		fmt.Fprintf(w, "more: --after %s\n", got.Next)
	}
}

// stateOf returns the state of the contract of a row, and what ends of the parts that its repository uses.
func stateOf(r contract.MatrixRow) string {
	return strings.Join(append([]string{r.State}, r.Ending...), "; ")
}

// matrixPage is the HTML of the matrix.
var matrixPage = template.Must(template.New("matrix").Funcs(template.FuncMap{"when": func(i coord.Instant) string {
	if i.IsZero() {
		return ""
	}
	return whenInstant(i)
}}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Contracts</title>
<style>body{font:15px sans-serif}table{border-collapse:collapse}td,th{padding:.3em .6em;border:1px solid #999;text-align:left}.breaking{background:#f8d0d0}.unknown{background:#f5e8c0}.compatible{background:#d5efd5}</style>
</head><body><h1>Contracts{{with .Env}} in {{.}}{{end}}</h1>
<table><thead><tr><th>Contract<th>Repository<th>Role<th>Version<th>State<th>Commit<th>Result<th>Verdict<th>At</tr></thead><tbody>
{{range .Rows}}<tr><td>{{.Contract}}<td>{{.Repository}}<td>{{.Role}}<td>{{if .Version}}{{.Version}} of {{.Newest}}{{end}}<td>{{.State}}{{range .Ending}}; {{.}}{{end}}<td>{{.Commit}}<td>{{.Result}}{{with .Kind}} ({{.}}){{end}}<td class="{{.Verdict}}">{{.Verdict}}<td>{{when .At}}</tr>
{{end}}</tbody></table>
{{with .Next}}<p>More: --after {{.}}</p>{{end}}
</body></html>
`))
