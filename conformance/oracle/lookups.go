package main

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	Accounts  []account          `json:"accounts"`
	Steps     []lookupsStep      `json:"steps"`
}

// lookupsStep has one of these.
type lookupsStep struct {
	Advance   *string     `json:"advance"`
	LookUp    *string     `json:"look_up"`
	LookUpFor *podsLookup `json:"look_up_for"`
	// Account is what one is like from now on.
	Account *account `json:"account"`
}

type podsLookup struct {
	Image string `json:"image"`
	Pod   pod    `json:"pod"`
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
	// Why has the words of failures that are about the service account.
	Why      map[string]string `json:"why,omitempty"`
	Identity *asked            `json:"identity,omitempty"`
}

type credential struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Hash     string `json:"hash"`
	// ServiceAccount is whose pods alone may use it.
	ServiceAccount *coordinates `json:"serviceAccount,omitempty"`
}

type coordinates struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// lookups says what a kubelet finds for images, one after the other, by pods of this account or that, while time passes
// between them.
func lookups(q lookupsQuestion) any {
	node := newNode(q.Providers)
	defer os.RemoveAll(node.folder)
	accounts := newAccounts(q.Accounts)
	log := newFailures()
	listen(log)
	defer listen(nobody)
	unregisterAll()
	legacyregistry.Reset()
	if err := plugin.RegisterCredentialProviderPlugins(node.config, node.plugins, accounts.token, accounts.get); err != nil {
		return failure{strings.ReplaceAll(err.Error(), node.folder, "FOLDER")}
	}
	start := time.Date(2030, 3, 17, 17, 46, 40, 0, time.UTC)
	clock := clocktesting.NewFakeClock(start)
	for _, provider := range registeredProviders() {
		provider.setClock(clock)
	}
	answer := lookupsAnswer{Lookups: []lookup{}, Kept: map[string]map[string]string{}}
	for _, step := range q.Steps {
		var this podsLookup
		switch {
		case step.Advance != nil:
			clock.Step(must(time.ParseDuration(*step.Advance)))
			continue
		case step.Account != nil:
			accounts.set(*step.Account)
			continue
		case step.LookUp != nil:
			this.Image = *step.LookUp
		default:
			this = *step.LookUpFor
		}
		repository, _, _, err := parsers.ParseImageName(this.Image)
		if err != nil {
			return failure{err.Error()}
		}
		found := this.Pod.lookUp(repository)
		failed, why := log.take()
		answer.Lookups = append(answer.Lookups,
			lookup{found, failed, node.newRequests(q.Providers), why, accounts.newRequests()})
	}
	for i, provider := range registeredProviders() {
		kept := map[string]string{}
		for key, expires := range provider.kept() {
			kept[spelledOut(key)] = expires.Sub(start).String()
		}
		answer.Kept[q.Providers[i].Name] = kept
	}
	answer.Errors = errorsOfPlugins()
	answer.Started = node.started(q.Providers)
	return answer
}

func (p pod) lookUp(repository string) []credential {
	keyring := plugin.NewExternalCredentialProviderDockerKeyring(p.Namespace, p.Name, string(p.UID), p.ServiceAccount)
	found, _ := keyring.Lookup(repository)
	credentials := []credential{}
	for _, each := range found {
		this := credential{Username: each.Username, Password: each.Password, Hash: each.AuthConfigHash}
		if each.Source != nil {
			account := each.Source.ServiceAccount
			this.ServiceAccount = &coordinates{account.Namespace, account.Name, account.UID}
		}
		credentials = append(credentials, this)
	}
	return credentials
}

// spelledOut is a key as text, to the byte: what is no plain letter is spelled out.
func spelledOut(key string) string {
	var text strings.Builder
	for _, b := range []byte(key) {
		if b >= ' ' && b <= '~' && b != '\\' {
			text.WriteByte(b)
		} else {
			fmt.Fprintf(&text, `\x%02x`, b)
		}
	}
	return text.String()
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

// failures is a log that keeps which providers failed, and why: upstream tells nobody else.
type failures struct {
	providers []string
	why       map[string]string
}

func newFailures() *failures {
	return &failures{[]string{}, map[string]string{}}
}

func (f *failures) take() ([]string, map[string]string) {
	taken := *f
	*f = *newFailures()
	return taken.providers, taken.why
}

func (f *failures) Error(err error, message string, fields ...any) {
	if message != "Failed to provide credentials for image" {
		return
	}
	provider := fields[1].(string)
	f.providers = append(f.providers, provider)
	if !isOfPlugin(err.Error()) {
		f.why[provider] = err.Error()
	}
}

// isOfPlugin says whether a failure is about a run or an answer, for which Keyfob has words of its own.
func isOfPlugin(err string) bool {
	return strings.HasPrefix(err, "failed to get credential from external registry credential provider: ") ||
		strings.HasPrefix(err, "credential provider plugin did not return a valid cacheKeyType: ")
}

func (f *failures) Init(logr.RuntimeInfo)          {}
func (f *failures) Enabled(int) bool               { return true }
func (f *failures) Info(int, string, ...any)       {}
func (f *failures) WithValues(...any) logr.LogSink { return f }
func (f *failures) WithName(string) logr.LogSink   { return f }
