package groups

const (
	// NameBytesMax bounds the name of a new group (Validators.validateGroup, 5.5.0). A longer one that a directory of an older
	// broker has keeps working.
	NameBytesMax = 120
	// CountMax bounds the groups of a broker: heartbeats and pulls make them, so names come from the network.
	CountMax = 200_000
	// forbiddenMax bounds the pairs of group and topic in the forbidden table.
	forbiddenMax = 100_000
	// listMax bounds the groups of one UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST.
	listMax = 100_000
	// namesShownMax bounds the names in one line of the log.
	namesShownMax = 20
	// pageMax bounds one answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG (AdminBrokerProcessor, 5.5.0).
	pageMax = 2000
)
