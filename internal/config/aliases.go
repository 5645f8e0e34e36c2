package config

// alias is another spelling of a key.
type alias struct{ from, to, note string }

// aliases lists old and hoped-for spellings. Where a file has both, the proper key wins.
var aliases = [...]alias{
	{"mapedFileSizeCommitLog", "mappedFileSizeCommitLog", "old spelling, the original 5.x ignores it"},
	{"mapedFileSizeConsumeQueue", "mappedFileSizeConsumeQueue", "old spelling, the original 5.x ignores it"},
	{"mapedFileSizeConsumeQueueExt", "mappedFileSizeConsumeQueueExt", "old spelling, the original 5.x ignores it"},
	{"destroyMappedFileIntervalForcibly", "destroyMapedFileIntervalForcibly", "the original spells it with one p"},
	{"tls.server.mode", "tlsServerMode", "in the original a property of the JVM"},
	{"reputMessageServiceThreadNum", "peregrine.reputShards", "the original has no such key, though articles recommend it"},
}

// indexFlushKey is another key that articles recommend; there is nothing to set.
const (
	indexFlushKey  = "indexFile.forceFlushInterval"
	indexFlushHint = "the original has no such key, though articles recommend it: index files are flushed when they are full and at a clean stop. " +
		"To have the index complete after a crash set messageIndexSafe=true"
)

func properName(key string) (name, note string) {
	for _, a := range aliases {
		if a.from == key {
			return a.to, a.note
		}
	}
	return key, ""
}

// suggest returns the key that was meant by an unknown one, or "".
func suggest(unknown string, names []string) string {
	best, bestDistance := "", 3 // more than two letters apart is another word
	for _, name := range names {
		if d := editDistance(lower(unknown), lower(name), bestDistance); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// editDistance counts the insertions, deletions and replacements that make a into b, up to limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > keyNameMax {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// keyNameMax is longer than any key; longer unknown names are not compared with the known ones.
const keyNameMax = 80
