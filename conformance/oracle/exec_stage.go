package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
)

// stage is everything around a client: a folder, servers, the plugin, the environment, and who listens to its log.
type stage struct {
	question storyQuestion
	folder   string
	words    words
	// plain is for those who do not want TLS.
	server, plain *httptest.Server
	received      sentRequest
	answered      int
	log           *errorLog
	environment   []string
	errorOutput   *os.File
}

func setStage(q storyQuestion) *stage {
	plugin, folder := scriptedPlugin(), must(os.MkdirTemp("", "keyfob-oracle-"))
	s := &stage{question: q, folder: folder, log: &errorLog{}, environment: os.Environ(), errorOutput: os.Stderr}
	check(os.Mkdir(filepath.Join(folder, "bin"), 0o700))
	check(os.Symlink(plugin, filepath.Join(folder, "bin", "plugin")))
	check(os.WriteFile(filepath.Join(folder, "token"), []byte("of a file\n"), 0o600))
	s.startServers()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	s.words = words{
		{"PLAIN_SERVER", s.plain.URL},
		{"SERVER", s.server.URL},
		{"CADATA64", base64.StdEncoding.EncodeToString(certificate)},
		{"CERT_A64", base64.StdEncoding.EncodeToString([]byte(pairs.meaning("CERT_A")))},
		{"KEY_A64", base64.StdEncoding.EncodeToString([]byte(pairs.meaning("KEY_A")))},
		{"PLUGIN", filepath.Join(folder, "bin", "plugin")},
		{"SCRIPT", filepath.Join(folder, "script")},
		{"FOLDER", folder},
	}
	os.Stderr = must(os.Create(filepath.Join(folder, "stderr")))
	listen(s.log)
	os.Clearenv()
	for _, entry := range append([]string{"PATH=" + filepath.Join(folder, "bin")}, q.Environment...) {
		name, value, _ := strings.Cut(entry, "=")
		check(os.Setenv(name, value))
	}
	// What one question left behind is no business of the next.
	execGlobalCache = newExecCache()
	return s
}

func (s *stage) startServers() {
	handler := http.HandlerFunc(s.serve)
	s.plain = httptest.NewServer(handler)
	s.server = httptest.NewUnstartedServer(handler)
	s.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		// The client may run its plugin once more for the answer to this.
		s.nextRun()
		return nil, nil
	}}
	if s.question.AsksForCertificates {
		s.server.TLS.ClientAuth = tls.RequestClientCert
	}
	// A client that gives up during a handshake is part of the story.
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.StartTLS()
}

func (s *stage) serve(response http.ResponseWriter, r *http.Request) {
	s.received.Authorization = append(s.received.Authorization, r.Header.Values("Authorization")...)
	if r.TLS != nil {
		for _, certificate := range r.TLS.PeerCertificates {
			s.received.Certificates = append(s.received.Certificates, pairs.named(certificate.Raw))
		}
	}
	s.nextRun()
	response.WriteHeader(s.question.Statuses[s.answered])
	s.answered++
}

func (s *stage) clear() {
	s.server.Close()
	s.plain.Close()
	listen(nobody)
	check(os.Stderr.Close())
	os.Stderr = s.errorOutput
	os.Clearenv()
	for _, entry := range s.environment {
		name, value, _ := strings.Cut(entry, "=")
		check(os.Setenv(name, value))
	}
	check(os.RemoveAll(s.folder))
}

// nextRun writes what the plugin will do when it is run next.
func (s *stage) nextRun() {
	run := s.runs()
	script := []any{
		map[string]string{"record": s.file("witness", run)},
		map[string]string{"recordStdin": s.file("stdin", run)},
		map[string]string{"count": filepath.Join(s.folder, "runs")},
	}
	if len(s.question.Plugin) > 0 {
		for _, step := range s.question.Plugin[min(run, len(s.question.Plugin)-1)] {
			script = append(script, json.RawMessage(s.meant(string(step))))
		}
	}
	check(os.WriteFile(filepath.Join(s.folder, "script"), must(json.Marshal(script)), 0o600))
}

func (s *stage) file(name string, run int) string {
	return filepath.Join(s.folder, fmt.Sprintf("%s-%d", name, run))
}

// runs is how often the plugin was run.
func (s *stage) runs() int {
	counted, err := os.ReadFile(filepath.Join(s.folder, "runs"))
	if !os.IsNotExist(err) {
		check(err)
	}
	return len(counted)
}

// witness is what the plugin got.
func (s *stage) witness(run int) pluginRun {
	var seen struct{ Args, Env []string }
	check(json.Unmarshal(must(os.ReadFile(s.file("witness", run))), &seen))
	stdin := must(os.ReadFile(s.file("stdin", run)))
	answer := pluginRun{Args: []string{}, Env: []string{}, Info: []string{}, Stdin: string(stdin)}
	for _, arg := range seen.Args {
		answer.Args = append(answer.Args, s.inWords(arg))
	}
	for _, entry := range seen.Env {
		if info, ok := strings.CutPrefix(entry, "KUBERNETES_EXEC_INFO="); ok {
			answer.Info = append(answer.Info, s.inWords(info))
		} else {
			answer.Env = append(answer.Env, s.inWords(entry))
		}
	}
	return answer
}

func (s *stage) stderr() string {
	return string(must(os.ReadFile(filepath.Join(s.folder, "stderr"))))
}

func (s *stage) logged() []string {
	lines := []string{}
	for _, line := range s.log.lines {
		lines = append(lines, s.inWords(line))
	}
	return lines
}

// meant puts what the words stand for in their place, inside of JSON.
func (s *stage) meant(text string) string {
	return pairs.inJSON(s.words.inJSON(text))
}

// inWords is the other way round.
func (s *stage) inWords(text string) string {
	text = pairs.inWords(s.words.inWords(text))
	return strings.ReplaceAll(text, s.server.Listener.Addr().String(), "SERVER_ADDRESS")
}

// errorLog keeps what is logged as an error.
type errorLog struct{ lines []string }

func (*errorLog) Init(logr.RuntimeInfo)            {}
func (*errorLog) Enabled(int) bool                 { return false }
func (*errorLog) Info(int, string, ...any)         {}
func (l *errorLog) WithValues(...any) logr.LogSink { return l }
func (l *errorLog) WithName(string) logr.LogSink   { return l }
func (l *errorLog) Error(_ error, message string, _ ...any) {
	l.lines = append(l.lines, strings.TrimSpace(message))
}
