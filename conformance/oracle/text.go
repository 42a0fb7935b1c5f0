package main

import "encoding/json"

// text is what stands in a file or comes through a pipe: a string, or {"base64": "…"} if it is no text.
type text []byte

func (t *text) UnmarshalJSON(data []byte) error {
	var plain string
	if json.Unmarshal(data, &plain) == nil {
		*t = []byte(plain)
		return nil
	}
	var encoded struct {
		Base64 []byte `json:"base64"`
	}
	err := json.Unmarshal(data, &encoded)
	*t = encoded.Base64
	return err
}
