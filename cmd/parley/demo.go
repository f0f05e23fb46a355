package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch two agents talk and hand a task over, on a temporary hub",
		Long: `Watch two agents talk and hand a task over. The story runs on a hub of its own in
a temporary folder, with a git repository of its own, and leaves nothing behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "parley-demo-")
			if err != nil {
				return err
			}
			if keep {
				fmt.Fprintf(a.err, "the hub's home is %s\n", filepath.Join(dir, "home"))
			} else {
				defer os.RemoveAll(dir)
			}
			s := &taskDemo{demoLines: &demoLines{app: a, colours: map[string]string{"planner": "36", "builder": "35"}}, dir: dir}
			if err := s.run(cmd.Context()); err != nil {
				return err
			}
			return a.print(map[string]any{"scenes": s.scenes}, func(io.Writer) {})
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the hub's folder behind")
	cmd.AddCommand(a.demoCoordinationCommand())
	return cmd
}

// demoLines prints the lines of a demo.
type demoLines struct {
	*app
	colours map[string]string // by actor
	scenes  []string          // printed lines, for --json
}

// tell prints one line.
func (s *demoLines) tell(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.scenes = append(s.scenes, strings.TrimSpace(line))
	if s.json {
		return
	}
	if who, rest, ok := strings.Cut(line, "  "); ok && who != "" {
		line = s.paint(s.out, s.colours[who], fmt.Sprintf("%-8s", who)) + " " + strings.TrimSpace(rest)
	}
	fmt.Fprintln(s.out, line)
}

// A taskDemo hands a task from one agent to another.
type taskDemo struct {
	*demoLines
	dir      string
	repo     string
	operator *rpc.Client
	planner  *rpc.Client
	builder  *rpc.Client
}

// run starts a hub and runs the demo on it.
func (s *taskDemo) run(ctx context.Context) (err error) {
	s.repo = filepath.Join(s.dir, "app")
	home := filepath.Join(s.dir, "home")
	hubServer, err := server.New(ctx, server.Options{Home: home, Addr: "127.0.0.1:0", Version: version(), Roots: []string{s.dir}})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var served error
	wg.Go(func() { served = hubServer.Serve(serving) })
	defer func() {
		stop()
		wg.Wait()
		err = errors.Join(err, served)
	}()
	key, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	if err != nil {
		return err
	}
	s.operator = rpc.NewClient(hubServer.URL(), strings.TrimSpace(string(key)), "demo", nil)
	for _, scene := range []func(context.Context) error{s.join, s.talk, s.handOver, s.cheat, s.work, s.check} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *taskDemo) join(ctx context.Context) error {
	s.tell("A hub starts on this machine. Two agents get a key each.")
	for name, into := range map[hub.AgentID]**rpc.Client{"planner": &s.planner, "builder": &s.builder} {
		role := hub.RoleExecutor
		if name == "planner" {
			role = hub.RoleCoordinator
		}
		got, err := rpc.Call(ctx, s.operator, api.AddAgent, api.AgentParams{ID: name, Role: role})
		if err != nil {
			return err
		}
		*into = s.operator.As(got.Key, string(name)+"-session")
	}
	return nil
}

func (s *taskDemo) talk(ctx context.Context) error {
	const question, answer = "Can avatar be null in the new schema?", "Yes. Old users have none."
	asked, err := rpc.Call(ctx, s.planner, api.Send, api.SendParams{To: api.Recipients{"builder"}, Type: hub.TypeKnowledgeQuery, Text: question})
	if err != nil {
		return err
	}
	s.tell("planner  asks builder: %s", question)
	mail, err := rpc.Call(ctx, s.builder, api.Inbox, api.InboxParams{})
	if err != nil {
		return err
	}
	if len(mail.Messages) != 1 || mail.Messages[0].ID != asked.ID {
		return fmt.Errorf("the question did not arrive: %v", mail.Messages)
	}
	if _, err := rpc.Call(ctx, s.builder, api.Respond, api.SendParams{ReplyTo: asked.ID, Text: answer}); err != nil {
		return err
	}
	s.tell("builder  answers: %s", answer)
	_, err = rpc.Call(ctx, s.planner, api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
	return err
}

// handOver gives the task to builder, with a file and a repository as proof.
func (s *taskDemo) handOver(ctx context.Context) error {
	if err := os.Mkdir(s.repo, 0o700); err != nil {
		return err
	}
	if err := s.git(ctx, "init", "-q", "-b", "main"); err != nil {
		return err
	}
	if err := s.write("schema.sql", "CREATE TABLE users (id INTEGER, avatar TEXT NOT NULL);\n"); err != nil {
		return err
	}
	if err := s.commit(ctx, "schema"); err != nil {
		return err
	}
	refs, err := localArtifacts(ctx, []string{filepath.Join(s.repo, "schema.sql")})
	if err != nil {
		return err
	}
	_, err = rpc.Call(ctx, s.planner, api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "T-1", Title: "Make avatar nullable", Summary: "The schema is frozen but for this.",
		NextStep: "drop NOT NULL from users.avatar", Criteria: []string{"old users load"}, Artifacts: refs, Worktree: s.repo, Branch: "main",
	})

	if err != nil {
		return err
	}
	s.tell("planner  hands over T-1, \"Make avatar nullable\": a summary, the next step, a criterion, a file with its hash, a repository")
	got, err := s.accept(ctx)
	if err != nil {
		return err
	}
	s.tell("builder  accepts. Before it is builder's, the hub looks for itself:")
	for _, c := range got {
		s.tell("           %-8s  %s", c.Result, c.What)
	}
	return nil
}

// accept takes the task over and returns the hub's checks.
func (s *taskDemo) accept(ctx context.Context) ([]hub.Check, error) {
	id, err := s.task(ctx, hub.HandoffProposed)
	if err != nil {
		return nil, err
	}
	got, err := rpc.Call(ctx, s.builder, api.Handoff, api.HandoffParams{Action: "accept", ID: id})
	if err != nil {
		return nil, err
	}
	if got.Report.Status != hub.HandoffActivated {
		return nil, fmt.Errorf("the handoff is %s: %s", got.Report.Status, got.Report.Notes)
	}
	checks := got.Report.Checks
	for i := range checks { // the folder is another one each time
		checks[i].What = strings.ReplaceAll(checks[i].What, s.dir+string(filepath.Separator), "")
	}
	return checks, nil
}

// task returns builder's handoff in a state.
func (s *taskDemo) task(ctx context.Context, state hub.HandoffState) (hub.HandoffID, error) {
	got, err := rpc.Call(ctx, s.builder, api.Handoff, api.HandoffParams{Action: "list", Mine: true, State: state})
	if err != nil {
		return "", err
	}
	if len(got.Listing.Handoffs) != 1 {
		return "", fmt.Errorf("builder has %d handoffs that are %s, not one", len(got.Listing.Handoffs), state)
	}
	return got.Listing.Handoffs[0].ID, nil
}

// cheat says that the task is done before anything was done.
func (s *taskDemo) cheat(ctx context.Context) error {
	id, err := s.task(ctx, hub.HandoffActivated)
	if err != nil {
		return err
	}
	s.tell("builder  says: DONE. It has edited nothing.")
	_, err = rpc.Call(ctx, s.builder, api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "DONE"})
	if hub.CodeOf(err) != hub.CodeUnproven {
		return fmt.Errorf("done without work was not refused: %v", err)
	}
	s.tell("           refused   %s: nothing has changed since the task was accepted", hub.CodeUnproven)
	return nil
}

func (s *taskDemo) work(ctx context.Context) error {
	if err := s.write("schema.sql", "CREATE TABLE users (id INTEGER, avatar TEXT);\n"); err != nil {
		return err
	}
	if err := s.commit(ctx, "avatar may be null"); err != nil {
		return err
	}
	id, err := s.task(ctx, hub.HandoffActivated)
	if err != nil {
		return err
	}
	refs, err := localArtifacts(ctx, []string{filepath.Join(s.repo, "schema.sql")})
	if err != nil {
		return err
	}
	got, err := rpc.Call(ctx, s.builder, api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "avatar may be null", Artifacts: refs})
	if err != nil {
		return err
	}
	s.tell("builder  edits schema.sql, commits, and says done again. It is %s, with proof.", got.Report.Ending)
	return nil
}

func (s *taskDemo) write(name, content string) error {
	return os.WriteFile(filepath.Join(s.repo, name), []byte(content), 0o600)
}

func (s *taskDemo) commit(ctx context.Context, message string) error {
	if err := s.git(ctx, "add", "-A"); err != nil {
		return err
	}
	return s.git(ctx, "-c", "user.name=demo", "-c", "user.email=demo@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", message)
}

// git runs git in the demo's repository, untouched by the user's own settings.
func (s *taskDemo) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.repo
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return hub.Errorf(hub.CodeDegraded, "parley", "git %s: %v: %s", args[0], err, out).WithHint("the demo needs git on the path")
	}
	return nil
}

// check asks the hub whether its records hold.
func (s *taskDemo) check(ctx context.Context) error {
	got, err := rpc.Call(ctx, s.operator, api.Verify, api.None{})
	if err != nil {
		return err
	}
	if !got.Clean() {
		return fmt.Errorf("the records do not hold: %v", got.Findings)
	}
	s.tell("Everything is in a journal that cannot be changed unseen: %d entries, %d messages, %d handoff, all checked.", got.Entries, got.Messages, got.Handoffs)
	return nil
}
