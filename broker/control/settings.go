package control

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"peregrine/broker/names"
	"peregrine/internal/config"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// updateConfig is code 25 (AdminBrokerProcessor.updateBrokerConfig): it changes settings at run time, all or none, and in the
// broker.conf that the broker was started with. What may never be changed over the wire is refused as the original does (case X01). The
// original takes anything else; here a key must be one that has an effect at run time, and its value one that a start would take.
func (s *service) updateConfig(r *Request) wire.Reply {
	settings, err := config.ParseChange(r.Cmd.Body)
	if err != nil {
		return failure(wire.ResponseInvalidParameter, err.Error())
	}
	protected := append(strings.Split(s.Config.Get().ConfigBlackList, ";"), "configBlackList", "brokerConfigPath", "rocketmqHome")
	for key := range settings {
		if slices.Contains(protected, key) {
			s.Logger.Warn("a protected setting was to be changed over the wire", "key", names.Quote(key), "remote", r.Remote)
			return failure(wire.ResponseNoPermission, "Can not update config in black list.")
		}
	}
	if len(settings) == 0 {
		return success(nil, nil)
	}
	changes, err := s.Config.Change(settings, s.persistSettings)
	var unsaved *unsavedError
	switch {
	case errors.As(err, &unsaved):
		return failure(wire.ResponseSystemError, "nothing was changed: "+err.Error())
	case err != nil:
		return failure(wire.ResponseInvalidParameter, "nothing was changed: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	s.settingsChanged.Store(int64(s.Now()))
	var notes []string
	for _, c := range changes {
		s.Logger.Info("a setting was changed by an administrator", "key", c.Key, "from", c.From, "to", c.To, "note", c.Note, "remote", r.Remote)
		if c.Note != "" {
			notes = append(notes, c.Key+": "+c.Note)
		}
	}
	if s.ConfigFile == "" {
		notes = append(notes, "kept in memory only until the next start: there is no broker.conf (-c)")
	}
	return wire.Reply{Code: wire.ResponseSuccess, Remark: strings.Join(notes, "; ")}
}

// unsavedError says that broker.conf could not be written.
type unsavedError struct{ cause error }

func (e *unsavedError) Error() string { return "broker.conf: " + e.cause.Error() }
func (e *unsavedError) Unwrap() error { return e.cause }

// persistSettings writes changes into broker.conf: as a whole and durably, before they are in effect. Comments, unknown keys and what
// somebody edited meanwhile stay.
func (s *service) persistSettings(changes []config.Change) error {
	if s.ConfigFile == "" {
		return nil
	}
	data, _, err := config.ReadConfFile(s.ConfigFile, func(path string) ([]byte, error) { return sysio.ReadFile(s.FS, path) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &unsavedError{err}
	}
	text, err := config.EditFile(data, changes)
	if err == nil {
		err = sysio.AtomicWriteFile(s.FS, s.ConfigFile, text, true)
	}
	if err != nil {
		return &unsavedError{err}
	}
	return nil
}

// getConfig is code 26: the effective configuration as properties, sorted by key.
func (s *service) getConfig(*Request) wire.Reply {
	values := make(map[string]string)
	cfg, changes := s.Config.Get(), s.Config.Changes()
	for _, key := range config.Keys() {
		values[key.Name] = key.Get(cfg)
	}
	var body []byte
	for _, name := range slices.Sorted(maps.Keys(values)) {
		body = append(body, name...)
		body = append(body, '=')
		body = append(body, strings.ReplaceAll(values[name], `\`, `\\`)...)
		body = append(body, '\n')
	}
	version := wire.DataVersion{Timestamp: max(int64(s.Boot), s.settingsChanged.Load()), Counter: changes}
	return success(wire.GetBrokerConfigResponseHeader{Version: string(wire.EncodeBody(version))}, body)
}
