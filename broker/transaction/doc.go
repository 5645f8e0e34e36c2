// Package transaction holds half messages until their producer says what becomes of them: END_TRANSACTION commits or rolls
// back, and rounds of checks ask the producers that say nothing. It mirrors TransactionalMessageServiceImpl,
// TransactionalMessageBridge, EndTransactionProcessor and the check listener of RocketMQ 5.5.0, on its topics and formats, so
// that a directory can go from one broker to the other with transactions open.
//
//	record.go   what a half, a committed, a copied and a given-up message look like
//	op.go       the body of op messages: half offsets, each followed by a comma
//	ledger.go   which halves have ended and are not read back yet; the batch of op messages; where copies lie
//	end.go      END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE
//	round.go    one round of checks
//	ask.go      CHECK_TRANSACTION_STATE to a live producer
//	service.go  the two goroutines, start and stop
//
// # How a half ends
//
// A half lies in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC. Its end is an op message that names its queue offset there. A round goes
// over the halves from its own progress on (consumer offsets of CID_RMQ_SYS_TRANS on both topics), leaves out those with an
// op, and moves each undecided one on: it is appended once more at the end of the half queue, then its producer is asked about
// that copy. So progress never waits for a half.
//
// Where the original delivers twice, this does not: ends that are not in the op queue yet are known to the round (Ledger), an end
// that names an older copy ends the newest one too, and a half whose copy a killed round left behind is not copied again.
//
// # Goroutines
//
// End and Resume run on control workers. The checker makes rounds, the op writer writes batches of op messages. Ledger.mu is a
// leaf: nothing is called with it held.
package transaction
