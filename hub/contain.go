package hub

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Contain calls fn and returns its error. A panic of fn becomes an error of
// CodeInternal that names the value and the line that panicked, so that one request,
// or one step of work beside requests, cannot end the process. fn must leave nothing
// locked and nothing half done in memory: its transaction undoes its writes.
func Contain(op string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Errorf(CodeInternal, op, "panic: %v%s", p, panicLine())
		}
	}()
	return fn()
}

// panicLine returns the line that panicked, for a function that recovers: the first
// one below the runtime's own.
func panicLine() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs[:])])
	for panicked := false; ; {
		f, more := frames.Next()
		switch inRuntime := strings.HasPrefix(f.Function, "runtime."); {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !inRuntime:
			return " at " + filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}
