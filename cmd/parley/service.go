package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/desk/osservice"
)

// A service is the hub of one home as a service of the user.
type service struct {
	*osservice.Service
	home string // absolute
}

// service returns the service of the hub's home.
func (a *app) service() (*service, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	s, err := osservice.New(osservice.Hub{
		Home: home, Config: a.config,
		LogFile: filepath.Join(home, logName), Stop: a.typed(home) + " stop",
	})
	return &service{Service: s, home: home}, err
}

// installedService returns the service of the user. It reports CodeNotFound if none is
// installed.
func (a *app) installedService() (*service, error) {
	s, err := a.service()
	if err == nil {
		err = s.Require()
	}
	return s, err
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
	return serviceReport{Manager: s.Manager, File: s.File, Home: s.home, Installed: true}
}

func (a *app) hubServiceCommand() *cobra.Command {
	cmd := noun("service", "Run the hub as a system service", a.serviceStatusCommand(), a.serviceInstallCommand(), a.serviceUninstallCommand())
	cmd.Long = `Let the system start the hub when you log in, and restart it after a failure: systemd on
Linux, launchd on macOS, the Task Scheduler on Windows. Each user has one service,
without administrator rights.`
	return cmd
}

func (a *app) serviceInstallCommand() *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use: "install", Short: "Install and start the service",
		Long: `Install a service for the hub of this home, and start it. Run the command again after an
upgrade, so the service uses the new program. The log is hub.log in the home.`,
		Example: `  parley hub service install --print
  parley hub service install --home /srv/parley`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.service()
			if err != nil {
				return err
			}
			if printOnly {
				text, err := s.Describe()
				fmt.Fprint(a.out, text)
				return err
			}

			changed, err := s.Add(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(s.report(), func(w io.Writer) { s.writeInstalled(w, changed) })
		},
	}

	cmd.Flags().BoolVar(&printOnly, "print", false, "print the service file without writing it")
	return cmd
}

// writeInstalled prints what an installation did.
func (s *service) writeInstalled(w io.Writer, changed bool) {
	if !changed {
		fmt.Fprintf(w, "the service is installed already: %s\n", s.File)
		return
	}
	fmt.Fprintf(w, "wrote %s; %s starts the hub of %s now and when you log in\n", s.File, s.Manager, s.home)
	if s.Note != "" {
		fmt.Fprintln(w, s.Note)
	}
}

func (a *app) serviceUninstallCommand() *cobra.Command {
	return &cobra.Command{
		Use: "uninstall", Short: "Stop and remove the service; the home stays",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.installedService()
			if err != nil {
				return err
			}
			if err := s.Remove(cmd.Context()); err != nil {
				return err
			}
			report := s.report()
			report.Installed = false
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "removed %s; the hub's home %s stays\n", s.File, s.home)
			})
		},
	}
}

func (a *app) serviceStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether the service is running",
		Long: `Show whether the service is installed and its hub is running. The exit code is 1 if
the hub is not running.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.installedService()
			if err != nil {
				return err
			}
			report := s.report()
			report.Running, report.Detail = s.Status(cmd.Context())
			return a.check(report.Running, report, func(w io.Writer) {
				state := "does not run"
				if report.Running {
					state = "runs"
				}
				fmt.Fprintf(w, "the hub of %s %s\n%s: %s\nfile: %s\nlog: %s\n", s.home, state, s.Manager, report.Detail, s.File, filepath.Join(s.home, logName))
			})
		},
	}
}
