// Package coord has the nouns of coordination between repositories: projects with their
// repositories, contracts with agreements and implementations, context packets, and the
// permissions and grants of those who take part. It has the state tables of contracts and
// projects, the hashes by which two hubs compare copies, and the part of the store that keeps
// these nouns.
//
// The package decides nothing and stores nothing: internal/service/contract decides, the engines
// of hub.Store implement Reader and Writer. It stands below package hub, whose transactions
// have it as a part, so it knows no error codes: hub.CheckPermissions and hub.CheckRepoRole
// refuse words that are not in its lists.
package coord
