package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/credentialprovider"
	keyrings "k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	"k8s.io/kubernetes/pkg/util/parsers"
)

// benchQuestion has one of these: how long something takes is the answer, so that whoever asks can take turns.
type benchQuestion struct {
	SetUp  *benchProviders `json:"set_up"`
	LookUp *benchLookup    `json:"look_up"`
	Fill   *benchFill      `json:"fill"`
}

func bench(q benchQuestion) any {
	switch {
	case q.SetUp != nil:
		return setUp(q.SetUp)
	case q.LookUp != nil:
		return q.LookUp.measure()
	default:
		return q.Fill.measure()
	}
}

// benchProviders are what is registered from then on.
type benchProviders struct {
	// Folder is for the configuration and the plugins.
	Folder string `json:"folder"`
	// Patterns has those of each provider.
	Patterns [][]string `json:"patterns"`
	// Plugin is the program that all of them run; without one, Answer is given in its place.
	Plugin string       `json:"plugin"`
	Answer staticAnswer `json:"answer"`
}

func setUp(q *benchProviders) any {
	providers := []any{}
	for i, patterns := range q.Patterns {
		name := fmt.Sprintf("provider-%d", i)
		program := q.Plugin
		if program == "" {
			program = must(os.Executable())
		}
		check(os.Symlink(program, filepath.Join(q.Folder, name)))
		providers = append(providers, map[string]any{
			"name": name, "matchImages": patterns, "defaultCacheDuration": "1m",
			"apiVersion": "credentialprovider.kubelet.k8s.io/v1",
		})
	}
	config := filepath.Join(q.Folder, "config.json")
	check(os.WriteFile(config, must(json.Marshal(map[string]any{
		"kind": "CredentialProviderConfig", "apiVersion": "kubelet.config.k8s.io/v1", "providers": providers,
	})), 0o600))
	unregisterAll()
	check(plugin.RegisterCredentialProviderPlugins(config, q.Folder, nil, nil))
	if q.Plugin == "" {
		for _, provider := range registeredProviders() {
			provider.setPlugin(&q.Answer)
		}
	}
	return struct{}{}
}

// staticAnswer is a plugin that is no process.
type staticAnswer struct {
	CacheKeyType string   `json:"cacheKeyType"`
	Keys         []string `json:"keys"`
	Password     string   `json:"password"`
}

// ExecPlugin answers in memory of its own, as what is decoded has.
func (a *staticAnswer) ExecPlugin(context.Context, string, string, map[string]string) (*credentialprovider.CredentialProviderResponse, error) {
	auth := make(map[string]credentialprovider.AuthConfig, len(a.Keys))
	for _, key := range a.Keys {
		auth[strings.Clone(key)] = credentialprovider.AuthConfig{
			Username: strings.Clone("AWS"),
			Password: strings.Clone(a.Password),
		}
	}
	return &credentialprovider.CredentialProviderResponse{
		CacheKeyType:  credentialprovider.PluginCacheKeyType(strings.Clone(a.CacheKeyType)),
		CacheDuration: &metav1.Duration{Duration: 12 * time.Hour},
		Auth:          auth,
	}, nil
}

// benchLookup looks an image up as a kubelet does for each pull: with a keyring made for the pod.
type benchLookup struct {
	Image string `json:"image"`
	// Parse is whether reading the image's name is a part of it.
	Parse   bool `json:"parse"`
	Repeats int  `json:"repeats"`
}

func (q *benchLookup) measure() any {
	repository, _, _, err := parsers.ParseImageName(q.Image)
	check(err)
	credentials := 0
	started := time.Now()
	for range q.Repeats {
		if q.Parse {
			repository, _, _, _ = parsers.ParseImageName(q.Image)
		}
		found, _ := keyringOfPod().Lookup(repository)
		credentials = len(found)
	}
	return struct {
		Nanos       int64 `json:"nanos"`
		Credentials int   `json:"credentials"`
	}{time.Since(started).Nanoseconds(), credentials}
}

// benchFill keeps the answers for so many images.
type benchFill struct {
	Prefix string `json:"prefix"`
	From   int    `json:"from"`
	To     int    `json:"to"`
}

func (q *benchFill) measure() any {
	for n := q.From; n < q.To; n++ {
		repository, _, _, err := parsers.ParseImageName(fmt.Sprintf("%s%06d:v1", q.Prefix, n))
		check(err)
		keyringOfPod().Lookup(repository)
	}
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	kept := 0
	for _, provider := range registeredProviders() {
		kept += len(provider.kept())
	}
	return struct {
		Heap     uint64 `json:"heap"`
		Resident int    `json:"resident"`
		Kept     int    `json:"kept"`
	}{memory.HeapAlloc, residentBytes(), kept}
}

func keyringOfPod() keyrings.DockerKeyring {
	return plugin.NewExternalCredentialProviderDockerKeyring("namespace", "pod", "00000000-0000-4000-8000-000000000000", "default")
}

// residentBytes is what the process holds in memory that no file backs.
func residentBytes() int {
	status := must(os.ReadFile("/proc/self/status"))
	kilobytes := regexp.MustCompile(`RssAnon:\s*(\d+) kB`).FindSubmatch(status)[1]
	return must(strconv.Atoi(string(kilobytes))) * 1024
}
