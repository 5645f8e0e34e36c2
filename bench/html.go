package bench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

//go:embed uplot/uPlot.iife.min.js
var uplotScript string

//go:embed uplot/uPlot.min.css
var uplotStyle string

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is a report as one HTML file that needs nothing else.
type page struct {
	Title    string
	Facts    []string
	Tables   []template.HTML
	Warnings []string
	Failures []string
	Lines    []pageLine
	Points   []pagePoint // of a sweep
}

// pageLine is one run in the charts.
type pageLine struct {
	Label  string        `json:"label"`
	What   string        `json:"what"`  // of which times curve and series are
	Curve  []float64     `json:"curve"` // milliseconds at percentiles: see curveOf
	Series []SeriesPoint `json:"series"`
}

// pagePoint is one load of a sweep.
type pagePoint struct {
	Rate float64 `json:"rate"`
	P50  float64 `json:"p50"` // milliseconds
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

// lineOf is a run in the charts of a page.
func lineOf(label string, r *Report) pageLine {
	l, what := r.MainLatency()
	return pageLine{Label: label, What: what, Curve: l.Curve, Series: r.Series}
}

// MainLatency is the distribution that a run is about, and its name.
func (rep *Report) MainLatency() (*Latency, string) {
	if c := rep.Consume; c != nil {
		if c.Delivery != nil {
			return c.Delivery, "delivery"
		}
		return c.Pull, "pull"
	}
	if rep.Response != nil {
		return rep.Response, "response"
	}
	return rep.Service, "service"
}

// line is a run in one line.
func (rep *Report) line() string {
	l, what := rep.MainLatency()
	return fmt.Sprintf("%s messages/s, %s p50 %s, p99 %s", grouped(int64(max(rep.Rate, rep.received()))), what, short(l.P50Ns), short(l.P99Ns))
}

// newPage is a page with the conditions and warnings of a run, and no figures yet.
func newPage(rep *Report) *page {
	var facts strings.Builder
	rep.writeConditions(&facts)
	title, rest, _ := strings.Cut(strings.TrimSpace(facts.String()), "\n")
	return &page{Title: title, Facts: strings.Split(rest, "\n"), Warnings: rep.Warnings}
}

// pageOf is the page of one or several runs.
func pageOf(rs *runs) *page {
	first := rs.Rounds[0]
	p := newPage(first)
	if len(rs.Rounds) > 1 {
		p.Failures = rs.failures()
		p.add(rs.table())
	} else {
		p.Failures = first.Failures
		for _, t := range first.tables() {
			p.add(t)
		}
	}
	for i, r := range rs.Rounds {
		label := first.Conditions.Command
		if len(rs.Rounds) > 1 {
			label = "run " + grouped(int64(i+1))
		}
		p.Lines = append(p.Lines, lineOf(label, r))
	}
	return p
}

func (p *page) add(t table.Writer) {
	t.Style().HTML = table.DefaultHTMLOptions
	t.Style().HTML.CSSClass = "figures"
	p.Tables = append(p.Tables, template.HTML(t.RenderHTML())) // escaped by its library
}

func (p *page) write(w io.Writer) error {
	data, err := json.Marshal(struct {
		Lines  []pageLine  `json:"lines"`
		Points []pagePoint `json:"points"`
	}{p.Lines, p.Points})
	if err != nil {
		return err
	}
	return pageTemplate.Execute(w, struct {
		*page
		Script template.JS
		Style  template.CSS
		Data   template.JS
	}{p, template.JS(uplotScript), template.CSS(uplotStyle), template.JS(data)})
}
