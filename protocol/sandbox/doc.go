// Package sandbox gives an agent a few folders to work in: files that stay under
// these folders, commands that end when they should, and a policy that decides which
// actions need no question.
//
// [Open] opens the folders. [Files] reads and writes text under them, [Terminals]
// runs commands in them, and [Permissions] decides an agent's requests for permission.
// Each works alone, uses plain strings and numbers, and knows no protocol: a program
// that serves an agent declares the interface it needs, and these types satisfy it.
//
// Guarantees:
//
//   - No file outside the folders is read or written, even while another process
//     exchanges links and folders underneath: [os.Root] keeps every access inside.
//   - No operation blocks on a pipe or a device, and everything that comes from the
//     agent has a limit.
//   - After [Terminals.Close] no command runs and no goroutine is left.
//
// Limits of the confinement: a command in a terminal has the rights of this process.
// Its working folder is checked; its further actions are not. A hard link is not
// distinguished from any other file, nor a mount under a folder from stored files. A
// user who needs more runs the whole agent in a container.
package sandbox
