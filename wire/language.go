package wire

// Language is the program a peer is written in (org.apache.rocketmq.remoting.protocol.LanguageCode). Values above
// LanguageNodeJS are not named; a binary header may still carry them.
type Language uint8

// Languages, with their codes on the wire.
const (
	LanguageJava Language = iota
	LanguageCPP
	LanguageDotNet
	LanguagePython
	LanguageDelphi
	LanguageErlang
	LanguageRuby
	LanguageOther
	LanguageHTTP
	LanguageGo
	LanguagePHP
	LanguageOMS
	LanguageRust
	LanguageNodeJS
	// LanguageUnknown stands for a name in a JSON header that is none of the above; RocketMQ reads such a name as null.
	LanguageUnknown Language = 255
)

var languageNames = [...]string{"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
	"OMS", "RUST", "NODE_JS"}

// String is the name as JSON headers have it; UNKNOWN for a language without a name.
func (l Language) String() string {
	if int(l) < len(languageNames) {
		return languageNames[l]
	}
	return "UNKNOWN"
}

// languageOf finds a language by its name.
func languageOf(name []byte) Language {
	for i := range languageNames {
		if string(name) == languageNames[i] {
			return Language(i)
		}
	}
	return LanguageUnknown
}
