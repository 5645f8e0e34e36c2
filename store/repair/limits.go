package repair

const (
	// placesMax bounds the damaged places of one run, fillsMax what is put into all of them; the next run does the rest.
	placesMax = 10_000
	fillsMax  = 200_000
	// lostMax bounds the queue offsets that are looked for in one place.
	lostMax = 10_000
	// fillerBytesMax is the longest filler that belongs to no queue, recordBytesMax the longest of a queue: the length of its
	// unit, which may be damaged itself.
	fillerBytesMax = 1 << 20
	recordBytesMax = 64 << 20
	// copyBytes is what is copied at once.
	copyBytes = 1 << 20
	// runsMax is how many runs may leave their folders.
	runsMax = 9999
)
