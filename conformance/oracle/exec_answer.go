package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"time"
	"unicode/utf16"

	"k8s.io/client-go/plugin/pkg/client/auth/exec"
	"k8s.io/client-go/tools/clientcmd/api"
)

type execAnswerQuestion struct {
	APIVersion string `json:"apiVersion"`
	Stdout     string `json:"stdout"`
	Encoding   string `json:"encoding"`
}

type answerOfPlugin struct {
	Token        string   `json:"token"`
	Certificates []string `json:"certificates"`
	Expiry       *instant `json:"expiry"`
}

type instant struct {
	Seconds int64 `json:"seconds"`
	Nanos   int   `json:"nanos"`
}

// execAnswer says what a client makes of a plugin's stdout. The plugin is a real process.
func execAnswer(q execAnswerQuestion) any {
	authenticator, err := cats.of(q.APIVersion)
	if err != nil {
		return failure{err.Error()}
	}
	startAnew(authenticator, bytes.NewReader(encoded(pairs.inJSON(q.Stdout), q.Encoding)))
	if err := refreshCreds(authenticator); err != nil {
		return failure{err.Error()}
	}
	token, certificate, expiry := credsOf(authenticator)
	answer := answerOfPlugin{Token: pairs.inWords(token), Certificates: []string{}}
	if certificate != nil {
		for _, block := range certificate.Certificate {
			answer.Certificates = append(answer.Certificates, pairs.named(block))
		}
	}
	if !expiry.IsZero() {
		answer.Expiry = &instant{expiry.Unix(), expiry.Nanosecond()}
	}
	return answer
}

// cats has an authenticator for each version whose plugin prints what stands in its stdin. They are kept because client-go never forgets one.
var cats = catsByVersion{}

type catsByVersion map[string]*exec.Authenticator

func (c catsByVersion) of(version string) (*exec.Authenticator, error) {
	if known, ok := c[version]; ok {
		return known, nil
	}
	config := &api.ExecConfig{Command: "/bin/cat", APIVersion: version, InteractiveMode: api.AlwaysExecInteractiveMode}
	made, err := newAuthenticator(newExecCache(), func(int) bool { return true }, config, nil)
	if err == nil {
		c[version] = made
	}
	return made, err
}

// encoded turns a text into the bytes that a plugin prints. As latin1 it is bytes of any kind.
func encoded(text, encoding string) []byte {
	var order binary.AppendByteOrder
	switch encoding {
	case "":
		return []byte(text)
	case "latin1":
		var out []byte
		for _, letter := range text {
			out = append(out, byte(letter))
		}
		return out
	case "utf16be":
		order = binary.BigEndian
	case "utf16le":
		order = binary.LittleEndian
	default:
		panic("no such encoding: " + encoding)
	}
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return out
}

// words stand in questions and answers for what is long, or never the same.
type words [][2]string

// pairs are certificates and keys that belong together, by their words; new ones each time, since nobody trusts them.
var pairs = func() words {
	certificateA, keyA := newPair("a")
	certificateB, keyB := newPair("b")
	return words{{"CERT_A", certificateA}, {"KEY_A", keyA}, {"CERT_B", certificateB}, {"KEY_B", keyB}}
}()

func newPair(name string) (certificate, key string) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
	}
	signed := must(x509.CreateCertificate(rand.Reader, template, template, public, private))
	inPEM := func(block string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: block, Bytes: bytes}))
	}
	return inPEM("CERTIFICATE", signed), inPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(private)))
}

// inJSON puts what the words stand for in their place, inside of JSON strings.
func (w words) inJSON(text string) string {
	for _, word := range w {
		meaning := must(json.Marshal(word[1]))
		text = strings.ReplaceAll(text, word[0], string(bytes.Trim(meaning, `"`)))
	}
	return text
}

// inWords is the other way round, in plain text.
func (w words) inWords(text string) string {
	for _, word := range w {
		text = strings.ReplaceAll(text, word[1], word[0])
	}
	return text
}

// meaning is what a word stands for.
func (w words) meaning(name string) string {
	for _, word := range w {
		if word[0] == name {
			return word[1]
		}
	}
	panic(name + " stands for nothing")
}

// named gives the word for a certificate.
func (w words) named(certificate []byte) string {
	for _, word := range w {
		if block, _ := pem.Decode([]byte(word[1])); block != nil && bytes.Equal(block.Bytes, certificate) {
			return word[0]
		}
	}
	return "another"
}
