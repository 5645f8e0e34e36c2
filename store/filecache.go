package store

import (
	"container/list"
	"sync"

	"peregrine/internal/sysio"
)

// fileCache keeps up to max files open that are used now and then: ConsumeQueue files and CommitLog files that are no longer
// mapped. The one unused for longest is closed when another is opened. Files in use are never closed, so that the bound can
// be passed by as many as there are goroutines inside.
type fileCache struct {
	max int

	mu    sync.Mutex // guards all below; leaf
	files map[fileKey]*openFile
	order list.List // of *openFile, most recently used first
}

// fileKey names a file: the queue it belongs to (nil: CommitLog) and its start offset, in consumequeue_ext or not.
type fileKey struct {
	queue *Queue
	start int64
	ext   bool
}

// openFile is a file in use, from acquire or insert to release.
type openFile struct {
	key   fileKey
	file  sysio.File
	users int
	gone  bool // evicted or dropped: the last user closes it
	at    *list.Element

	whole bool // it has its full length: under Queue.writeMu, for openToWrite alone
}

func newFileCache(limit int) *fileCache {
	return &fileCache{max: limit, files: make(map[fileKey]*openFile)}
}

// acquire returns the open file, or nil when it is not open: the caller opens it and calls insert.
func (c *fileCache) acquire(key fileKey) *openFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.files[key]
	if o != nil {
		o.users++
		c.order.MoveToFront(o.at)
	}
	return o
}

// insert hands an open file over and acquires it. When another goroutine was faster, its file is returned and this one
// closed.
func (c *fileCache) insert(key fileKey, file sysio.File) *openFile {
	c.mu.Lock()
	if o := c.files[key]; o != nil {
		o.users++
		c.mu.Unlock()
		_ = file.Close()
		return o
	}
	o := &openFile{key: key, file: file, users: 1}
	o.at = c.order.PushFront(o)
	c.files[key] = o
	var closing []*openFile
	for e := c.order.Back(); e != nil && len(c.files) > c.max; {
		prev := e.Prev()
		if old := e.Value.(*openFile); old.users == 0 {
			c.remove(old)
			closing = append(closing, old)
		}
		e = prev
	}
	c.mu.Unlock()
	for _, old := range closing {
		_ = old.file.Close()
	}
	return o
}

// remove takes o out of the tables. The caller holds mu.
func (c *fileCache) remove(o *openFile) {
	delete(c.files, o.key)
	c.order.Remove(o.at)
	o.gone = true
}

func (c *fileCache) release(o *openFile) {
	if c.leave(o) {
		_ = o.file.Close()
	}
}

// releaseAside is release for a loop: the last close of a deleted file gives its blocks back, which can take milliseconds.
func (c *fileCache) releaseAside(o *openFile) {
	if c.leave(o) {
		go o.file.Close()
	}
}

// leave ends a use and tells whether the caller has to close the file.
func (c *fileCache) leave(o *openFile) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.users--
	return o.gone && o.users == 0
}

// drop forgets a file that is deleted or replaced: the next user opens it anew.
func (c *fileCache) drop(key fileKey) {
	c.mu.Lock()
	o := c.files[key]
	unused := false
	if o != nil {
		c.remove(o)
		unused = o.users == 0
	}
	c.mu.Unlock()
	if unused {
		_ = o.file.Close()
	}
}

// closeAll closes every file that nobody uses; the others are closed by their users.
func (c *fileCache) closeAll() {
	c.mu.Lock()
	var closing []*openFile
	for _, o := range c.files {
		c.remove(o)
		if o.users == 0 {
			closing = append(closing, o)
		}
	}
	c.mu.Unlock()
	for _, o := range closing {
		_ = o.file.Close()
	}
}
