// Package stray ends processes that left the process group of the program that started
// them, which a kill of the group does not reach.
//
// A stray process is found by a mark: an environment variable that the program was
// started with and that every process below it inherits. A process can clear its
// environment. A [Pen] finds those, too: it makes this process the parent of every
// process below it whose own parent ends, so that they stay below.
//
// Neither finds a process that another program started on request, such as a service
// manager or a scheduler. Linux alone tells about the processes of others: elsewhere the
// package finds none.
package stray

import "time"

// killTime is the time in which processes must be gone after a kill.
const killTime = 5 * time.Second

// Kill kills every process that has the mark, NAME=value, in its environment, and the
// process groups that those are in, unless that is the group of this process. It repeats
// that until no such process is left, and reports an error if some do not end.
func Kill(mark string) error { return killAll(func() []int { return marked(mark) }, killGroup) }

// A Pen holds the processes that are started below this process from now on. A program
// has at most one at a time, and while it kills has no children of its own.
type Pen struct{ before map[int]bool }

// NewPen returns a pen. The processes that are below this process already are not in it.
func NewPen() *Pen {
	adopt(true)
	p := &Pen{before: map[int]bool{}}
	for _, pid := range below(nil) {
		p.before[pid] = true
	}
	return p
}

// Processes returns the numbers of the processes in the pen that have not ended.
func (p *Pen) Processes() []int { return below(p.before) }

// Kill kills every process in the pen, and reports an error if some do not end.
func (p *Pen) Kill() error {
	err := killAll(func() []int { return below(p.before) }, killOne)
	bury(p.before)
	return err
}

// Open lets processes leave again: a process whose parent ends gets the parent that it
// would have without the pen.
func (p *Pen) Open() { adopt(false) }
