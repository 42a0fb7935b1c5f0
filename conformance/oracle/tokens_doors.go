package main

// The doors into upstream's token manager, as doors.go has those into its plugins.

import (
	"reflect"
	_ "unsafe" // for the linked name

	authentication "k8s.io/api/authentication/v1"
	"k8s.io/kubernetes/pkg/kubelet/token"
	"k8s.io/utils/clock"
)

type getToken = func(name, namespace string, request *authentication.TokenRequest) (*authentication.TokenRequest, error)

// newTokenManager makes one that has its tokens from there. Nothing goes on in its background.
func newTokenManager(clock clock.Clock, get getToken) *token.Manager {
	manager := &token.Manager{}
	fields := reflect.ValueOf(manager).Elem()
	field(fields, "cache").Set(reflect.ValueOf(map[string]*authentication.TokenRequest{}))
	field(fields, "getToken").Set(reflect.ValueOf(get))
	field(fields, "clock").Set(reflect.ValueOf(clock))
	return manager
}

// cleanUpTokens lets a manager forget what has expired.
//
//go:linkname cleanUpTokens k8s.io/kubernetes/pkg/kubelet/token.(*Manager).cleanup
func cleanUpTokens(manager *token.Manager)
