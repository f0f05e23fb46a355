// Package sandbox gives an agent a few folders to work in: files that stay
// under these folders, commands that end when they should, and a policy that
// says what needs no question.
//
// [Open] opens the folders. [Files] reads and writes text under them,
// [Terminals] runs commands in them, [Permissions] answers when an agent asks
// whether it may. Each works alone, speaks in plain strings and numbers, and
// knows no protocol: whoever serves an agent declares the interface it needs,
// which these types satisfy and which anything else may satisfy in their place.
//
// What is promised:
//
//   - No file outside the folders is read or written, also while somebody
//     swaps links and folders underneath. [os.Root] sees to that.
//   - Nothing blocks on a pipe or a device, and nothing that comes from outside
//     is kept without a bound.
//   - After [Terminals.Close] no command runs and no goroutine is left.
//
// What is not: a command that runs in a terminal has the rights of this
// process. Its working folder is checked, what it then does is not. Nor is a
// hard link told from any other file, or what is mounted under a folder from
// what was stored there. Who needs more puts the whole agent into a container.
package sandbox
