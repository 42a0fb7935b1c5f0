package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	"k8s.io/kubernetes/pkg/util/parsers"
	clocktesting "k8s.io/utils/clock/testing"
)

type lookupsQuestion struct {
	Providers []scriptedProvider `json:"providers"`
	Steps     []struct {
		Advance *string `json:"advance"`
		LookUp  *string `json:"look_up"`
	} `json:"steps"`
}

type scriptedProvider struct {
	Name                 string          `json:"name"`
	MatchImages          []string        `json:"matchImages"`
	DefaultCacheDuration string          `json:"defaultCacheDuration"`
	APIVersion           string          `json:"apiVersion"`
	TokenAttributes      json.RawMessage `json:"tokenAttributes,omitempty"`
	Args                 []string        `json:"args"`
	Env                  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	// Answers are scripts of the scripted plugin, one for each run.
	Answers json.RawMessage `json:"answers,omitempty"`
}

type lookupsAnswer struct {
	Lookups []lookup                     `json:"lookups"`
	Kept    map[string]map[string]string `json:"kept"`
	Errors  map[string]float64           `json:"errors"`
	Started map[string]start             `json:"started"`
}

// start is how a plugin was started the last time: its arguments, and of its environment what is configured.
type start struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

type lookup struct {
	Credentials []credential                 `json:"credentials"`
	Failed      []string                     `json:"failed"`
	Asked       map[string][]json.RawMessage `json:"asked"`
}

type credential struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Hash     string `json:"hash"`
}

// lookups says what a kubelet finds for images, one after the other, while time passes between them.
func lookups(q lookupsQuestion) any {
	node := newNode(q.Providers)
	defer os.RemoveAll(node.folder)
	log := &failures{providers: []string{}}
	listen(log)
	defer listen(nobody)
	unregisterAll()
	legacyregistry.Reset()
	if err := plugin.RegisterCredentialProviderPlugins(node.config, node.plugins, nil, nil); err != nil {
		return failure{strings.ReplaceAll(err.Error(), node.folder, "FOLDER")}
	}
	start := time.Date(2030, 3, 17, 17, 46, 40, 0, time.UTC)
	clock := clocktesting.NewFakeClock(start)
	for _, provider := range registeredProviders() {
		provider.setClock(clock)
	}
	answer := lookupsAnswer{Lookups: []lookup{}, Kept: map[string]map[string]string{}}
	for _, step := range q.Steps {
		if step.Advance != nil {
			clock.Step(must(time.ParseDuration(*step.Advance)))
			continue
		}
		repository, _, _, err := parsers.ParseImageName(*step.LookUp)
		if err != nil {
			return failure{err.Error()}
		}
		found, _ := plugin.NewExternalCredentialProviderDockerKeyring("", "", "", "").Lookup(repository)
		credentials := []credential{}
		for _, each := range found {
			credentials = append(credentials, credential{each.Username, each.Password, each.AuthConfigHash})
		}
		answer.Lookups = append(answer.Lookups, lookup{credentials, log.take(), node.newRequests(q.Providers)})
	}
	for i, provider := range registeredProviders() {
		kept := map[string]string{}
		for key, expires := range provider.kept() {
			// Two bytes of length are before the name, and two after it: the length of no service account.
			kept[key[2:len(key)-2]] = expires.Sub(start).String()
		}
		answer.Kept[q.Providers[i].Name] = kept
	}
	answer.Errors = errorsOfPlugins()
	answer.Started = node.started(q.Providers)
	return answer
}

// node is a folder with a configuration and its plugins.
type node struct {
	folder, config, plugins string
	// read is how much of the file of a plugin's requests was read.
	read map[string]int
}

func newNode(providers []scriptedProvider) *node {
	folder := must(os.MkdirTemp("", "oracle"))
	n := &node{folder, filepath.Join(folder, "config.json"), filepath.Join(folder, "plugins"), map[string]int{}}
	check(os.Mkdir(n.plugins, 0o700))
	configured := []scriptedProvider{}
	for _, provider := range providers {
		script := filepath.Join(folder, provider.Name+".script")
		check(os.WriteFile(script, must(json.Marshal([]any{
			map[string]any{"record": n.witness(provider.Name)},
			map[string]any{"takeTurns": []any{n.requests(provider.Name), provider.Answers}},
		})), 0o600))
		check(os.Symlink(scriptedPlugin(), filepath.Join(n.plugins, provider.Name)))
		provider.Args, provider.Answers = append([]string{script}, provider.Args...), nil
		configured = append(configured, provider)
	}
	config := must(json.Marshal(map[string]any{
		"kind":       "CredentialProviderConfig",
		"apiVersion": "kubelet.config.k8s.io/v1",
		"providers":  configured,
	}))
	check(os.WriteFile(n.config, config, 0o600))
	return n
}

func (n *node) witness(provider string) string {
	return filepath.Join(n.folder, provider+".witness")
}

func (n *node) started(providers []scriptedProvider) map[string]start {
	started := map[string]start{}
	for _, provider := range providers {
		text, err := os.ReadFile(n.witness(provider.Name))
		if err != nil {
			continue
		}
		var witness struct{ Args, Env []string }
		check(json.Unmarshal(text, &witness))
		this := start{Args: []string{}, Env: []string{}}
		for _, arg := range witness.Args {
			this.Args = append(this.Args, strings.ReplaceAll(arg, n.folder, "FOLDER"))
		}
		for _, entry := range witness.Env {
			for _, variable := range provider.Env {
				if strings.HasPrefix(entry, variable.Name+"=") {
					this.Env = append(this.Env, entry)
					break
				}
			}
		}
		started[provider.Name] = this
	}
	return started
}

func (n *node) requests(provider string) string {
	return filepath.Join(n.folder, provider+".requests")
}

// newRequests has what the plugins were asked since it was last called.
func (n *node) newRequests(providers []scriptedProvider) map[string][]json.RawMessage {
	asked := map[string][]json.RawMessage{}
	for _, provider := range providers {
		all, err := os.ReadFile(n.requests(provider.Name))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(all[n.read[provider.Name]:]) {
			asked[provider.Name] = append(asked[provider.Name], line)
		}
		n.read[provider.Name] = len(all)
	}
	return asked
}

// errorsOfPlugins has how many errors of which plugin a kubelet would report.
func errorsOfPlugins() map[string]float64 {
	count := map[string]float64{}
	for _, family := range must(legacyregistry.DefaultGatherer.Gather()) {
		if family.GetName() == "kubelet_credential_provider_plugin_errors_total" {
			for _, metric := range family.GetMetric() {
				count[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return count
}

// failures is a log that keeps which providers failed: upstream tells nobody else.
type failures struct {
	providers []string
}

func (f *failures) take() []string {
	providers := f.providers
	f.providers = []string{}
	return providers
}

func (f *failures) Error(_ error, message string, fields ...any) {
	if message == "Failed to provide credentials for image" {
		f.providers = append(f.providers, fields[1].(string))
	}
}

func (f *failures) Init(logr.RuntimeInfo)          {}
func (f *failures) Enabled(int) bool               { return true }
func (f *failures) Info(int, string, ...any)       {}
func (f *failures) WithValues(...any) logr.LogSink { return f }
func (f *failures) WithName(string) logr.LogSink   { return f }
