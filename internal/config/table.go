package config

import (
	"strings"
)

// Table renders all keys as a Markdown table for OPERATIONS.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| key | default | values | at run time | meaning |\n|---|---|---|---|---|\n")
	for _, k := range Keys() {
		reload := ""
		if k.Reload && k.Pending == "" {
			reload = "yes"
		}
		for i, cell := range []string{"`" + k.Name + "`", code(k.Default), k.values(), reload, k.meaning()} {
			if i == 0 {
				b.WriteString("|")
			}
			b.WriteString(" " + strings.ReplaceAll(cell, "|", `\|`) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func (k Key) values() string {
	switch {
	case k.Only != nil && k.Only[0] == "":
		return "empty only"
	case k.Only != nil:
		return "only " + strings.Join(k.Only, ", ")
	case k.Type == "text" && k.Values == nil:
		return "text"
	}
	text := strings.TrimPrefix(strings.TrimPrefix(k.Expect(), "a whole number, "), "a whole number from ")
	return strings.TrimPrefix(text, "one of ")
}

func (k Key) meaning() string {
	text := k.Doc
	if k.Pending != "" {
		text += " (not built yet: " + k.Pending + ")"
	}
	if k.Only != nil {
		text += " (" + k.Why + ")"
	}
	return text
}
