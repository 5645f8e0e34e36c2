package bench

import (
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"
)

// comparison is one load on two brokers in turn, the order changing from round to round.
type comparison struct {
	A      []*Report `json:"a"`
	B      []*Report `json:"b"`
	Ratios []Ratio   `json:"ratios"`
	Ended  string    `json:"ended,omitempty"` // why it ended early: an interrupt, a broker that is gone
}

// Ratio is one figure of b as a multiple of a's, round by round.
type Ratio struct {
	Name string `json:"name"`
	A    Spread `json:"a"`
	B    Spread `json:"b"`
	Of   Spread `json:"ratio"` // b : a, of the runs of one round
}

func compareMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	kind, rest := modeFirst(args)
	if kind == nil {
		fmt.Fprintf(stderr, "peregrine bench compare: %q is no load: expected send, pull, catchup, e2e, mixed or sync\n", args[0])
		return exitUsage
	}
	var with, rounds = "", 5
	var out outputs
	o, code, done := kind.parse(rest, stdout, stderr, "compare", "peregrine bench compare [send|pull|catchup|e2e|mixed|sync]: the same load on two brokers, in turn", func(fs *pflag.FlagSet) {
		fs.StringVar(&with, "with", "", "the other broker, host:port; ratios are its figures to those of --addr")
		fs.IntVar(&rounds, "rounds", rounds, "runs on each")
		out.flags(fs)
	})
	if done {
		return code
	}
	if with == "" || o.Namesrv != "" || o.HistogramFile != "" || rounds < 1 || rounds > roundsMax {
		fmt.Fprintf(stderr, "peregrine bench compare: expected --addr and --with, neither --namesrv nor --hdr, and 1 to %d --rounds\n", roundsMax)
		return exitUsage
	}
	c := &comparison{}
	if err := c.run(ctx, o, with, rounds, stderr); err != nil {
		fmt.Fprintln(stderr, "peregrine bench compare:", err)
		n := min(len(c.A), len(c.B))
		if n == 0 {
			return exitBad
		}
		c.A, c.B, c.Ended = c.A[:n], c.B[:n], err.Error() // the whole rounds are reported
	}
	c.fill()
	if err := out.write(stdout, c.write, c, c.page); err != nil {
		fmt.Fprintln(stderr, "peregrine bench compare:", err)
		return exitBad
	}
	if len(c.failures()) > 0 {
		return exitBad
	}
	return exitGood
}

func (c *comparison) run(ctx context.Context, o Options, with string, rounds int, notes io.Writer) error {
	for i := range rounds {
		for turn := range 2 {
			first := turn == i%2 // the one at --addr begins every other round
			load := o
			if !first {
				load.Addr = with
			}
			rep, err := Run(ctx, load, notes)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", load.Addr, err)
			}
			fmt.Fprintf(notes, "round %d of %d, %s: %s\n", i+1, rounds, load.Addr, rep.line())
			if first {
				c.A = append(c.A, rep)
			} else {
				c.B = append(c.B, rep)
			}
		}
	}
	return nil
}

func (c *comparison) fill() {
	a, b := spreads(c.A), spreads(c.B)
	for _, x := range a {
		for _, y := range b {
			if x.Name != y.Name {
				continue
			}
			ratios := make([]float64, len(x.Values))
			for i := range ratios {
				ratios[i] = y.Values[i] / x.Values[i]
			}
			c.Ratios = append(c.Ratios, Ratio{Name: x.Name, A: x, B: y, Of: spreadOf(x.Name, ratios, digits3)})
		}
	}
}

func (c *comparison) table() table.Writer {
	a, b := c.A[0].Conditions.Brokers[0].Addr, c.B[0].Conditions.Brokers[0].Addr
	t := newTable("medians of "+fmt.Sprint(len(c.A)), a, b, "ratio", "least", "most")
	for _, r := range c.Ratios {
		t.AppendRow(table.Row{r.Name, r.A.show(r.A.Median), r.B.show(r.B.Median), digits3(r.Of.Median), digits3(r.Of.Min), digits3(r.Of.Max)})
	}
	rightAlign(t, 2, 6)
	return t
}

func (c *comparison) failures() []string {
	var all []string
	if c.Ended != "" {
		all = append(all, fmt.Sprintf("ended early, after %d rounds: %s", len(c.A), c.Ended))
	}
	for _, side := range [][]*Report{c.A, c.B} {
		for _, s := range (&runs{Rounds: side}).failures() {
			all = append(all, side[0].Conditions.Brokers[0].Addr+", "+s)
		}
	}
	return all
}

func (c *comparison) write(w io.Writer, markdown bool) {
	c.A[0].writeConditions(w)
	for _, b := range c.B[0].Conditions.Brokers {
		fmt.Fprintf(w, "- with: %s\n", b)
	}
	fmt.Fprintf(w, "\n%s\n", render(c.table(), markdown))
	for _, s := range c.failures() {
		fmt.Fprintf(w, "- FAILED: %s\n", s)
	}
}

func (c *comparison) page() *page {
	p := newPage(c.A[0])
	p.Failures = c.failures()
	p.Facts = append(p.Facts, "- with: "+c.B[0].Conditions.Brokers[0].String())
	p.add(c.table())
	for i := range c.A {
		p.Lines = append(p.Lines, lineOf(fmt.Sprintf("%s, %d", c.A[i].Conditions.Brokers[0].Addr, i+1), c.A[i]), lineOf(fmt.Sprintf("%s, %d", c.B[i].Conditions.Brokers[0].Addr, i+1), c.B[i]))
	}
	return p
}
