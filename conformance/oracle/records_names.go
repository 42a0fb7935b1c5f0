package main

import (
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"
)

type trimQuestion struct {
	Image string `json:"image"`
}

// trim says by which name records know an image.
func trim(q trimQuestion) any {
	name, err := trimImageTagDigest(q.Image)
	if err != nil {
		return failure{err.Error()}
	}
	return struct {
		Name string `json:"name"`
	}{name}
}

type allowlistQuestion struct {
	Patterns []string `json:"patterns"`
	Images   []string `json:"images"`
}

// allowlist says which images need no verification by a list of patterns.
func allowlist(q allowlistQuestion) any {
	policy, err := pullmanager.NewNeverVerifyAllowListedPullPolicy(q.Patterns)
	if err != nil {
		return failure{err.Error()}
	}
	allowed := []bool{}
	for _, image := range q.Images {
		allowed = append(allowed, !policy.RequireCredentialVerificationForImage(image, true))
	}
	return struct {
		Allowed []bool `json:"allowed"`
	}{allowed}
}
