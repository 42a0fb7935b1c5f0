package main

// The doors into upstream's pull manager, as doors.go has those into its plugins.

import (
	_ "unsafe" // for the linked names

	_ "k8s.io/kubernetes/pkg/kubelet/images/pullmanager"
)

//go:linkname trimImageTagDigest k8s.io/kubernetes/pkg/kubelet/images/pullmanager.trimImageTagDigest
func trimImageTagDigest(image string) (string, error)

//go:linkname countCacheFiles k8s.io/kubernetes/pkg/kubelet/images/pullmanager.countCacheFiles
func countCacheFiles(folder string) (uint, error)
