package main

import (
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

type providersQuestion struct {
	// Patterns of each provider.
	Providers  [][]string `json:"providers"`
	Repository string     `json:"repository"`
}

// providers says which providers are asked about a repository.
func providers(q providersQuestion) any {
	asked := make([]bool, len(q.Providers))
	for n, patterns := range q.Providers {
		config := kubeletconfig.CredentialProvider{
			Name:                 "provider",
			MatchImages:          patterns,
			DefaultCacheDuration: &metav1.Duration{Duration: time.Minute},
			APIVersion:           "credentialprovider.kubelet.k8s.io/v1",
		}
		provider, err := newPluginProvider("", config, nil, nil)
		if err != nil {
			return failure{err.Error()}
		}
		asked[n] = isImageAllowed(provider, q.Repository)
	}
	return struct {
		Asked []bool `json:"asked"`
	}{asked}
}

//go:linkname isImageAllowed k8s.io/kubernetes/pkg/credentialprovider/plugin.(*pluginProvider).isImageAllowed
func isImageAllowed(provider unsafe.Pointer, image string) bool
