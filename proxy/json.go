package proxy

import (
	"encoding/json"
	"strings"
)

// writeJSON writes s as a JSON string.
func writeJSON(b *strings.Builder, s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // a string always marshals
			b.Write(text)
			return
		}
	}
	b.WriteByte('"')
	b.WriteString(s)
	b.WriteByte('"')
}
