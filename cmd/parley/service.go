package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/durable"
	"github.com/parley-agents/parley/server"
)

// A manager is the program of an operating system that starts services when a user logs
// in. Each has one service for a user, described by one file.
type manager struct {
	name      string
	path      func(userHome string) string
	quote     func(argument string) string // as it stands in the file
	render    func(arguments []string) string
	install   func(path string) [][]string
	uninstall func(path string) [][]string // the commands before the file is removed
	removed   [][]string                   // the commands after it was removed
	status    []string                     // ends with exit code 0 if the service runs
	note      string                       // for the user, after install
}

const (
	unitName  = "parley.service"
	labelName = "io.github.parley-agents.parley"
	taskName  = "Parley"
)

// managers has the manager of each operating system.
var managers = map[string]manager{
	"linux": {
		name: "systemd",
		path: func(home string) string {
			config := os.Getenv("XDG_CONFIG_HOME")
			if !filepath.IsAbs(config) {
				config = filepath.Join(home, ".config")
			}
			return filepath.Join(config, "systemd", "user", unitName)
		},
		quote: func(s string) string {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(s) + `"`
		},
		render: func(arguments []string) string {
			return "[Unit]\nDescription=Parley hub\n\n[Service]\nExecStart=" + strings.Join(arguments, " ") +
				"\nRestart=on-failure\nTimeoutStopSec=60\n\n[Install]\nWantedBy=default.target\n"
		},
		install: func(string) [][]string {
			return [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", unitName}}
		},
		uninstall: func(string) [][]string { return [][]string{{"systemctl", "--user", "disable", "--now", unitName}} },
		removed:   [][]string{{"systemctl", "--user", "daemon-reload"}},
		status:    []string{"systemctl", "--user", "is-active", unitName},
		note:      "it ends when you log out; to let it run on: loginctl enable-linger",
	},
	"darwin": {
		name:  "launchd",
		path:  func(home string) string { return filepath.Join(home, "Library", "LaunchAgents", labelName+".plist") },
		quote: func(s string) string { return "<string>" + escapeXML(s) + "</string>" },
		render: func(arguments []string) string {
			return xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>` + labelName + `</string>
<key>ProgramArguments</key><array>
` + strings.Join(arguments, "\n") + `
</array>
<key>RunAtLoad</key><true/>
<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
<key>ExitTimeOut</key><integer>60</integer>
</dict></plist>
`
		},
		install:   func(path string) [][]string { return [][]string{{"launchctl", "bootstrap", domain(), path}} },
		uninstall: func(string) [][]string { return [][]string{{"launchctl", "bootout", domain() + "/" + labelName}} },
		status:    []string{"launchctl", "print", domain() + "/" + labelName},
	},
	"windows": {
		name: "the task scheduler",
		path: func(home string) string {
			return filepath.Join(home, "AppData", "Local", "Parley", "parley-task.xml")
		},
		quote: func(s string) string { return "&#34;" + escapeXML(s) + "&#34;" },
		render: func(arguments []string) string {
			program := strings.TrimSuffix(strings.TrimPrefix(arguments[0], "&#34;"), "&#34;")
			return xml.Header + `<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
<Triggers><LogonTrigger><Enabled>true</Enabled></LogonTrigger></Triggers>
<Principals><Principal id="Author"><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel></Principal></Principals>
<Settings><MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy><DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
<StopIfGoingOnBatteries>false</StopIfGoingOnBatteries><ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
<RestartOnFailure><Interval>PT1M</Interval><Count>3</Count></RestartOnFailure></Settings>
<Actions Context="Author"><Exec><Command>` + program + `</Command><Arguments>` + strings.Join(arguments[1:], " ") + `</Arguments></Exec></Actions>
</Task>
`
		},
		install: func(path string) [][]string {
			return [][]string{{"schtasks", "/Create", "/TN", taskName, "/XML", path, "/F"}, {"schtasks", "/Run", "/TN", taskName}}
		},
		uninstall: func(string) [][]string {
			return [][]string{{"schtasks", "/End", "/TN", taskName}, {"schtasks", "/Delete", "/TN", taskName, "/F"}}
		},
		status: []string{"schtasks", "/Query", "/TN", taskName},
	},
}

// domain is that of the services of the present user, for launchd.
func domain() string { return fmt.Sprintf("gui/%d", os.Getuid()) }

func escapeXML(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// A service is the hub of one home as a service of the user.
type service struct {
	*app
	manager
	home string // absolute
	file string
}

// service finds the manager of this system and the hub's home.
func (a *app) service() (*service, error) {
	m, ok := managers[runtime.GOOS]
	if !ok {
		return nil, hub.Errorf(hub.CodeNotEnabled, "parley", "parley knows no service manager of %s", runtime.GOOS).WithHint("start the hub with: parley serve")
	}
	userHome, err := os.UserHomeDir()
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "parley", "find your home folder: %v", err)
	}
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	if home, err = filepath.Abs(home); err != nil {
		return nil, err
	}
	if strings.ContainsAny(home, "\n\r") {
		return nil, hub.Errorf(hub.CodeInvalid, "parley", "the home %q has a line break in its name", home)
	}
	return &service{app: a, manager: m, home: home, file: m.path(userHome)}, nil
}

// describe returns the content of the service's file.
func (s *service) describe() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	arguments := []string{self, "serve", "--home", s.home, "--log-file", filepath.Join(s.home, logName)}
	if s.config != "" {
		config, err := filepath.Abs(s.config)
		if err != nil {
			return "", err
		}
		arguments = append(arguments, "--config", config)
	}
	for i, argument := range arguments {
		arguments[i] = s.quote(argument)
	}
	return s.render(arguments), nil
}

// installed returns the content of the service's file, or "" if there is none. It
// reports CodeConflict if the service is that of another home.
func (s *service) installed() (string, error) {
	raw, err := os.ReadFile(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !strings.Contains(string(raw), s.quote(s.home)):
		return "", hub.Errorf(hub.CodeConflict, "parley", "the service in %s runs a hub in another home than %s", s.file, s.home).
			WithHint("the file names its home: give that one with --home")
	}
	return string(raw), nil
}

// command runs a command of the manager.
func (s *service) command(ctx context.Context, words []string) (string, error) {
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, hub.Errorf(hub.CodeDegraded, "parley", "%s: %s", strings.Join(words, " "), text+" ("+err.Error()+")").
			WithHint("%s does not run services for this user here; start the hub with: parley serve", s.name)
	}
	return text, nil
}

func (s *service) commands(ctx context.Context, all [][]string) error {
	for _, words := range all {
		if _, err := s.command(ctx, words); err != nil {
			return err
		}
	}
	return nil
}

// remove stops the service and removes its file.
func (s *service) remove(ctx context.Context) error {
	if err := s.commands(ctx, s.uninstall(s.file)); err != nil {
		return err
	}
	if err := os.Remove(s.file); err != nil {
		return err
	}
	return s.commands(ctx, s.removed)
}

// A serviceReport is the answer of the service commands with --json.
type serviceReport struct {
	Manager   string `json:"manager"`
	File      string `json:"file"`
	Home      string `json:"home"`
	Installed bool   `json:"installed"`
	Running   bool   `json:"running"`
	Detail    string `json:"detail,omitempty"` // the words of the manager
}

func (s *service) report() serviceReport {
	return serviceReport{Manager: s.name, File: s.file, Home: s.home, Installed: true}
}

func (a *app) serviceCommand() *cobra.Command {
	cmd := group("service", "Let the system start the hub when you log in", a.serviceInstallCommand(), a.serviceUninstallCommand(), a.serviceStatusCommand())
	cmd.Long = `Let the system start the hub when you log in, and start it again after a failure:
systemd on Linux, launchd on macOS, the task scheduler on Windows. One service for each
user, without the rights of an administrator.`
	return cmd
}

func (a *app) serviceInstallCommand() *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use: "install", Short: "Make the hub of this home a service, and start it",
		Long: `Make the hub of this home a service, and start it. Again after an upgrade: the
service then runs the new program. The log is hub.log in the home.`,
		Example: `  parley service install --print
  parley service install --home /srv/parley`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.service()
			if err != nil {
				return err
			}
			text, err := s.describe()
			if err != nil {
				return err
			}
			if printOnly {
				fmt.Fprint(a.out, text)
				return nil
			}
			return s.add(cmd.Context(), text)
		},
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the file that would be written, and change nothing")
	return cmd
}

// add installs the service. A service of the same home that differs is replaced; a
// failure leaves no file behind.
func (s *service) add(ctx context.Context, text string) error {
	old, err := s.installed()
	if err != nil {
		return err
	}
	if old == text {
		return s.print(s.report(), func(w io.Writer) { fmt.Fprintf(w, "the service is installed already: %s\n", s.file) })
	}
	if old != "" {
		if err := s.remove(ctx); err != nil {
			return err
		}
	}
	if server.Running(s.home) {
		return hub.Errorf(hub.CodeConflict, "parley", "a hub runs in %s already", s.home).WithHint("stop it first: %s stop", s.typed(s.home))
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(s.file, []byte(text), 0o644); err != nil {
		return err
	}
	if err := s.commands(ctx, s.install(s.file)); err != nil {
		os.Remove(s.home) // if it is empty
		return errors.Join(err, os.Remove(s.file))
	}
	return s.print(s.report(), func(w io.Writer) {
		fmt.Fprintf(w, "wrote %s; %s starts the hub of %s now and when you log in\n", s.file, s.name, s.home)
		if s.note != "" {
			fmt.Fprintln(w, s.note)
		}
	})
}

// installedService returns the service of the user. It reports CodeNotFound if none is
// installed.
func (a *app) installedService() (*service, error) {
	s, err := a.service()
	if err != nil {
		return nil, err
	}
	text, err := s.installed()
	if err == nil && text == "" {
		err = hub.Errorf(hub.CodeNotFound, "parley", "no service is installed: there is no %s", s.file).WithHint("parley service install makes it")
	}
	return s, err
}

func (a *app) serviceUninstallCommand() *cobra.Command {
	return &cobra.Command{
		Use: "uninstall", Short: "Stop the service and remove it; the hub's home stays",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.installedService()
			if err != nil {
				return err
			}
			if err := s.remove(cmd.Context()); err != nil {
				return err
			}
			report := s.report()
			report.Installed = false
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "removed %s; the hub's home %s stays\n", s.file, s.home)
			})
		},
	}
}

func (a *app) serviceStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Print whether the service is installed and its hub runs; exit 1 if it does not run",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.installedService()
			if err != nil {
				return err
			}
			report := s.report()
			detail, err := s.command(cmd.Context(), s.status)
			report.Detail, _, _ = strings.Cut(detail, "\n")
			report.Running = err == nil && server.Running(s.home)
			return a.check(report.Running, report, func(w io.Writer) {
				state := "does not run"
				if report.Running {
					state = "runs"
				}
				fmt.Fprintf(w, "the hub of %s %s\n%s: %s\nfile: %s\nlog: %s\n", s.home, state, s.name, report.Detail, s.file, filepath.Join(s.home, logName))
			})
		},
	}
}
