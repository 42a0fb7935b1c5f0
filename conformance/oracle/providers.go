package main

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

type providersQuestion struct {
	// Providers has the patterns of each.
	Providers  [][]string `json:"providers"`
	Repository string     `json:"repository"`
}

// providers says which providers are asked about a repository.
func providers(q providersQuestion) any {
	asked := make([]bool, len(q.Providers))
	for n, patterns := range q.Providers {
		asked[n] = newProvider(kubeletconfig.CredentialProvider{
			Name:                 "provider",
			MatchImages:          patterns,
			DefaultCacheDuration: &metav1.Duration{Duration: time.Minute},
			APIVersion:           "credentialprovider.kubelet.k8s.io/v1",
		}).isImageAllowed(q.Repository)
	}
	return struct {
		Asked []bool `json:"asked"`
	}{asked}
}
