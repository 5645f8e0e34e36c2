package control

import (
	"fmt"
	"strconv"

	"peregrine/internal/message"
	"peregrine/wire"
)

// runtimeInfo is code 28. It tells what peregrine can measure; the original's latency histograms and thread pools have no
// counterpart here. A pool that does not exist has no request waiting in it: its size and waiting time are 0.
func (s *service) runtimeInfo(*Request) wire.Reply {
	now := s.Now()
	c := s.Rates.counters()
	yesterday, today := s.Rates.mornings()
	wrote := s.Store.Wrote()
	info := map[string]string{
		"brokerVersionDesc":               "V5_5_0",
		"brokerActive":                    "true",
		"bootTimestamp":                   number(int64(s.Boot)),
		"runtime":                         upTime(now - s.Boot),
		"startAcceptSendRequestTimeStamp": number(s.Config.Get().StartAcceptSendRequestTimeStamp),

		"putMessageTimesTotal":  number(int64(c.Puts)),
		"putMessageSizeTotal":   number(int64(c.PutBytes)),
		"putMessageFailedTimes": number(int64(c.PutsRefused)),
		"putMessageAverageSize": decimal(float64(c.PutBytes) / max(float64(c.Puts), 1)),
		"putTps":                s.Rates.triple(now, &c, func(c *Counters) uint64 { return c.Puts }),
		"getFoundTps":           s.Rates.triple(now, &c, func(c *Counters) uint64 { return c.GetsFound }),
		"getMissTps":            s.Rates.triple(now, &c, func(c *Counters) uint64 { return c.GetsMissed }),
		"getTotalTps":           s.Rates.triple(now, &c, func(c *Counters) uint64 { return c.GetsFound + c.GetsMissed }),
		"getTransferredTps":     s.Rates.triple(now, &c, func(c *Counters) uint64 { return c.Gets }),

		"msgPutTotalYesterdayMorning": number(int64(yesterday.UserPuts)),
		"msgPutTotalTodayMorning":     number(int64(today.UserPuts)),
		"msgPutTotalTodayNow":         number(int64(c.UserPuts)),
		"msgGetTotalYesterdayMorning": number(int64(yesterday.UserGets)),
		"msgGetTotalTodayMorning":     number(int64(today.UserGets)),
		"msgGetTotalTodayNow":         number(int64(c.UserGets)),

		"commitLogMinOffset":       number(int64(s.Store.MinPhy())),
		"commitLogMaxOffset":       number(int64(wrote)),
		"dispatchBehindBytes":      number(max(int64(s.Store.Confirmed()-s.Dispatched()), 0)),
		"remainHowManyDataToFlush": byteText(float64(max(int64(wrote-s.Store.Flushed()), 0))),
		"earliestMessageTimeStamp": number(int64(s.earliestMessage())),
		"dispatchMaxBuffer":        "0",
		"pageCacheLockTimeMills":   "0",

		"remainTransientStoreBufferNumbs": "2147483647", // the value for "no pool"
		"timerReadBehind":                 "0",
		"timerOffsetBehind":               "0",
		"timerCongestNum":                 "0",
		"timerEnqueueTps":                 "0.0",
		"timerDequeueTps":                 "0.0",
		"EndTransactionQueueSize":         "0",
	}
	for _, pool := range []string{"send", "pull", "litePull", "query", "ack"} {
		info[pool+"ThreadPoolQueueSize"] = "0"
		info[pool+"ThreadPoolQueueHeadWaitTimeMills"] = "0"
	}
	for _, l := range s.Delays.Stats().Levels {
		if l.Next > 0 || l.Max > 0 {
			info["scheduleMessageOffset_"+number(int64(l.Level))] = number(int64(l.Next)) + "," + number(int64(l.Max))
		}
	}
	s.addDiskInfo(info)
	return success(nil, wire.EncodeBody(wire.KVTable{Table: info}))
}

func (s *service) addDiskInfo(info map[string]string) {
	dir := s.Config.Get().CommitLogDir()
	if u, err := s.FS.DiskUsage(dir); err == nil {
		ratio := decimal(float64(u.UsedPercent()) / 100)
		info["commitLogDiskRatio"] = ratio
		info["commitLogDiskRatio_"+dir] = ratio
		info["commitLogDirCapacity"] = "Total : " + byteText(float64(u.Total)) + ", Free : " + byteText(float64(u.Total-u.Used)) + "." // of the device, as getFreeSpace
	}
	if u, err := s.FS.DiskUsage(s.Config.Get().StorePathRootDir); err == nil {
		info["consumeQueueDiskRatio"] = decimal(float64(u.UsedPercent()) / 100)
	}
}

// earliestMessage is the store time of the first record of the log, −1 without one.
func (s *service) earliestMessage() message.Millis {
	first := s.Store.MinPhy()
	if first >= s.Store.Wrote() {
		return -1
	}
	var prefix [message.StoreTimePrefixBytes]byte
	n, err := s.Store.ReadAt(prefix[:], first)
	if err != nil && n == 0 {
		return -1
	}
	if stored, ok := message.StoreTimeOf(prefix[:n]); ok {
		return stored
	}
	return -1
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// decimal writes a float as Java does, with a point.
func decimal(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if f == float64(int64(f)) {
		text += ".0"
	}
	return text
}

func upTime(ms message.Millis) string {
	seconds := int64(max(ms, 0)) / 1000
	return fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", seconds/86400, seconds/3600%24, seconds/60%60, seconds%60)
}

// byteText is UtilAll's human-readable size: `512 B`, `1.8 KiB`.
func byteText(n float64) string {
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := -1
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}
