package main

import (
	"bufio"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/store/inspect"
)

// dumpPageRows is how many rows are laid out together: columns get their width from them.
const dumpPageRows = 500

// dumpPrinter prints tables for people or lines of JSON for programs. Texts out of files are escaped for the terminal.
type dumpPrinter struct {
	w    *bufio.Writer
	json bool
	more bool // something was left out because of --count
	err  error

	head []any
	page table.Writer
	rows int

	wrote, gap bool // something stands above; a blank line is due
}

func newDumpPrinter(w io.Writer, json bool) *dumpPrinter {
	return &dumpPrinter{w: bufio.NewWriter(w), json: json}
}

// columns begins a table.
func (p *dumpPrinter) columns(names ...any) {
	p.endPage()
	p.head = names
	p.gap = p.wrote
}

// row adds a row to the table, or prints the object that it stands for. It returns false when nobody reads any more.
func (p *dumpPrinter) row(object any, cells ...any) bool {
	if p.json {
		p.object(object)
		return p.err == nil
	}
	if p.page == nil {
		p.page = table.NewWriter()
		p.page.SetStyle(table.StyleLight)
		p.page.Style().Options = table.OptionsNoBorders
		p.page.AppendHeader(table.Row(p.head))
	}
	for i, c := range cells {
		if s, ok := c.(string); ok {
			cells[i] = inspect.Printable(s)
		}
	}
	p.page.AppendRow(table.Row(cells))
	if p.rows++; p.rows == dumpPageRows {
		p.endPage()
	}
	return p.err == nil
}

func (p *dumpPrinter) endPage() {
	page := p.page
	if p.page, p.rows = nil, 0; page == nil {
		return
	}
	if p.gap {
		p.gap = false
		p.write("\n")
	}
	for l := range strings.SplitSeq(page.Render(), "\n") {
		p.write(strings.TrimRight(l, " ") + "\n")
	}
}

// line prints a line behind what came before.
func (p *dumpPrinter) line(s string) {
	if p.page != nil {
		p.endPage()
		p.write("\n")
	}
	p.write(s + "\n")
}

func (p *dumpPrinter) object(v any) { p.write(string(marshalLine(v))) }

// fields prints everything about one thing, a field a line.
func (p *dumpPrinter) fields(v any) {
	if p.json {
		p.object(v)
		return
	}
	p.endPage()
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		text := fmt.Sprint(value.Field(i).Interface())
		if strings.HasSuffix(name, "Time") {
			text += " (" + millis(value.Field(i).Int()) + ")"
		}
		for k, part := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if k > 0 {
				name = ""
			}
			p.write(strings.TrimRight(fmt.Sprintf("%-26s%s", name, inspect.Printable(part)), " ") + "\n")
		}
	}
}

func (p *dumpPrinter) write(s string) {
	p.wrote = true
	if _, err := p.w.WriteString(s); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *dumpPrinter) flush() error {
	p.endPage()
	if err := p.w.Flush(); p.err == nil {
		p.err = err
	}
	return p.err
}

// millis is a time in ms for people.
func millis(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000")
}
