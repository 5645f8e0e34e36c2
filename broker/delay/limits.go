package delay

import "time"

const (
	// stretchMax is how many messages a level delivers before it lets other goroutines run: a million that are due at once
	// must not hold up the event loops.
	stretchMax = 64
	// unitsPerLook is how many ConsumeQueue units a level looks at together.
	unitsPerLook = stretchMax

	// bufferKeepBytes is the memory that a level keeps for records while it waits.
	bufferKeepBytes = 64 << 10

	// retryPauseMin and retryPauseMax are how long a level waits after it could not deliver a message (the original: 100 ms).
	retryPauseMin = 100 * time.Millisecond
	retryPauseMax = 2 * time.Second

	// clockLookInterval is how long a level sleeps at most while a message waits: somebody may have set the clock.
	clockLookInterval = 5 * time.Second

	// scanDistanceMax is after how many bytes of the log the offsets are written out of turn, if something was delivered: a
	// start after kill -9 looks at the log from there on for what was delivered. logLookInterval is how often that is asked.
	scanDistanceMax = 256 << 20
	logLookInterval = time.Second

	// scanBlockBytes is how much of the log that search reads at a time.
	scanBlockBytes = 1 << 20

	// levelsInFileMax bounds the levels that delayOffset.json may name.
	levelsInFileMax = 1 << 12
)
