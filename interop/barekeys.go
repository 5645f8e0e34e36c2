package interop

// quoteBareKeys turns {0:5} into {"0":5}: Java's fastjson writes integer map keys without quotes. Text in quotes is left alone.
func quoteBareKeys(json []byte) []byte {
	out := make([]byte, 0, len(json)+len(json)/8)
	inText := false
	for i := 0; i < len(json); i++ {
		c := json[i]
		switch {
		case inText && c == '\\' && i+1 < len(json):
			out = append(out, c, json[i+1])
			i++
			continue
		case c == '"':
			inText = !inText
		case !inText && (c == '{' || c == ','):
			out = append(out, c)
			j := i + 1
			for j < len(json) && (json[j] == ' ' || json[j] == '\t' || json[j] == '\n' || json[j] == '\r') {
				j++
			}
			end := j
			for end < len(json) && (json[end] == '-' || json[end] >= '0' && json[end] <= '9') {
				end++
			}
			if end > j && end < len(json) && json[end] == ':' {
				out = append(append(append(out, '"'), json[j:end]...), '"')
				i = end - 1
			}
			continue
		}
		out = append(out, c)
	}
	return out
}
