package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/internal/testing/hubtest"
)

// health returns the status code and the body of /health.
func (h *house) health() (int, string) {
	h.t.Helper()
	res, err := http.Get(h.url + "/health")
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestFullDisk(t *testing.T) {
	t.Run("on a full disk a hub says so in answers, /health and doctor for as long as it lasts, and goes on when there is room", func(t *testing.T) {
		h := newHouseIn(t, hubtest.SmallDisk(t, 8), "--unsafe-limits")
		empty := hubtest.FillDisk(t, h.home)
		long := strings.Repeat("x", 3000)
		var got result
		for i := 0; i < 200 && got.code == 0; i++ { // the log may have some room
			got = h.as("planner", "send", "builder", long, "--json")
		}
		answer := refused(t, got, 5, "degraded")
		contains(t, answer.Error.Message, "the disk is full")
		contains(t, answer.Error.Hint, "free space")
		for range 5 {
			h.as("builder", "inbox") // a small change may succeed
			code, body := h.health()
			if code != http.StatusServiceUnavailable {
				t.Errorf("/health: got %d %s, want that it is degraded", code, body)
			}
			contains(t, body, "the disk is full", "free space")
		}
		contains(t, h.operator("doctor").out, "FAIL hub: degraded", "the disk is full")
		empty()
		h.ok(h.as("planner", "send", "builder", long), nil)
		if code, body := h.health(); code != http.StatusOK {
			t.Errorf("/health with room on the disk: got %d %s", code, body)
		}
	})
}

func TestDamagedPage(t *testing.T) {
	t.Run("a damaged page is found after the start, and is in the log, /health and doctor", func(t *testing.T) {
		h := newHouse(t, "--unsafe-limits")
		const marker = "a text in the page to be damaged"
		h.ok(h.as("planner", "send", "builder", marker), nil)
		for range 4 { // the start reads the newest message, and those that are not indexed
			h.ok(h.as("planner", "send", "builder", strings.Repeat("x", 3000)), nil)
		}
		h.ok(h.as("planner", "log", "--whole", "--text", "damaged"), nil)
		h.stop()
		path := filepath.Join(h.home, "hub.db")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(raw, []byte(marker)) // the first may be left over in a page that was divided
		if at < 0 {
			t.Fatal("the message is not in the database")
		}
		const page = 4096
		copy(raw[at/page*page:], bytes.Repeat([]byte{0xff}, 100)) // the header of the page
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		h.start("--unsafe-limits")
		contains(t, h.hub.stderr.await(t, "check of the database"), "damaged")
		code, body := h.health()
		var health struct{ Status, Problem, Hint string }
		if err := json.Unmarshal([]byte(body), &health); err != nil {
			t.Fatal(err)
		}
		if code != http.StatusServiceUnavailable || health.Status != "degraded" {
			t.Errorf("/health: got %d %s", code, body)
		}
		contains(t, health.Problem, "the database is damaged")
		contains(t, health.Hint, "restore a backup")
		got := h.operator("doctor")
		if got.code != exitCheck {
			t.Errorf("doctor: exit %d, want %d", got.code, exitCheck)
		}
		contains(t, got.out, "FAIL hub: degraded", "the database is damaged", "restore a backup")
	})
}

func TestTooManyConnections(t *testing.T) {
	t.Run("a hub without free files refuses connections, says so, and goes on when some are closed", func(t *testing.T) {
		h := &house{t: t, home: t.TempDir(), keys: map[string]string{}}
		os.Chmod(h.home, 0o700)
		cmd := parley(t, nil, "serve", "--home", h.home, "--addr", "127.0.0.1:0")
		limited := exec.Command("sh", append([]string{"-c", `ulimit -n 100; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)...)
		limited.Env = cmd.Env
		h.hub = spawn(t, limited)
		h.url = strings.TrimPrefix(h.hub.stderr.await(t, "listening on "), "listening on ")
		var held []net.Conn
		var refusal []byte
		for i := 0; i < 200 && refusal == nil; i++ {
			c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
			if _, err := c.Write([]byte("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, 4096)
			n, err := c.Read(answer)
			if err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			if !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
				refusal = answer[:n]
			}
		}
		contains(t, string(refusal), "HTTP/1.1 503", "too many connections", "ulimit -n")
		h.hub.stderr.await(t, "too many connections")
		for _, c := range held {
			c.Close()
		}
		poll(t, "the hub takes connections again", func() bool {
			res, err := http.Get(h.url + "/health")
			if err != nil {
				return false
			}
			res.Body.Close()
			return res.StatusCode == http.StatusOK
		})
		h.ok(h.operator("agent", "add", "late", "--json"), nil)
	})
}

func TestReadOnlyHome(t *testing.T) {
	t.Run("a hub on a read-only home does not start and says why, and starts when it can write", func(t *testing.T) {
		h := newHouseIn(t, hubtest.SmallDisk(t, 8))
		id := h.sent(h.as("planner", "send", "builder", "before", "--json"))
		h.stop()
		remount := func(flags uintptr) {
			t.Helper()
			if err := syscall.Mount("tmpfs", h.home, "tmpfs", syscall.MS_REMOUNT|flags, "size=8m"); err != nil {
				t.Fatal(err)
			}
		}
		remount(syscall.MS_RDONLY)
		got := refused(t, do(t, parley(t, nil, "serve", "--home", h.home, "--addr", "127.0.0.1:0", "--json")), 5, "degraded")
		contains(t, got.Error.Message, "read-only")
		contains(t, got.Error.Hint, "permissions")
		remount(0)
		h.start()
		contains(t, h.as("builder", "inbox", "--json").out, id)
	})
}

func TestHomeBecomesReadOnly(t *testing.T) {
	// failing checks that a send fails, and that the hub says why in all places.
	failing := func(t *testing.T, h *house, why string) {
		t.Helper()
		for range 2 {
			got := refused(t, h.as("planner", "send", "builder", "meanwhile", "--json"), 5, "degraded")
			contains(t, got.Error.Message, "the hub's home cannot be written", why)
			contains(t, got.Error.Hint, "continues by itself", "remount it")
			code, body := h.health()
			if code != http.StatusServiceUnavailable {
				t.Errorf("/health: got %d %s, want that it is degraded", code, body)
			}
			contains(t, body, "the hub's home cannot be written", why)
		}
		contains(t, h.operator("doctor").out, "FAIL hub: degraded", "the hub's home cannot be written", why)
		h.ok(h.as("builder", "log", "--whole"), nil) // reading goes on
	}
	t.Run("files that nobody may write are named, and the hub goes on when they can be written", func(t *testing.T) {
		disk := hubtest.NewExtDisk(t, 24)
		h := newHouseIn(t, disk.Dir)
		first := h.sent(h.as("planner", "send", "builder", "before", "--json"))
		unlock := disk.Lock(t)
		failing(t, h, "operation not permitted")
		unlock()
		second := h.sent(h.as("planner", "send", "builder", "after", "--json"))
		if code, body := h.health(); code != http.StatusOK {
			t.Errorf("/health when the home can be written: got %d %s", code, body)
		}
		contains(t, h.as("builder", "inbox", "--json").out, first, second)
		h.ok(h.operator("hub", "verify"), nil)
	})
	t.Run("a disk that the kernel made read-only is named, and the hub starts on it when it is mounted anew", func(t *testing.T) {
		disk := hubtest.NewExtDisk(t, 24)
		h := newHouseIn(t, disk.Dir)
		first := h.sent(h.as("planner", "send", "builder", "before", "--priority", "high", "--json")) // survives power loss
		disk.Fail(t)
		failing(t, h, "read-only file system")
		h.hub.cmd.Process.Kill()
		<-h.hub.done
		disk.Remount(t)
		h.start()
		second := h.sent(h.as("planner", "send", "builder", "after", "--json"))
		contains(t, h.as("builder", "inbox", "--json").out, first, second)
		h.ok(h.operator("hub", "verify"), nil)
	})
}

func TestTruncatedLog(t *testing.T) {
	t.Run("a hub whose log lost its end starts with what is left, and audit verify names the loss", func(t *testing.T) {
		h := newHouse(t, "--unsafe-limits")
		for i := range 20 {
			h.ok(h.as("planner", "send", "builder", fmt.Sprint("message ", i)), nil)
		}
		poll(t, "the trail is written", func() bool {
			raw, _ := os.ReadFile(filepath.Join(h.home, "journal", "head.json"))
			var head struct{ Seq int }
			var journal struct{ Head struct{ Seq int } }
			got := h.operator("hub", "journal", "--limit", "1", "--json")
			return json.Unmarshal(raw, &head) == nil && json.Unmarshal([]byte(got.out), &journal) == nil && head.Seq == journal.Head.Seq
		})
		h.hub.cmd.Process.Kill()
		<-h.hub.done
		log := filepath.Join(h.home, "hub.db-wal")
		info, err := os.Stat(log)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(log, info.Size()/2); err != nil {
			t.Fatal(err)
		}
		h.start("--unsafe-limits")
		contains(t, h.hub.stderr.await(t, "set aside"), "journal")
		h.ok(h.as("planner", "send", "builder", "afterwards"), nil)
		if code, body := h.health(); code != http.StatusOK {
			t.Errorf("/health: got %d %s", code, body)
		}
		got := h.operator("hub", "verify")
		if got.code != exitCheck {
			t.Errorf("audit verify: exit %d, want %d: %s", got.code, exitCheck, got.out)
		}
		contains(t, got.out, "FOUND", "it was set aside because it does not match the journal")
	})
}
