package main

// The doors into what upstream's plugin package does not export: every use of linkname, reflect and unsafe on it is in this
// file. A function that upstream renames fails the link; a field that it renames is a panic, not a wrong answer.

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	providerapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/utils/clock"
)

// Whatever is registered stays so for the life of a kubelet. The type of the elements is not known here: the slice is only
// ever replaced.
//
//go:linkname registered k8s.io/kubernetes/pkg/credentialprovider/plugin.providers
var registered []struct{}

//go:linkname registeredNames k8s.io/kubernetes/pkg/credentialprovider/plugin.seenProviderNames
var registeredNames sets.String

// unregisterAll makes the process one in which no plugin was registered yet.
func unregisterAll() {
	registered = nil
	registeredNames = sets.NewString()
}

// pluginProvider is upstream's type of that name.
type pluginProvider struct {
	fields reflect.Value
}

// newProvider makes a provider as a kubelet makes it from its configuration. Nothing stays registered.
func newProvider(config kubeletconfig.CredentialProvider) pluginProvider {
	made := must(newPluginProvider("", config, nil, nil))
	providers, names := registered, registeredNames
	defer func() { registered, registeredNames = providers, names }()
	unregisterAll()
	registerCredentialProviderPlugin(config.Name, made)
	return registeredProviders()[0]
}

// register makes a provider for a pattern whose plugin is no process.
func register(name, pattern string, instead plugin.Plugin) {
	registerCredentialProviderPlugin(name, must(newPluginProvider("", configFor(name, pattern), nil, nil)))
	providers := registeredProviders()
	providers[len(providers)-1].setPlugin(instead)
}

func configFor(name string, patterns ...string) kubeletconfig.CredentialProvider {
	return kubeletconfig.CredentialProvider{
		Name:                 name,
		MatchImages:          patterns,
		DefaultCacheDuration: &metav1.Duration{Duration: time.Minute},
		APIVersion:           "credentialprovider.kubelet.k8s.io/v1",
	}
}

// registeredProviders has what a keyring would ask, in its order.
func registeredProviders() []pluginProvider {
	keyring := reflect.ValueOf(plugin.NewExternalCredentialProviderDockerKeyring("", "", "", ""))
	perPod := field(keyring.Elem(), "providers")
	providers := make([]pluginProvider, perPod.Len())
	for i := range providers {
		providers[i].fields = field(perPod.Index(i).Elem().Elem(), "provider").Elem()
	}
	return providers
}

func (p pluginProvider) isImageAllowed(image string) bool {
	return isImageAllowed(p.fields.Addr().UnsafePointer(), image)
}

func (p pluginProvider) provide(image string) error {
	_, _, err := provide(p.fields.Addr().UnsafePointer(), image, "", "", "", "")
	return err
}

func (p pluginProvider) encodeRequest(request *providerapi.CredentialProviderRequest) ([]byte, error) {
	return encodeRequest(p.execPlugin(), request)
}

func (p pluginProvider) decodeResponse(stdout []byte) (*providerapi.CredentialProviderResponse, error) {
	return decodeResponse(p.execPlugin(), stdout)
}

func (p pluginProvider) execPlugin() unsafe.Pointer {
	return field(p.fields, "plugin").Elem().UnsafePointer()
}

// setPlugin puts something in the place of the process.
func (p pluginProvider) setPlugin(plugin plugin.Plugin) {
	field(p.fields, "plugin").Set(reflect.ValueOf(plugin))
}

// setClock lets everything that asks for the time ask this clock, as if the provider had been made with it.
func (p pluginProvider) setClock(clock clock.Clock) {
	now := reflect.ValueOf(clock)
	field(p.fields, "clock").Set(now)
	field(p.fields, "lastCachePurge").Set(reflect.ValueOf(clock.Now()))
	store := field(p.fields, "cache").Elem().Elem()
	field(field(store, "expirationPolicy").Elem().Elem(), "clock").Set(now)
}

// kept has the keys of the answers that are not expired, and when they expire.
func (p pluginProvider) kept() map[string]time.Time {
	store := field(p.fields, "cache").Interface().(cache.Store)
	kept := map[string]time.Time{}
	for _, key := range store.ListKeys() {
		if entry, found, _ := store.GetByKey(key); found {
			kept[key] = field(reflect.ValueOf(entry).Elem(), "expiresAt").Interface().(time.Time)
		}
	}
	return kept
}

// field gives a field of a struct that can be read and set, exported or not.
func field(of reflect.Value, name string) reflect.Value {
	found := of.FieldByName(name)
	if !found.IsValid() {
		panic(fmt.Sprintf("%v has no field %s", of.Type(), name))
	}
	return reflect.NewAt(found.Type(), unsafe.Pointer(found.UnsafeAddr())).Elem()
}

//go:linkname newPluginProvider k8s.io/kubernetes/pkg/credentialprovider/plugin.newPluginProvider
func newPluginProvider(binDir string, config kubeletconfig.CredentialProvider, token, account func()) (unsafe.Pointer, error)

//go:linkname registerCredentialProviderPlugin k8s.io/kubernetes/pkg/credentialprovider/plugin.registerCredentialProviderPlugin
func registerCredentialProviderPlugin(name string, provider unsafe.Pointer)

//go:linkname isImageAllowed k8s.io/kubernetes/pkg/credentialprovider/plugin.(*pluginProvider).isImageAllowed
func isImageAllowed(provider unsafe.Pointer, image string) bool

//go:linkname provide k8s.io/kubernetes/pkg/credentialprovider/plugin.(*pluginProvider).provide
func provide(provider unsafe.Pointer, image, podNamespace, podName string, podUID types.UID, serviceAccountName string) (credentialprovider.DockerConfig, *credentialprovider.ServiceAccountCoordinates, error)

//go:linkname encodeRequest k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).encodeRequest
func encodeRequest(exec unsafe.Pointer, request *providerapi.CredentialProviderRequest) ([]byte, error)

//go:linkname decodeResponse k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).decodeResponse
func decodeResponse(exec unsafe.Pointer, data []byte) (*providerapi.CredentialProviderResponse, error)

//go:linkname readCredentialProviderConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfig
func readCredentialProviderConfig(path string) (*kubeletconfig.CredentialProviderConfig, string, error)

//go:linkname validateCredentialProviderConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.validateCredentialProviderConfig
func validateCredentialProviderConfig(config *kubeletconfig.CredentialProviderConfig, serviceAccountTokens bool) validation.ErrorList

//go:linkname pluginScheme k8s.io/kubernetes/pkg/credentialprovider/plugin.scheme
var pluginScheme *runtime.Scheme

// A scheme is called by the line that made it. The search for that line stops too early if apimachinery's path has a version
// in it, as in the module cache; a kubelet is built from its own tree, and prints this.
func init() {
	name := field(reflect.ValueOf(pluginScheme).Elem(), "schemeName")
	name.SetString("pkg/credentialprovider/plugin/plugin.go:69")
	if pluginScheme.Name() != name.String() {
		panic("a scheme's name is elsewhere now")
	}
}
