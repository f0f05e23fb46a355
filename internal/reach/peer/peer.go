// Package peer reaches other hubs: it finds them, calls them, and keeps them in step.
//
// Every call goes through one Client, which checks the address at the moment it
// connects, so that a name that changes its answer leads nowhere else. Only
// configured addresses are contacted.
//
// The outbox of a peer is a cursor over the hub's log of changes; see worker. The
// cursor moves when the peer has confirmed, so a kill sends a copy twice at worst,
// and merging a copy twice changes nothing. A copy holds the present state of a
// thing, so a peer that was away for a day gets each thing once.
//
// Two Parley hubs compare a project by sums, which their stores keep: one for all that
// it holds, and if that differs one for the project itself, one for each contract, and
// one for each of 256 buckets of packet ids. Only things with different sums are
// exchanged, so comparing equal projects costs 32 bytes for each project. Agents of the reference implementation have no sums; their
// projects are read as a whole.
//
// The package decides nothing about contracts: their owner merges, behind interfaces
// declared here.
package peer
