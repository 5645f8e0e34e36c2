package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
)

// retention is what decides when files go (CleanCommitLogService and CleanConsumeQueueService, 5.5.0).
type retention struct {
	every      time.Duration // cleanResourceInterval; 0: no goroutine, for tests that call pass
	keep       time.Duration // fileReservedTime
	hours      [24]bool      // deleteWhen, local time; true during the whole hour
	batch      int           // deleteFileBatchMax
	filePause  time.Duration // deleteCommitLogFilesInterval
	queuePause time.Duration // deleteConsumeQueueFilesInterval
	forced     bool          // cleanFileForciblyEnable
	usedPct    int           // diskMaxUsedSpaceRatio
}

// parseHours reads deleteWhen: hours 0 to 23, separated by semicolons.
func parseHours(text string) (hours [24]bool, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		hour, err := strconv.Atoi(part)
		if err != nil || hour < 0 || hour > 23 {
			return hours, fmt.Errorf("store: deleteWhen=%s: %q is no hour; expected are hours from 0 to 23 separated by semicolons, such as 04 or 02;14", text, part)
		}
		hours[hour] = true
	}
	return hours, nil
}

// cleaner deletes what is too old, and on a nearly full disk the oldest, on a goroutine of its own.
//
// A file of the log goes in three steps, so that nobody meets it half gone: it leaves the file table, its name is removed, and
// when no mapping of it is left its blocks are given back a piece at a time (deletelog.go). Then the queues, and whoever
// else subscribed, are trimmed to the new begin of the log (trimqueues.go).
type cleaner struct {
	s    *Store
	wake chan struct{} // capacity 1

	manual atomic.Int32 // passes that an administrator asked for and that are left
	hurry  atomic.Bool  // the next wake-up is for a pass, not only for unmapped files
	began  atomic.Bool  // the first pass was made: from now on a disk that fills up brings the next one forward

	intervals int // that are over; only the goroutine of run

	// pending is how many bytes of deleted files have their blocks still.
	pending atomic.Int64
	counts  retentionCounts
	// onTrim is told of a new begin of the log, see Store.OnTrim.
	onTrim atomic.Pointer[func(message.PhyOffset, []Trim)]
	// lowWater tells up to where every record is in its queue, see Store.DispatchedTo; nil: all are.
	lowWater atomic.Pointer[func() message.PhyOffset]

	passMu     sync.Mutex // one pass at a time; guards the rest
	doomed     []doomedFile
	trimmed    message.PhyOffset // what the queues were trimmed to last
	leftovers  bool              // files below the queues' minimum may be there from an earlier run
	removeFail bool              // the last removal failed and was reported
	queuesFail bool              // likewise that the queues cannot be made durable
}

// retentionCounts are read by Store.Retention.
type retentionCounts struct {
	passes, files, forced, bytes, queueFiles atomic.Int64
}

func newCleaner(s *Store) *cleaner {
	return &cleaner{s: s, wake: make(chan struct{}, 1), trimmed: s.log.MinPhy(), leftovers: true}
}

// set is how files are deleted, as configured now.
func (c *cleaner) set() *retention { return &c.s.set.now().retention }

func (c *cleaner) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// bringForward asks for a pass now.
func (c *cleaner) bringForward() {
	c.hurry.Store(true)
	c.poke()
}

// run is the cleaner's goroutine.
func (c *cleaner) run() {
	defer c.s.running.Done()
	timer := time.NewTimer(c.set().every)
	defer timer.Stop()
	for {
		select {
		case <-c.s.quit:
			c.letGo()
			return
		case <-c.wake:
			if c.hurry.Swap(false) {
				c.pass()
			} else {
				c.giveBack()
			}
		case <-timer.C:
			c.intervalOver()
			timer.Reset(c.set().every)
		}
	}
}

// intervalOver makes a pass. The first one comes late: a broker that has just started has better things to do, and its operator a minute
// to stop it. But sends that are refused because the disk is full wait for one interval at most.
func (c *cleaner) intervalOver() {
	if c.intervals++; c.intervals >= firstPassIntervals || errors.Is(c.s.Refusal(), ErrDiskFull) {
		c.began.Store(true)
	}
	if c.began.Load() {
		c.pass()
	}
}

// pass is one look at files and disk (CleanCommitLogService.run).
func (c *cleaner) pass() {
	c.passMu.Lock()
	defer c.passMu.Unlock()
	c.counts.passes.Add(1)
	c.releaseUnmapped()
	now := time.UnixMilli(int64(c.s.log.now()))
	due := c.set().hours[now.Hour()]
	if c.manual.Load() > 0 {
		c.manual.Add(-1)
		due = true
	}
	disk := c.disk()
	if due || !disk.known || disk.pct > c.set().usedPct || disk.pct > c.s.set.now().forcePct {
		c.deleteExpired(now)
	}
	c.trim()
}

// deleteExpired deletes up to batch files, oldest first: those last changed longer than keep ago, and younger ones as long
// as the disk is above diskSpaceCleanForciblyRatio. The newest file that holds records stays, whatever its age.
//
// The original looks at the disk once and then deletes a whole batch of young files; here every young one needs the reason
// anew, so that no more is thrown away than the disk asks for. And here no file goes before the queue entries of all its records are
// durable: a crash would leave queues without them, which would give their offsets out once more.
func (c *cleaner) deleteExpired(now time.Time) {
	l := c.s.log
	deleted, forced := 0, 0
	entries := message.PhyOffset(-1) // durable up to here; -1: not asked yet
	for deleted < c.set().batch {
		f := l.oldestDeletable()
		if f == nil {
			break
		}
		info, err := l.fsys.Stat(f.path)
		gone := errors.Is(err, fs.ErrNotExist) // by hand: the table must follow
		if err != nil && !gone {
			l.logger.Warn("a commitlog file cannot be looked at; nothing is deleted", "file", f.path, "error", err)
			break
		}
		young := !gone && now.Sub(info.ModTime) < c.set().keep
		if young && !(c.set().forced && c.disk().pct > c.s.set.now().forcePct) {
			break
		}
		if entries < 0 {
			entries = c.durableEntries()
		}
		if f.end() > entries {
			break
		}
		if deleted > 0 && !c.pause(c.set().filePause) {
			break
		}
		if !c.deleteLogFile(f, gone) {
			break
		}
		deleted++
		if young {
			forced++
		}
	}
	if deleted == 0 {
		return
	}
	c.counts.forced.Add(int64(forced))
	line, disk := l.logger.Info, c.disk()
	if forced > 0 {
		line = l.logger.Warn
	}
	line("commitlog files deleted", "files", deleted, "youngerThanFileReservedTime", forced, "logBegin", int64(l.MinPhy()),
		"usedPercent", disk.pct, "path", disk.path)
}

// durableEntries makes the queues durable and returns up to where every record has its entry there. 0 when that is not possible.
func (c *cleaner) durableEntries() message.PhyOffset {
	upTo := c.s.Confirmed()
	if low := c.lowWater.Load(); low != nil {
		upTo = (*low)()
	}
	err := c.s.FlushQueues(0)
	if err == nil && c.s.queueSyncFailed.Load() {
		err = ErrSyncFailed // earlier: what it left behind no later sync writes
	}
	if err == nil {
		return upTo
	}
	if !c.queuesFail {
		c.queuesFail = true
		c.s.logger.Error("queues cannot be made durable; until the next start no file is deleted", "error", err)
	}
	return 0
}

// DispatchedTo sets who tells up to where every record is in its queue. Retention goes no further. The store calls it on the cleaner's
// goroutine.
func (s *Store) DispatchedTo(lowWater func() message.PhyOffset) { s.cleaner.lowWater.Store(&lowWater) }

// pause waits; false: the store is being closed.
func (c *cleaner) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.s.quit:
		return false
	case <-timer.C:
		return true
	}
}

// disk is the use of the fuller one of the partitions, as it will be when the blocks of deleted files are given back.
func (c *cleaner) disk() diskUse {
	worst, _ := c.s.measureDisk(c.pending.Load())
	return worst
}

// RetentionStats is what retention did since the start, for metrics.
type RetentionStats struct {
	Passes       int64
	Files        int64 // log files deleted
	Forced       int64 // of these, younger than fileReservedTime
	Bytes        int64 // of these files, given back to the disk
	PendingBytes int64 // of these files, not given back yet: somebody may still read them
	QueueFiles   int64
	UsedPercent  int // of the fuller partition at the last look, -1 when it does not tell
}

// Retention may be called by any goroutine.
func (s *Store) Retention() RetentionStats {
	n := &s.cleaner.counts
	return RetentionStats{Passes: n.passes.Load(), Files: n.files.Load(), Forced: n.forced.Load(), Bytes: n.bytes.Load(),
		PendingBytes: s.cleaner.pending.Load(), QueueFiles: n.queueFiles.Load(), UsedPercent: int(s.usedPct.Load())}
}

// DeleteExpiredLog is what an administrator asks for with code 329: the next passes, the first one now, look for expired
// files whatever the hour.
func (s *Store) DeleteExpiredLog() {
	s.cleaner.manual.Store(manualPasses)
	s.cleaner.bringForward()
}
