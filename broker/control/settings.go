package control

import (
	"maps"
	"slices"
	"strings"

	"peregrine/broker/names"
	"peregrine/internal/config"
	"peregrine/wire"
)

// updateConfig is code 25. What may never be changed over the wire is refused as the original does (case X01); changing
// anything else at run time is not built yet.
func (s *service) updateConfig(r *Request) wire.Reply {
	protected := append(strings.Split(s.Config.ConfigBlackList, ";"), "configBlackList", "brokerConfigPath", "rocketmqHome")
	changes := false
	for line := range strings.Lines(string(r.Cmd.Body)) {
		key, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key = strings.TrimSpace(key); key == "" || key[0] == '#' || key[0] == '!' {
			continue
		}
		if slices.Contains(protected, key) {
			s.Logger.Warn("a protected setting was to be changed over the wire", "key", names.Quote(key), "remote", r.Remote)
			return failure(wire.ResponseNoPermission, "Can not update config in black list.")
		}
		changes = true
	}
	if !changes {
		return success(nil, nil)
	}
	return failure(wire.ResponseSystemError, "settings cannot be changed at run time yet, edit broker.conf and restart")
}

// getConfig is code 26: the effective configuration as properties, sorted by key.
func (s *service) getConfig(*Request) wire.Reply {
	values := make(map[string]string)
	for _, key := range config.Keys() {
		values[key.Name] = key.Get(s.Config)
	}
	var body []byte
	for _, name := range slices.Sorted(maps.Keys(values)) {
		body = append(body, name...)
		body = append(body, '=')
		body = append(body, strings.ReplaceAll(values[name], `\`, `\\`)...)
		body = append(body, '\n')
	}
	version := wire.EncodeBody(wire.DataVersion{Timestamp: int64(s.Boot)})
	return success(wire.GetBrokerConfigResponseHeader{Version: string(version)}, body)
}
