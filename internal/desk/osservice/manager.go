package osservice

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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
	restart   [][]string                   // the commands that end the hub and start it again
	status    []string                     // ends with exit code 0 if the service runs
	note      string                       // for the user, after install
}

// endSeconds is the time after which a manager kills a hub that it asked to stop.
var endSeconds = strconv.Itoa(int(server.EndTime / time.Second))

// Names of the service, as each manager knows it.
const (
	UnitName  = "parley.service"                 // for systemd
	labelName = "io.github.parley-agents.parley" // for launchd
	taskName  = "Parley"                         // for the task scheduler
)

// managers has the manager of each operating system.
var managers = map[string]manager{
	"linux":   systemd,
	"darwin":  launchd,
	"windows": taskScheduler,
}

// systemd runs services of Linux.
var systemd = manager{
	name: "systemd",
	path: func(home string) string {
		config := os.Getenv("XDG_CONFIG_HOME")
		if !filepath.IsAbs(config) {
			config = filepath.Join(home, ".config")
		}
		return filepath.Join(config, "systemd", "user", UnitName)
	},
	quote: func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(s) + `"`
	},
	render: func(arguments []string) string {
		return "[Unit]\nDescription=Parley hub\n\n[Service]\nExecStart=" + strings.Join(arguments, " ") +
			"\nRestart=on-failure\nTimeoutStopSec=" + endSeconds + "\n\n[Install]\nWantedBy=default.target\n"
	},

	install: func(string) [][]string {
		return [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", UnitName}}
	},
	uninstall: func(string) [][]string { return [][]string{{"systemctl", "--user", "disable", "--now", UnitName}} },
	removed:   [][]string{{"systemctl", "--user", "daemon-reload"}},
	restart:   [][]string{{"systemctl", "--user", "restart", UnitName}},
	status:    []string{"systemctl", "--user", "is-active", UnitName},
	note:      `it stops when you log out; run "loginctl enable-linger" to keep it running`,
}

// launchd runs services of macOS.
var launchd = manager{
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
<key>ExitTimeOut</key><integer>` + endSeconds + `</integer>
</dict></plist>
`
	},

	install:   func(path string) [][]string { return [][]string{{"launchctl", "bootstrap", domain(), path}} },
	uninstall: func(string) [][]string { return [][]string{{"launchctl", "bootout", domain() + "/" + labelName}} },
	restart:   [][]string{{"launchctl", "kickstart", "-k", domain() + "/" + labelName}},
	status:    []string{"launchctl", "print", domain() + "/" + labelName},
}

// taskScheduler runs services of Windows.
var taskScheduler = manager{
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
	restart: [][]string{{"schtasks", "/End", "/TN", taskName}, {"schtasks", "/Run", "/TN", taskName}},
	status:  []string{"schtasks", "/Query", "/TN", taskName},
}

// domain returns the domain of the services of the present user, for launchd.
func domain() string { return fmt.Sprintf("gui/%d", os.Getuid()) }

func escapeXML(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}
