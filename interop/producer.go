package interop

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	producerClass = "org.apache.rocketmq.example.benchmark.Producer"
	producerHeap  = "1g" // as in the release's benchmark/runclass.sh
	// ProducerRunMin is the shortest run: the Producer prints nothing before it has ten looks, one a second, at its counters.
	ProducerRunMin   = 11 * time.Second
	producerStartMax = 30 * time.Second
)

// ProducerFigures is what the benchmark Producer of the original's release prints. The rate and the average are of the last ten
// seconds before the line, the longest time and the failures of the whole run.
type ProducerFigures struct {
	Rate      float64 // acknowledged sends a second
	AverageMs float64
	MaxMs     float64
	Failed    int // sends that got no answer or a bad one
}

// RunProducer lets the unmodified Producer send for that long and returns what it printed at the end. classPath is that of
// ExampleClassPath; dir, which must exist, gets its logs. The Producer would go on for ever, so it is ended.
func RunProducer(ctx context.Context, classPath, dir, nameServer string, threads, sizeBytes int, duration time.Duration) (f ProducerFigures, err error) {
	lines := make(chan string, 1)
	log := filepath.Join(dir, "producer.log")
	p, err := StartProcess("benchmark Producer", log, command(dir, "java", "-Xms"+producerHeap, "-Xmx"+producerHeap, "-Duser.home="+dir, "-cp", classPath, producerClass,
		"-n", nameServer, "-w", strconv.Itoa(threads), "-s", strconv.Itoa(sizeBytes), "-ri", strconv.FormatInt(duration.Milliseconds(), 10)), func(line []byte) {
		if at := strings.Index(string(line), "Send TPS:"); at >= 0 {
			select {
			case lines <- string(line[at:]):
			default: // only the first counts
			}
		}
	})
	if err != nil {
		return f, err
	}
	select {
	case line := <-lines:
		refused := 0
		_, err = fmt.Sscanf(line, "Send TPS: %f | Max RT(ms): %f | Average RT(ms): %f | Send Failed: %d | Response Failed: %d", &f.Rate, &f.MaxMs, &f.AverageMs, &f.Failed, &refused)
		f.Failed += refused
		if err != nil {
			err = fmt.Errorf("the Producer printed %q: %w", line, err)
		}
	case <-p.Ended():
		err = fmt.Errorf("the Producer ended with code %d\n%s", p.ExitCode(), LogTail(log))
	case <-time.After(duration + producerStartMax):
		err = fmt.Errorf("the Producer printed no figures\n%s", LogTail(log))
	case <-ctx.Done():
		err = ctx.Err()
	}
	if stopped := p.Stop(syscall.SIGTERM, killGrace); err == nil {
		err = stopped
	}
	return f, err
}
