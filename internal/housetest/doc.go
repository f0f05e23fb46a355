// Package housetest has the tests of the repository itself: the map of packages, the
// one door to git, the one path of messages, transactions that stay flat, operations
// that are in their tables, stored words that stay, links of the documents, and the
// README's commands. It contains no code of the program.
package housetest
