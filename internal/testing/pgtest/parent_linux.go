package pgtest

import "syscall"

// endsWithParent makes a process end when the one that started it ends.
func endsWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
