package store

import (
	"fmt"
	"path/filepath"
	"strings"

	"peregrine/internal/sysio"
)

// inspectForeignKinds refuses directories whose messages or tables live in a form that this program does not read, and names what
// it leaves alone. Folders that hold no data are made by every start of the original and mean nothing.
func (lay *layout) inspectForeignKinds(fsys sysio.FS, set settings, entries []sysio.Info) error {
	for _, e := range entries {
		if !e.Dir {
			continue
		}
		path := filepath.Join(set.root, e.Name)
		holds, refused, why := isAnyFile, true, ""
		switch {
		case strings.HasPrefix(e.Name, "dledger-"):
			why = "this is a DLedger log (enableDLegerCommitLog), which peregrine does not read; start it with the original broker"
		case e.Name == "consumequeue_rocksdb":
			why = "these are RocksDB consume queues (storeType=defaultRocksDB), which peregrine does not read; move back to storeType=default with the original broker"
		case e.Name == "batchconsumequeue":
			why = "these are batch consume queues (topic attribute queue.type=BatchCQ), which peregrine does not read yet"
		case e.Name == "tieredstore":
			why = whyTiered
		case e.Name == "rocksdbstore":
			holds, refused = isRocksData, false
			why = "an index, timers or transactions in RocksDB (indexRocksDBEnable, timerRocksDBEnable, transRocksDBEnable) are not read: keys are indexed " +
				"anew from the log, such timers and open transactions stay where they are"
		case e.Name == "kvStore":
			holds, refused = isRocksData, false
			why = "records of POP consumption are not read: what POP consumers have not acknowledged stays where it is"
		default:
			continue
		}
		found, err := holdsFile(fsys, path, holds)
		switch {
		case err != nil:
			return fmt.Errorf("store: %w", err)
		case found != "" && refused:
			return refuse(path, "%s (first file: %s)", why, found)
		case found != "":
			lay.warn("%s: %s", path, why)
		}
	}
	return refuseForeignTables(fsys, filepath.Join(set.root, configDirName))
}

const whyTiered = "these are messages of the tiered store (messageStorePlugIn), which peregrine does not read: what only they hold would be missing; " +
	"move them back or let them expire with the original broker"

// configDirName is where the broker keeps its tables.
const configDirName = "config"

// refuseForeignTables looks into the config folder: folders in the place of the broker's tables, topics, groups and offsets in RocksDB, beside which JSON files are missing or old,
// and the table of a tiered store, whose files may lie anywhere.
func refuseForeignTables(fsys sysio.FS, dir string) error {
	entries, err := readDirIfThere(fsys, dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		if !e.Dir {
			if e.Name == "tieredStoreMetadata.json" && e.Size > 0 {
				return refuse(path, "%s, then move this file away", whyTiered)
			}
			continue
		}
		if strings.HasSuffix(strings.TrimSuffix(e.Name, ".bak"), ".json") {
			return refuse(path, "this is a folder, expected is a file: move it away, and bring the file back: without it and its .bak the broker starts with an empty table")
		}
		found, err := holdsFile(fsys, path, isRocksData)
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if found != "" {
			return refuse(path, "topics, groups or offsets are in RocksDB here (storeType=defaultRocksDB or configManagerVersion=v2), which peregrine does not read, "+
				"and JSON files beside them are old (first file: %s); write them out with mqadmin rocksDBConfigToJson, then move this folder away", found)
		}
	}
	return nil
}

func isAnyFile(string) bool { return true }

// isRocksData tells the files of RocksDB that have entries in them, tables and write-ahead logs, when they are not empty.
func isRocksData(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log")
}

// holdsFile returns the first file of some length below dir that counts, "" if there is none.
func holdsFile(fsys sysio.FS, dir string, counts func(name string) bool) (string, error) {
	entries, err := readDirIfThere(fsys, dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		if !e.Dir {
			if e.Size > 0 && counts(e.Name) {
				return path, nil
			}
			continue
		}
		if found, err := holdsFile(fsys, path, counts); err != nil || found != "" {
			return found, err
		}
	}
	return "", nil
}
