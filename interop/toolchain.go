package interop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// apacheVersion is the original that peregrine is compared with.
const apacheVersion = "5.5.0"

// prepareMax bounds one step of preparation; the first one of a fresh machine downloads some hundred jars.
const prepareMax = 10 * time.Minute

// Toolchain prepares the client programs, each at most once in a process. Root is the folder of this package.
type Toolchain struct {
	Root string
	// Download allows the package managers to use the network. Without it only what is on the machine already counts, so that a
	// plain test run never downloads anything.
	Download bool

	mu    sync.Mutex
	ready map[string]preparation
}

type preparation struct {
	value string
	err   error
}

// once serialises and remembers. Maven runs must not overlap anyway: they share a target folder.
func (c *Toolchain) once(key string, prepare func() (string, error)) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done, seen := c.ready[key]; seen {
		return done.value, done.err
	}
	value, err := prepare()
	if c.ready == nil {
		c.ready = map[string]preparation{}
	}
	c.ready[key] = preparation{value, err}
	return value, err
}

// ClientClassPath compiles the Java program against the client of that version and returns a class path that also holds mqadmin.
func (c *Toolchain) ClientClassPath(version string) (string, error) {
	return c.once("client "+version, func() (string, error) {
		dir := filepath.Join(c.Root, "java", "target", version)
		dependencies, err := c.maven(filepath.Join(dir, "classpath.txt"), "compile", "-Drocketmq.version="+version)
		if err != nil {
			return "", err
		}
		return filepath.Join(dir, "classes") + string(os.PathListSeparator) + dependencies, nil
	})
}

// ServerClassPath is the class path of the original's broker and name server.
func (c *Toolchain) ServerClassPath(version string) (string, error) {
	return c.once("server "+version, func() (string, error) {
		file := filepath.Join(c.Root, "java", "target", version+"-server", "classpath.txt")
		return c.maven(file, "", "-Drocketmq.version="+version, "-Dserver", "-Dclasspath.file="+file)
	})
}

// ExampleClassPath is the class path of the original's benchmark programs and their client.
func (c *Toolchain) ExampleClassPath(version string) (string, error) {
	return c.once("example "+version, func() (string, error) {
		file := filepath.Join(c.Root, "java", "target", version+"-example", "classpath.txt")
		return c.maven(file, "", "-Drocketmq.version="+version, "-Dexample", "-Dclasspath.file="+file)
	})
}

// maven leaves a class path in classPathFile and returns it. It runs only when sources or pom changed since, or a jar is gone.
func (c *Toolchain) maven(classPathFile, phase string, options ...string) (string, error) {
	if err := haveAll("java", "mvn"); err != nil {
		return "", err
	}
	stamp, err := digestTree(filepath.Join(c.Root, "java"), "target")
	if err != nil {
		return "", err
	}
	stampFile := classPathFile + ".stamp"
	if old, err := os.ReadFile(stampFile); err == nil && string(old) == stamp {
		if classPath, err := readClassPath(classPathFile); err == nil {
			return classPath, nil
		}
	}
	arguments := append([]string{"-q", "-B", "-f", filepath.Join(c.Root, "java", "pom.xml")}, options...)
	if phase != "" {
		arguments = append(arguments, phase)
	}
	arguments = append(arguments, "dependency:build-classpath")
	// Offline first: fast, and enough on any machine that did it before.
	err = run(c.Root, "mvn", append([]string{"-o"}, arguments...)...)
	if err != nil && c.Download {
		err = run(c.Root, "mvn", arguments...)
	}
	if err != nil {
		return "", c.unprepared("the jars", err)
	}
	classPath, err := readClassPath(classPathFile)
	if err != nil {
		return "", err
	}
	return classPath, os.WriteFile(stampFile, []byte(stamp), 0o644)
}

func readClassPath(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	classPath := strings.TrimSpace(string(text))
	for _, jar := range filepath.SplitList(classPath) {
		if _, err := os.Stat(jar); err != nil {
			return "", err
		}
	}
	return classPath, nil
}

// GoClient builds the program that uses the Go client and returns its path below dir.
func (c *Toolchain) GoClient(dir string) (string, error) {
	return c.once("go", func() (string, error) {
		binary := filepath.Join(dir, "go-client-scenarios")
		cmd := exec.Command("go", "build", "-o", binary, ".")
		cmd.Dir = filepath.Join(c.Root, "go")
		cmd.Env = cleanEnvironment("GOWORK=off")
		if !c.Download {
			cmd.Env = append(cmd.Env, "GOPROXY=off")
		}
		if err := runCommand(cmd); err != nil {
			return "", c.unprepared("the modules of the Go client", err)
		}
		return binary, nil
	})
}

// NodeProgram installs the Node client if it is not there in the locked version, and returns the script.
func (c *Toolchain) NodeProgram() (string, error) {
	return c.once("node", func() (string, error) {
		if err := haveAll("node", "npm"); err != nil {
			return "", err
		}
		dir := filepath.Join(c.Root, "node")
		script := filepath.Join(dir, "scenarios.js")
		lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(lock)
		stamp, stampFile := hex.EncodeToString(sum[:]), filepath.Join(dir, "node_modules", ".peregrine-lock")
		if old, err := os.ReadFile(stampFile); err == nil && string(old) == stamp {
			return script, nil
		}
		arguments := []string{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}
		err = run(dir, "npm", append(arguments, "--offline")...)
		if err != nil && c.Download {
			err = run(dir, "npm", arguments...)
		}
		if err != nil {
			return "", c.unprepared("the npm packages", err)
		}
		return script, os.WriteFile(stampFile, []byte(stamp), 0o644)
	})
}

// PythonProgram makes an environment with the Python client if there is none with the locked version, and returns the script.
func (c *Toolchain) PythonProgram() (string, error) {
	return c.once("python", func() (string, error) {
		if err := haveAll("python3"); err != nil {
			return "", err
		}
		dir := filepath.Join(c.Root, "python")
		script, python, lockFile := filepath.Join(dir, "scenarios.py"), venvPython(dir), filepath.Join(dir, "requirements.txt")
		lock, err := os.ReadFile(lockFile)
		if err != nil {
			return "", err
		}
		// The environment points at the machine's Python and C++ libraries, which may have changed since.
		loads := func() error { return run(dir, python, "-c", "import rocketmq.client") }
		sum := sha256.Sum256(lock)
		stamp, stampFile := hex.EncodeToString(sum[:]), filepath.Join(dir, "venv", ".peregrine-lock")
		if old, err := os.ReadFile(stampFile); err == nil && string(old) == stamp && loads() == nil {
			return script, nil
		}
		err = errors.New("not installed") // there is no cache to install from
		if c.Download {
			err = run(dir, "python3", "-m", "venv", "--clear", "venv")
			if err == nil {
				err = run(dir, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", lockFile)
			}
			if err == nil {
				err = loads()
			}
		}
		if err != nil {
			return "", c.unprepared("the Python packages", err)
		}
		return script, os.WriteFile(stampFile, []byte(stamp), 0o644)
	})
}

func venvPython(dir string) string { return filepath.Join(dir, "venv", "bin", "python") }

// PeregrineBinary is PEREGRINE_BIN (a relative one counts from the top of the repository), or a fresh build below dir.
func (c *Toolchain) PeregrineBinary(dir string) (string, error) {
	return c.once("peregrine", func() (string, error) {
		if given := os.Getenv("PEREGRINE_BIN"); given != "" {
			if !filepath.IsAbs(given) {
				given = filepath.Join(filepath.Dir(c.Root), given)
			}
			_, err := os.Stat(given)
			return given, err
		}
		binary := filepath.Join(dir, "peregrine")
		cmd := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
		cmd.Dir = filepath.Dir(c.Root)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		return binary, runCommand(cmd)
	})
}

// unprepared says in one line why a client cannot run, and what a person can do about it.
func (c *Toolchain) unprepared(what string, err error) error {
	if !c.Download {
		return fmt.Errorf("%s are not on this machine; PEREGRINE_INTEROP=required downloads them", what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func haveAll(programs ...string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("no %s on the PATH", program)
		}
	}
	return nil
}

func run(dir, program string, arguments ...string) error {
	cmd := exec.Command(program, arguments...)
	cmd.Dir = dir
	return runCommand(cmd)
}

// runCommand runs a preparation step; its error is one line, whatever the program wrote.
func runCommand(cmd *exec.Cmd) error {
	ctx, cancel := context.WithTimeout(context.Background(), prepareMax)
	defer cancel()
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	bounded.Dir, bounded.Env, bounded.WaitDelay = cmd.Dir, cmd.Env, killGrace
	if cmd.Err != nil {
		return cmd.Err
	}
	out, err := bounded.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, firstProblem(string(out)))
}

// colours of Maven's output, which it writes even where nobody sees them.
var colours = strings.NewReplacer("\x1b[0m", "", "\x1b[m", "", "\x1b[1m", "", "\x1b[1;31m", "")

// firstProblem picks the line of a build's output that a person would read first.
func firstProblem(out string) string {
	var first string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(colours.Replace(line))
		if line == "" {
			continue
		}
		if first == "" {
			first = line
		}
		if strings.Contains(strings.ToLower(line), "error") {
			return line
		}
	}
	return first
}

// digestTree is a hash over names and contents of all files below dir, without the named sub-folder.
func digestTree(dir, without string) (string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == without {
				return filepath.SkipDir
			}
			return nil
		}
		files = append(files, path)
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", errors.New("nothing in " + filepath.Base(dir))
	}
	sort.Strings(files)
	sum := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
