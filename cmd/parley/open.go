package main

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/signin"
)

// openFile is the file in a home that a browser is started with. It posts the code of a
// link: an address with the code would lie in the browser's history and in the list of
// processes.
const openFile = "open.html"

func (a *app) openCommand() *cobra.Command {
	var noBrowser bool
	cmd := &cobra.Command{
		Use: "open", Short: "Open the hub's page in a browser (operator)",
		Long: `Open the hub's page in a browser, signed in as the operator. The page shows the agents,
the items that wait for you, conversations, tasks with their proof, runs, contracts and
the journal. If no hub is running, one is started.

The page has its own host name, which ends in .localhost. The code in the link works
once, within a minute.`,
		Example: `  parley open
  parley open --no-browser    # prints the address and the code to enter there`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			home, err := a.homeDir()
			if err != nil {
				return err
			}

			// A program must say with a flag that it acts as the operator.
			if !a.asOperator && a.keyFile == "" && !isTerminal(a.in) {
				return hub.Errorf(hub.CodeUnauthenticated, "parley", "only the operator can open the page, and this is not a terminal").
					WithHint("run it on a terminal, or pass --as-operator")
			}

			c, err := a.loadConfig(home)
			if err != nil {
				return err
			}
			link, err := a.hubForRun(ctx, home, c)
			if err != nil {
				return err
			}

			got, err := rpc.Call(ctx, link.Client, api.OpenWeb, api.None{})
			if err != nil {
				return err
			}
			return a.openBrowser(ctx, home, got, noBrowser)
		},
	}

	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address and the code instead of starting a browser")
	return cmd
}

// openPage posts the code by itself, or by its button without JavaScript.
var openPage = template.Must(template.New("").Parse(`<!doctype html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Parley</title>
<form method="post" action="{{.URL}}"><input type="hidden" name="code" value="{{.Code}}">
<p>Opening your hub's page. <button>Continue</button></p></form>
<p>If your browser cannot find the address, it does not resolve names ending in .localhost to this machine.
Use Chrome, Edge or Firefox, or add the line <code>127.0.0.1 {{.Host}}</code> to this machine's hosts file.</p>
<script>document.forms[0].submit()</script>
`))

// openBrowser starts a browser with a link and prints how to go on without one.
func (a *app) openBrowser(ctx context.Context, home string, link api.WebLink, noBrowser bool) error {
	host := strings.Split(strings.TrimPrefix(strings.TrimPrefix(link.URL, "https://"), "http://"), "/")[0]
	name, _, _ := strings.Cut(host, ":")
	started := false
	if !noBrowser {
		file := filepath.Join(home, openFile)
		var page strings.Builder
		if err := openPage.Execute(&page, map[string]string{"URL": link.URL, "Code": link.Code, "Host": name}); err != nil {
			return err
		}
		if err := durable.WriteFile(file, []byte(page.String()), 0o600); err != nil {
			return hub.Errorf(hub.CodeDegraded, "parley", "%w", err)
		}
		started = startBrowser(ctx, file)
	}
	return a.print(link, func(w io.Writer) {
		if started {
			fmt.Fprintln(w, "Opening a browser, signed in.")
			fmt.Fprintln(w, "If no browser opens:")
		}
		fmt.Fprintf(w, "  go to   %s\n  enter   %s\n  within  %s, once\n", link.URL, link.Code, time.Duration(link.ExpiresS)*time.Second)
		fmt.Fprintf(w, "If the browser cannot find the address, add this line to this machine's hosts file:\n  127.0.0.1 %s\n", name)
	})
}

// startBrowser reports whether a browser was started with a file.
func startBrowser(ctx context.Context, file string) bool {
	commands := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}
	command, ok := commands[runtime.GOOS]
	if !ok {
		command = []string{"xdg-open"}
	}
	if own := strings.Fields(os.Getenv("BROWSER")); len(own) > 0 {
		command = own
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], file)...)
	if cmd.Start() != nil {
		return false
	}
	// A launcher ends soon and says whether it found a browser; a browser goes on.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err == nil
	case <-time.After(launchTime):
		return true
	}
}

// launchTime is the time after which a browser counts as started.
const launchTime = 2 * time.Second

func (a *app) hubViewerCommand() *cobra.Command {
	cmd := noun("viewer", "Manage access to the hub's page", a.viewerListCommand(), a.webInviteCommand(), a.viewerEndCommand())
	cmd.Long = `Manage access to the hub's page. "parley open" signs in the operator; an invite lets
another person read.`
	return cmd
}

func (a *app) webInviteCommand() *cobra.Command {
	var p api.WebInviteParams
	cmd := &cobra.Command{
		Use: "invite NAME", Short: "Invite a person to view the page (operator)",
		Long: `Create an address and a code that let a viewer sign in once, within ten minutes. Each
invite has its own address, and the code works only there. A viewer can read what an
auditor can, without diffs, recordings and logs, and cannot change
anything. The journal records each sign-in.`,
		Example: `  parley hub viewer invite ana --for 8h`,
		Args:    cobra.ExactArgs(1),
	}
	life := secondsFlag(cmd, &p.ForS, "for", "lifetime of the session (default 12h)")
	return operation(a, cmd, api.InviteWeb, &p, func(w io.Writer, got api.WebLink) {
		fmt.Fprintf(w, "%s goes to  %s\nand enters  %s\nwithin      %s, once\n", got.Viewer, got.URL, got.Code, time.Duration(got.ExpiresS)*time.Second)
	}, argument(0, &p.Name), life)
}

func (a *app) viewerListCommand() *cobra.Command {
	return operation(a, &cobra.Command{
		Use: "list", Short: "List the browsers that are signed in (operator)",
		Example: `  parley hub viewer list`,
		Args:    cobra.NoArgs,
	}, api.WebSessions, &api.None{}, func(w io.Writer, got api.WebSessionList) {
		writeList(w, "browser is signed in", "SESSION, WHO, SINCE, UNTIL, BROWSER", got.Sessions, func(s signin.Session) []any {
			who := "operator " + s.Person
			if s.Viewer != "" {
				who = "viewer " + s.Viewer
			}
			return []any{s.ID, strings.TrimSpace(who), s.Begun, s.Until, s.Client}
		})
	})
}

func (a *app) viewerEndCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "end NAME|SESSION | --all", Short: "End browser sessions (operator)",
		Long: `End the sessions of a viewer, the session with an id, or all sessions.`,
		Example: `  parley hub viewer end ana
  parley hub viewer end web-abcdefgh
  parley hub viewer end --all`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&all, "all", false, "end all sessions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all == (len(args) == 1) {
			return usagef("give a viewer, a session, or --all").WithHint("parley hub viewer lists the sessions")
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		ended := api.WebRevoked{}
		if all {
			ended, err = rpc.Call(cmd.Context(), c, api.RevokeWeb, api.WebRevokeParams{All: true})
		} else {
			ended, err = endViewer(cmd.Context(), c, args[0])
		}
		if err != nil {
			return err
		}
		return a.print(ended, func(w io.Writer) { fmt.Fprintf(w, "ended %s\n", counted(ended.Ended, "session")) })
	}
	return cmd
}

// endViewer ends the sessions of a viewer, or the session whose id was given.
func endViewer(ctx context.Context, c *rpc.Client, name string) (ended api.WebRevoked, err error) {
	list, err := rpc.Call(ctx, c, api.WebSessions, api.None{})
	if err != nil {
		return ended, err
	}
	ids := []string{}
	for _, s := range list.Sessions {
		if s.Viewer == name {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		ids = []string{name}
	}
	for _, id := range ids {
		got, err := rpc.Call(ctx, c, api.RevokeWeb, api.WebRevokeParams{ID: id})
		if err != nil {
			return ended, err
		}
		ended.Ended += got.Ended
	}
	return ended, nil
}
