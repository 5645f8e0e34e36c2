package sysio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// twin does every operation on a real directory and on a FaultFS and compares what they say.
type twin struct {
	dir   string // of the real files
	fault *FaultFS
}

// sameErr compares the kinds of errors, not their texts.
func sameErr(a, b error) bool {
	if a == nil || b == nil || a == io.EOF || b == io.EOF {
		return a == b
	}
	var x, y syscall.Errno
	return !errors.As(a, &x) || !errors.As(b, &y) || x == y
}

func (w *twin) both(t *rapid.T, what string, do func(fsys FS, path func(string) string) (string, error)) {
	real, rerr := do(OS{}, func(name string) string { return filepath.Join(w.dir, name) })
	fault, ferr := do(w.fault, func(name string) string { return "/" + name })
	if real != fault || !sameErr(rerr, ferr) {
		t.Fatalf("%s: the machine says %q, %v; FaultFS says %q, %v", what, real, rerr, fault, ferr)
	}
}

// The simulated file system answers as the real one does, whatever is done to a few files in two directories.
func TestFaultFSBehavesLikeTheMachine(t *testing.T) {
	root := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		w := &twin{dir: filepath.Join(root, fmt.Sprint(run)), fault: NewFaultFS()}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.Mkdir(w.dir, 0o755))
		name := rapid.SampledFrom([]string{"a", "b", "d/a", "d/b", "d", "missing/x"})
		offset := rapid.Int64Range(0, 3*PageSize)
		t.Repeat(map[string]func(*rapid.T){
			"mkdir": func(t *rapid.T) {
				n := name.Draw(t, "name")
				w.both(t, "mkdir", func(fsys FS, path func(string) string) (string, error) { return "", fsys.MkdirAll(path(n), 0o755) })
			},
			"write": func(t *rapid.T) {
				n, off, data := name.Draw(t, "name"), offset.Draw(t, "off"), rapid.SliceOfN(rapid.Byte(), 0, 2*PageSize).Draw(t, "data")
				flags := os.O_RDWR | rapid.SampledFrom([]int{0, os.O_CREATE, os.O_CREATE | os.O_EXCL, os.O_TRUNC}).Draw(t, "flags")
				w.both(t, "write", func(fsys FS, path func(string) string) (string, error) {
					f, err := fsys.OpenFile(path(n), flags, 0o644)
					if err != nil {
						return "", err
					}
					defer f.Close()
					wrote, err := f.Pwritev([][]byte{data[:len(data)/2], data[len(data)/2:]}, off)
					return fmt.Sprint(wrote), err
				})
			},
			"resize": func(t *rapid.T) {
				n, size, allocate := name.Draw(t, "name"), offset.Draw(t, "size"), rapid.Bool().Draw(t, "allocate")
				w.both(t, "resize", func(fsys FS, path func(string) string) (string, error) {
					f, err := fsys.OpenFile(path(n), os.O_RDWR, 0)
					if err != nil {
						return "", err
					}
					defer f.Close()
					if allocate {
						return "", f.Allocate(size/2, size/2+1)
					}
					return "", f.Truncate(size)
				})
			},
			"map": func(t *rapid.T) {
				n, off, b := name.Draw(t, "name"), offset.Draw(t, "off"), rapid.Byte().Draw(t, "byte")
				w.both(t, "map", func(fsys FS, path func(string) string) (string, error) {
					f, err := fsys.OpenFile(path(n), os.O_RDWR, 0)
					if err != nil {
						return "", err
					}
					defer f.Close()
					size, err := f.Size()
					if err != nil || size <= off {
						return fmt.Sprint(size), err
					}
					must(f.Allocate(0, size))
					m, err := f.Map(size)
					if err != nil {
						return "", err
					}
					defer m.Unmap()
					before := m.Bytes()[off]
					m.Bytes()[off] = b
					return fmt.Sprint(before), m.SyncRange(off, 1)
				})
			},
			"rename": func(t *rapid.T) {
				from, to := name.Draw(t, "from"), name.Draw(t, "to")
				if filepath.Dir(from) != filepath.Dir(to) || from == "d" || to == "d" {
					return // not modelled
				}
				w.both(t, "rename", func(fsys FS, path func(string) string) (string, error) { return "", fsys.Rename(path(from), path(to)) })
			},
			"link": func(t *rapid.T) {
				from, to := name.Draw(t, "from"), name.Draw(t, "to")
				w.both(t, "link", func(fsys FS, path func(string) string) (string, error) { return "", fsys.Link(path(from), path(to)) })
			},
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "name")
				w.both(t, "remove", func(fsys FS, path func(string) string) (string, error) { return "", fsys.Remove(path(n)) })
			},
			"": func(t *rapid.T) {
				for _, dir := range []string{"", "d"} {
					w.both(t, "list", func(fsys FS, path func(string) string) (string, error) {
						var text bytes.Buffer
						infos, err := fsys.ReadDir(path(dir))
						for _, i := range infos {
							fmt.Fprintln(&text, i.Name, i.Size, i.Dir)
							if !i.Dir {
								data, err := ReadFile(fsys, path(filepath.Join(dir, i.Name)))
								must(err)
								text.Write(data)
							}
						}
						return text.String(), err
					})
				}
			},
		})
		if files, mappings := w.fault.Open(); files+mappings > 0 {
			t.Fatalf("%d files and %d mappings left", files, mappings)
		}
		must(os.RemoveAll(w.dir))
	})
}
