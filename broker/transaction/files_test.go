package transaction

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// sysioRead reads a file of the bench's file system.
func sysioRead(b *bench, path string) ([]byte, error) {
	f, err := b.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	must(b.t, err)
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
		b.t.Fatal(err)
	}
	return data, nil
}

// sysioWrite puts back what sysioRead gave.
func sysioWrite(b *bench, path string, data []byte, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		must(b.t, b.fs.Remove(path))
		if err := b.fs.Remove(path + ".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Fatal(err)
		}
		return
	}
	must(b.t, err)
	f, err := b.fs.OpenFile(path, os.O_RDWR|os.O_TRUNC, 0o644)
	must(b.t, err)
	defer f.Close()
	_, err = f.WriteAt(data, 0)
	must(b.t, err)
}
