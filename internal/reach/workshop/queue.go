package workshop

import (
	"context"
	"slices"
	"sync"
)

// A queue gives places to runs, a number of them at a time. Repositories take turns: of those
// that wait, the one goes first that was served longest ago. In a repository, the first to come
// goes first.
type queue struct {
	mu      sync.Mutex // guards the fields below
	free    []int      // numbers of places, ascending
	turns   []string   // repositories with runs that wait, in the order of their turns
	waiting map[string][]chan int
}

// newQueue returns a queue with places 1 to n.
func newQueue(n int) *queue {
	q := &queue{waiting: map[string][]chan int{}}
	for i := range n {
		q.free = append(q.free, i+1)
	}
	return q
}

// take waits for a place for a run of a repository. It returns the error of ctx if that ends.
func (q *queue) take(ctx context.Context, repository string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ticket := make(chan int, 1)
	q.mu.Lock()
	if len(q.waiting[repository]) == 0 {
		q.turns = append(q.turns, repository)
	}
	q.waiting[repository] = append(q.waiting[repository], ticket)
	q.serve()
	q.mu.Unlock()

	select {
	case place := <-ticket:
		return place, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case place := <-ticket: // both happened
		q.giveLocked(place)
	default:
		q.leave(repository, ticket)
	}
	return 0, ctx.Err()
}

// give returns a place.
func (q *queue) give(place int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giveLocked(place)
}

func (q *queue) giveLocked(place int) {
	q.free = append(q.free, place)
	slices.Sort(q.free)
	q.serve()
}

// serve gives the free places to those whose turn it is. It requires mu.
func (q *queue) serve() {
	for len(q.free) > 0 && len(q.turns) > 0 {
		repository := q.turns[0]
		q.turns = q.turns[1:]
		ticket := q.waiting[repository][0]
		q.waiting[repository] = q.waiting[repository][1:]
		if len(q.waiting[repository]) > 0 {
			q.turns = append(q.turns, repository)
		} else {
			delete(q.waiting, repository)
		}
		ticket <- q.free[0]
		q.free = q.free[1:]
	}
}

// leave removes a ticket that waits. It requires mu.
func (q *queue) leave(repository string, ticket chan int) {
	rest := slices.DeleteFunc(q.waiting[repository], func(t chan int) bool { return t == ticket })
	if len(rest) > 0 {
		q.waiting[repository] = rest
		return
	}
	delete(q.waiting, repository)
	q.turns = slices.DeleteFunc(q.turns, func(r string) bool { return r == repository })
}
