package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// storyQuestion is a kubeconfig with one cluster and one user, and what its plugin and its server do.
type storyQuestion struct {
	// Cluster and User are as a kubeconfig has them, with words (see stage.words) for what is never the same.
	Cluster json.RawMessage `json:"cluster"`
	User    json.RawMessage `json:"user"`
	// Plugin has the steps of each run of the scripted plugin; the last entry is good for all later runs.
	Plugin [][]json.RawMessage `json:"plugin"`
	// Statuses are what the server answers to one request after another.
	Statuses []int `json:"statuses"`
	// Environment is what the client has in its own environment, besides PATH.
	Environment []string `json:"environment"`
	// AsksForCertificates says whether the server does.
	AsksForCertificates bool `json:"asksForCertificates"`
}

type story struct {
	Runs     []pluginRun   `json:"runs"`
	Requests []sentRequest `json:"requests"`
	// Stderr is what plugins printed there: the client passes it on.
	Stderr string `json:"stderr"`
	// Logged are the errors that the client logged, and did nothing else about.
	Logged []string `json:"logged"`
}

// pluginRun is what a plugin got.
type pluginRun struct {
	Args []string `json:"args"`
	// Env is the environment without KUBERNETES_EXEC_INFO, which is Info.
	Env   []string `json:"env"`
	Info  []string `json:"info"`
	Stdin string   `json:"stdin"`
}

// sentRequest is what the server got, and what the client.
type sentRequest struct {
	Authorization []string `json:"authorization"`
	Certificates  []string `json:"certificates"`
	Status        int      `json:"status,omitempty"`
	Error         string   `json:"error,omitempty"`
}

// execStory builds a client as kubectl does, and sends its requests.
func execStory(q storyQuestion) any {
	stage := setStage(q)
	defer stage.clear()
	config, err := stage.clientConfig()
	if err != nil {
		return failure{stage.inWords(err.Error())}
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return failure{stage.inWords(err.Error())}
	}
	defer client.CloseIdleConnections()
	answer := story{Runs: []pluginRun{}, Requests: []sentRequest{}}
	for range q.Statuses {
		answer.Requests = append(answer.Requests, stage.send(client, config.Host))
	}
	for run := range stage.runs() {
		answer.Runs = append(answer.Runs, stage.witness(run))
	}
	answer.Stderr = stage.inWords(stage.stderr())
	answer.Logged = stage.logged()
	return answer
}

// clientConfig writes the kubeconfig and reads it as kubectl does.
func (s *stage) clientConfig() (*rest.Config, error) {
	file := s.meant(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],` +
		`"clusters":[{"name":"c","cluster":` + string(s.question.Cluster) + `}],"users":[{"name":"u","user":` + string(s.question.User) + `}]}`)
	path := filepath.Join(s.folder, "kubeconfig")
	check(os.WriteFile(path, []byte(file), 0o600))
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// send sends one request. Its plugin runs, if any, are over when this returns.
func (s *stage) send(client *http.Client, host string) sentRequest {
	s.nextRun()
	s.received = sentRequest{Authorization: []string{}, Certificates: []string{}}
	response, err := client.Get(strings.TrimSuffix(host, "/") + "/version")
	if err != nil {
		s.received.Error = s.inWords(err.Error())
		return s.received
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	check(err)
	s.received.Status = response.StatusCode
	return s.received
}
