// Package namesrv is the name server's role: which brokers exist, which topics they have, and a small key-value table. It
// mirrors DefaultRequestProcessor, ClientRequestProcessor, RouteInfoManager and KVConfigManager of RocketMQ 5.5.0.
//
// The broker in the same process registers by method calls and never expires; other brokers may register over the wire
// and expire when they are silent or their connection ends. Nothing here knows sockets or files: connections are comparable
// values of the caller's, files are behind Storage.
//
// Goroutines: every method may be called from anywhere, but not from an event loop (bodies of megabytes, and files with the KV
// codes). Lock order: Server.files (serialises writes) → Server.mu (all tables; never held during I/O).
package namesrv

import (
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"peregrine/internal/message"
	"peregrine/wire"
)

// Storage keeps one small file. Load returns nil when there is none; valid tells it which content is usable, so that it can
// fall back to a backup. Save replaces the content durably.
type Storage interface {
	Load(valid func([]byte) error) ([]byte, error)
	Save(data []byte) error
}

// Options are what a Server is made of.
type Options struct {
	KV       Storage // kvConfig.json
	Settings Storage // settings changed by code 318
	// Facts are shown by code 319 beside the settings, such as listenPort and kvConfigPath.
	Facts map[string]string
	// Close ends a connection whose broker has expired; nil: nothing is closed.
	Close  func(conn any, reason string)
	Logger *slog.Logger
	Now    func() message.Millis
}

// Server is a name server.
type Server struct {
	logger *slog.Logger
	now    func() message.Millis
	close  func(conn any, reason string)
	facts  map[string]string
	codes  map[wire.RequestCode]func(*call) wire.Reply

	files       sync.Mutex // held while a file is written
	kvFile      Storage
	settingFile Storage

	mu       sync.RWMutex // guards the fields below
	routes   routeTable
	kv       kvTable
	settings settings
	embedded *embedded
}

// call is one request.
type call struct {
	cmd    *wire.Command
	conn   any
	remote netip.AddrPort
}

// New makes a name server with the stored KV table and settings.
func New(o Options) (*Server, error) {
	s := &Server{logger: o.Logger, now: o.Now, close: o.Close, facts: o.Facts, kvFile: o.KV, settingFile: o.Settings,
		routes: newRouteTable(), settings: defaultSettings()}
	if err := s.loadKV(); err != nil {
		return nil, err
	}
	if err := s.loadSettings(); err != nil {
		return nil, err
	}
	s.codes = map[wire.RequestCode]func(*call) wire.Reply{
		wire.RequestPutKVConfig:                   s.putKV,
		wire.RequestGetKVConfig:                   s.getKV,
		wire.RequestDeleteKVConfig:                s.deleteKV,
		wire.RequestGetKVListByNamespace:          s.listKV,
		wire.RequestRegisterBroker:                s.registerBroker,
		wire.RequestUnregisterBroker:              s.unregisterBroker,
		wire.RequestBrokerHeartbeat:               s.brokerHeartbeat,
		wire.RequestQueryDataVersion:              s.queryDataVersion,
		wire.RequestGetBrokerMemberGroup:          s.brokerMemberGroup,
		wire.RequestGetRouteInfoByTopic:           s.routeInfo,
		wire.RequestGetBrokerClusterInfo:          s.clusterInfo,
		wire.RequestWipeWritePermOfBroker:         s.wipeWritePerm,
		wire.RequestAddWritePermOfBroker:          s.addWritePerm,
		wire.RequestGetAllTopicListFromNameServer: s.allTopics,
		wire.RequestGetTopicsByCluster:            s.topicsByCluster,
		wire.RequestGetSystemTopicListFromNS:      s.systemTopics,
		wire.RequestGetUnitTopicList:              s.unitTopics,
		wire.RequestGetHasUnitSubTopicList:        s.unitSubTopics,
		wire.RequestGetHasUnitSubUnUnitTopicList:  s.unitSubUnUnitTopics,
		wire.RequestDeleteTopicInNamesrv:          s.deleteTopic,
		wire.RequestRegisterTopicInNamesrv:        s.registerTopic,
		wire.RequestUpdateNamesrvConfig:           s.updateConfig,
		wire.RequestGetNamesrvConfig:              s.getConfig,
	}
	return s, nil
}

// Counts are the sizes of the tables that BrokersMax, RoutesMax and KVBytesMax bound.
func (s *Server) Counts() (brokers, routes, kvBytes int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.routes.live), s.routes.pairs, s.kv.bytes()
}

// Codes returns the request codes that Process serves, ascending.
func (s *Server) Codes() []wire.RequestCode {
	codes := make([]wire.RequestCode, 0, len(s.codes))
	for code := range s.codes {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}

// Process answers one request. conn is a comparable value that stands for the connection until ConnClosed(conn); cmd is
// borrowed until Process returns.
func (s *Server) Process(cmd *wire.Command, conn any, remote netip.AddrPort) wire.Reply {
	serve := s.codes[wire.RequestCode(cmd.Code)]
	if serve == nil {
		return wire.Reply{Code: wire.ResponseRequestCodeNotSupported, Remark: " request type " + strconv.Itoa(int(cmd.Code)) + " not supported"}
	}
	return serve(&call{cmd: cmd, conn: conn, remote: remote})
}

func success(header any, body []byte) wire.Reply {
	return wire.Reply{Code: wire.ResponseSuccess, Header: header, Body: body}
}

func failure(code wire.ResponseCode, remark string) wire.Reply {
	return wire.Reply{Code: code, Remark: remark}
}
