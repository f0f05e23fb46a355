// Package peer is how a hub reaches other hubs: it finds them, calls them, and
// keeps them in step.
//
// Everything that leaves goes through one Client, which looks at the address at
// the moment it connects: a name that changes its answer leads nowhere else.
// Nothing is contacted that was not configured.
//
// A peer's outbox is a cursor over the hub's own log of changes. The cursor
// moves when the peer has confirmed, so a kill at any instant sends something
// twice at worst, and peers take twice as once. What goes out is the state that
// a thing has now, so a peer that was away for a day gets each thing once.
//
// The package decides nothing about contracts: merging is asked of the one who
// owns them, through interfaces declared here.
package peer
