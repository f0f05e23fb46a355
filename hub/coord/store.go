package coord

// A ContractQuery chooses contracts of one project. Empty members do not
// restrict.
type ContractQuery struct {
	Project ProjectID // must be given
	Status  ContractStatus
	Type    ContractType
	Name    string
	// Conflicted restricts to contracts with contents that lost against
	// another one of their version.
	Conflicted bool
	After      ContractID // the last one of the page before
	Limit      int        // how many at most; positive
}

// A PacketQuery chooses packets of one project. Empty members do not restrict.
type PacketQuery struct {
	Project  ProjectID // must be given
	Type     ContextType
	Contract ContractID // related to it
	ReplyTo  PacketID   // answers to it
	Short    string     // packets with this PacketID.Short
	Since    Instant    // at or after
	Newest   bool       // newest first, not oldest first
	Cursor   string     // Next of the page before, in the same order
	Limit    int        // how many at most; positive
}

// A PacketPage is a part of a longer list.
type PacketPage struct {
	Packets []Packet
	Next    string // cursor for the part after this one, or "" at the end
}

// A Reader reads projects, contracts, packets and requests for files.
type Reader interface {
	// Project returns a project with its tally. Its list of repositories may be
	// shared, and must not be written to.
	Project(id ProjectID) (Project, error)
	// Projects returns projects by id, beginning after one.
	Projects(after ProjectID, limit int) ([]Project, error)
	// Contract returns a contract without History and Conflicts.
	Contract(project ProjectID, id ContractID) (Contract, error)
	// Contracts returns contracts by id, without History and Conflicts.
	Contracts(q ContractQuery) ([]Contract, error)
	// Versions returns the earlier versions of a contract, oldest first, and
	// the contents that lost, newest version first.
	Versions(project ProjectID, id ContractID) (history, conflicts []ContractVersion, err error)
	Packet(project ProjectID, id PacketID) (Packet, error)
	// Packets returns packets by time.
	Packets(q PacketQuery) (PacketPage, error)
	// PacketIDs returns the ids of a project's packets by time, beginning after
	// one.
	PacketIDs(project ProjectID, after PacketID, limit int) ([]PacketID, error)
	// Sums returns the hashes of the contents of a project, which the store keeps.
	Sums(project ProjectID) (Sums, error)
	// ContractSums returns the sums of contracts by id, beginning after one.
	ContractSums(project ProjectID, after ContractID, limit int) ([]ContractSum, error)
	// Verdict returns a stored verdict.
	Verdict(project ProjectID, id ContractID, pair string) (StoredVerdict, error)
	Results(q ResultQuery) ([]ContractResult, error)
	// NewestResults returns the newest result of each repository for each contract with an id
	// after one and up to another, by contract and repository.
	NewestResults(project ProjectID, after, upTo ContractID) ([]ContractResult, error)
	Deployments(q DeploymentQuery) ([]Deployment, error)
	// NewestDeployments returns the newest deployment of each repository in an environment.
	NewestDeployments(project ProjectID, env string) ([]Deployment, error)
	FileRequest(project ProjectID, id string) (FileRequest, error)
	// FileRequests returns requests, newest first.
	FileRequests(project ProjectID, limit int) ([]FileRequest, error)
}

// A Writer writes projects, contracts, packets and requests for files.
type Writer interface {
	// PutProject stores a new project if was is the zero value, and reports
	// CodeConflict when the id is taken. Else it stores p in place of was,
	// provided the stored one is still was, tallies aside; otherwise it reports
	// CodeConflict. The tally stays as it is.
	PutProject(p, was Project) error
	// PutContract stores a new contract with History and Conflicts if was is
	// the zero value. It reports CodeConflict when the id is taken within the
	// project.
	//
	// Else it stores c in place of was, provided the stored one still has was's
	// version and time; otherwise it reports CodeConflict. History and
	// Conflicts stay as they are.
	PutContract(c, was Contract) error
	// AddVersion keeps an earlier version of a contract.
	AddVersion(project ProjectID, id ContractID, v ContractVersion) error
	// PutVersions stores History and Conflicts of c in place of the stored ones.
	PutVersions(c Contract) error
	// PutPacket stores a new packet if was is the zero value, and reports
	// CodeConflict when the id is taken within the project. Else it stores p in
	// place of was, provided the stored one is still was; otherwise it reports
	// CodeConflict.
	PutPacket(p, was Packet) error
	// PutVerdict stores a verdict, new or known.
	PutVerdict(StoredVerdict) error
	// AddResult stores a result and returns it with its number.
	AddResult(ContractResult) (ContractResult, error)
	// AddDeployment stores a deployment and returns it with its number.
	AddDeployment(Deployment) (Deployment, error)
	// PutFileRequest stores a new request, or the file that fulfilled a known
	// one. It reports CodeConflict when the id of a new request is taken, or when
	// the request does not wait for a file.
	PutFileRequest(FileRequest) error
}
