package main

// Every door into what client-go's exec authenticator does not export. A function or a variable that is renamed is not linked; a field that is
// renamed panics.

import (
	"crypto/tls"
	"io"
	"reflect"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/plugin/pkg/client/auth/exec"
	"k8s.io/client-go/tools/clientcmd/api"
)

//go:linkname execCodecs k8s.io/client-go/plugin/pkg/client/auth/exec.codecs
var execCodecs serializer.CodecFactory

//go:linkname execAPIVersions k8s.io/client-go/plugin/pkg/client/auth/exec.apiVersions
var execAPIVersions map[string]schema.GroupVersion

// execGlobalCache is a pointer to a cache, whatever that is.
//
//go:linkname execGlobalCache k8s.io/client-go/plugin/pkg/client/auth/exec.globalCache
var execGlobalCache unsafe.Pointer

//go:linkname newExecCache k8s.io/client-go/plugin/pkg/client/auth/exec.newCache
func newExecCache() unsafe.Pointer

//go:linkname newAuthenticator k8s.io/client-go/plugin/pkg/client/auth/exec.newAuthenticator
func newAuthenticator(cache unsafe.Pointer, isTerminal func(int) bool, config *api.ExecConfig, cluster *clientauthentication.Cluster) (*exec.Authenticator, error)

//go:linkname refreshCreds k8s.io/client-go/plugin/pkg/client/auth/exec.(*Authenticator).refreshCredsLocked
func refreshCreds(*exec.Authenticator) error

// startAnew makes an authenticator as good as new, with another terminal.
func startAnew(authenticator *exec.Authenticator, stdin io.Reader) {
	reflected := reflect.ValueOf(authenticator).Elem()
	field(reflected, "stdin").Set(reflect.ValueOf(stdin))
	field(reflected, "cachedCreds").SetZero()
	field(reflected, "exp").SetZero()
}

// credsOf gives what an authenticator got from its plugin.
func credsOf(authenticator *exec.Authenticator) (token string, certificate *tls.Certificate, expiry time.Time) {
	reflected := reflect.ValueOf(authenticator).Elem()
	creds := field(reflected, "cachedCreds").Elem()
	token = field(creds, "token").Interface().(string)
	certificate = field(creds, "cert").Interface().(*tls.Certificate)
	expiry = field(reflected, "exp").Interface().(time.Time)
	return token, certificate, expiry
}
