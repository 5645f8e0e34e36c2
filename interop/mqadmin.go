package interop

import (
	"os"
	"path/filepath"
)

// toolsLogging is all that mqadmin 4.9.4 needs of its home: it refuses to start without this file. Quiet.
const toolsLogging = `<?xml version="1.0" encoding="UTF-8"?>
<configuration><root level="OFF"/></configuration>
`

// writeToolsLogging makes dir a home that mqadmin accepts.
func writeToolsLogging(dir string) error {
	conf := filepath.Join(dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(conf, "logback_tools.xml"), []byte(toolsLogging), 0o644)
}
