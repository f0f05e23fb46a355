package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // the zones of schedules; the machine may have none

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/schedule"
)

func (a *app) scheduleCommand() *cobra.Command {
	return noun("schedule", "Send messages to agents on a schedule", a.everyListCommand(), a.scheduleAddCommand(), a.everyRunCommand(), a.everyRemoveCommand())
}

func (a *app) scheduleAddCommand() *cobra.Command {
	var set schedule.Setting
	cmd := &cobra.Command{
		Use:   "add SPAN|CRON TEXT",
		Short: "Send a message to an agent on a schedule (operator)",
		Long: `Send a message to an agent on a schedule: every span such as 30m, 1h or 1d, or at the times
of five cron fields (minute, hour, day, month, weekday) in your time zone. A message is sent
up to a minute late, so that many do not come at once.

A run is skipped while the agent has not read the previous message. Runs that were missed
while no hub was running are reported once, in the next message.`,
		Example: `  parley schedule add 1h --to builder "Look at the open reviews."
  parley schedule add "0 9 * * 1-5" --to planner "Plan the day."`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar((*string)(&set.To), "to", "", "agent that gets the message")
	cmd.Flags().StringVar(&set.Zone, "zone", "", "time zone such as Europe/Berlin; yours if not given")
	cmd.MarkFlagRequired("to")
	operation(a, cmd, api.AddSchedule, &set, func(w io.Writer, got api.ScheduleAnswer) {
		fmt.Fprintf(w, "%s sends to %s every %s; next at %s\n", got.Schedule.ID, got.Schedule.To, got.Schedule.Every, when(got.Schedule.Due))
	}, argument(0, &set.Every), argument(1, &set.Text), func(context.Context, []string) error {
		if set.Zone == "" {
			set.Zone = localZone()
		}
		return nil
	})
	return cmd
}

// localZone returns the name of the time zone of this machine; "" if it cannot be found, which
// stands for the zone of the hub's machine.
func localZone() string {
	name, isSet := os.LookupEnv("TZ")
	name = strings.TrimPrefix(name, ":")
	switch {
	case isSet && name == "":
		return "UTC" // as the C library reads it
	case isSet && !filepath.IsAbs(name):
		return name
	case !isSet:
		name = "/etc/localtime"
	}
	file, err := filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	_, zone, _ := strings.Cut(filepath.ToSlash(file), "/zoneinfo/")
	return zone
}

func (a *app) everyListCommand() *cobra.Command {
	return operation(a, &cobra.Command{Use: "list", Short: "List the schedules", Args: cobra.NoArgs}, api.ListSchedules, &api.None{}, writeSchedules)
}

// writeSchedules writes schedules as a table.
func writeSchedules(w io.Writer, got api.ScheduleList) {
	if len(got.Schedules) == 0 {
		fmt.Fprintln(w, "no schedules")
		return
	}
	writeTable(w, "SCHEDULE, EVERY, ZONE, TO, NEXT, LAST, RUNS, SKIPPED, MISSED, TEXT", got.Schedules, func(s hub.Schedule) []any {
		zone := s.Zone
		if zone == "" {
			zone = "-"
		}
		return []any{s.ID, s.Every, zone, s.To, when(s.Due), when(s.Last), s.Runs, s.Skipped, s.Missed, s.Text}
	})
}

func (a *app) everyRunCommand() *cobra.Command {
	var p api.ScheduleParams
	return operation(a, &cobra.Command{Use: "run ID", Short: "Send the message of a schedule now (operator)", Long: "Send the message of a schedule now, even if the previous one is unread. The time of the\nnext run does not change.", Args: cobra.ExactArgs(1)}, api.RunSchedule, &p,
		func(w io.Writer, got api.ScheduleAnswer) {
			fmt.Fprintf(w, "sent to %s; next at %s\n", got.Schedule.To, when(got.Schedule.Due))
		}, argument(0, &p.ID))
}

func (a *app) everyRemoveCommand() *cobra.Command {
	var p api.ScheduleParams
	return operation(a, &cobra.Command{Use: "remove ID", Short: "Remove a schedule (operator)", Args: cobra.ExactArgs(1)}, api.RemoveSchedule, &p,
		func(w io.Writer, _ api.None) { fmt.Fprintf(w, "removed %s\n", p.ID) }, argument(0, &p.ID))
}
