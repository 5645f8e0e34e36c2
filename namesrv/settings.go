package namesrv

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"peregrine/wire"
)

// settings are what code 318 may change, with NamesrvConfig's names and defaults (5.5.0). All are booleans that act at once.
type settings map[string]string

func defaultSettings() settings {
	return settings{
		"deleteTopicWithBrokerRegistration": "false",
		"enableAllTopicList":                "true",
		"enableTopicList":                   "true",
		"orderMessageEnable":                "false",
		"returnOrderTopicConfigToBroker":    "true",
	}
}

// forbiddenSettings may never be changed over the wire: a server that follows them writes where the sender likes.
func forbiddenSettings() []string {
	return []string{"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
}

func (s *Server) loadSettings() error {
	data, err := s.settingFile.Load(func(data []byte) error {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return fmt.Errorf("no text: a zero byte at position %d", i)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the settings of the name server: %w", err)
	}
	s.settings.take(parseLines(data))
	return nil
}

// take takes over the values of known keys.
func (t settings) take(values map[string]string) {
	for key, value := range values {
		if _, known := t[key]; known {
			t[key] = fmt.Sprint(strings.EqualFold(value, "true"))
		}
	}
}

func (t settings) text() []byte {
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(t)) {
		text = append(append(append(append(text, key...), '='), t[key]...), '\n')
	}
	return text
}

// parseLines reads `key=value` lines as mqadmin writes them: no continuation lines, values keep their inner blanks.
func parseLines(text []byte) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return values
}

func (s *Server) updateConfig(c *call) wire.Reply {
	values := parseLines(c.cmd.Body)
	for _, key := range forbiddenSettings() {
		if _, has := values[key]; has {
			return failure(wire.ResponseNoPermission, "Can not update config in black list.")
		}
	}
	s.files.Lock()
	defer s.files.Unlock()
	s.mu.RLock()
	next := maps.Clone(s.settings)
	s.mu.RUnlock()
	next.take(values)
	if maps.Equal(next, s.settings) {
		return success(nil, nil)
	}
	if err := s.settingFile.Save(next.text()); err != nil {
		s.logger.Error("the settings of the name server are not saved", "error", err)
		return failure(wire.ResponseSystemError, "the settings cannot be saved: "+err.Error())
	}
	s.mu.Lock()
	s.settings = next
	s.mu.Unlock()
	s.logger.Info("name server settings changed", "settings", next, "remote", c.remote)
	return success(nil, nil)
}

func (s *Server) getConfig(*call) wire.Reply {
	s.mu.RLock()
	all := maps.Clone(s.settings)
	s.mu.RUnlock()
	maps.Copy(all, s.facts)
	return success(nil, all.text())
}
