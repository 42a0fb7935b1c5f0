package main

// What the topics request and answer need of upstream's plugin package and cannot have by its exported names. All doors are here;
// a function that is renamed upstream fails the link, a field that is renamed panics.

import (
	"context"
	"reflect"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	providerapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

const anyImage = "registry.example/app"

// upstreamPlugin is a provider as a kubelet makes it from its configuration.
type upstreamPlugin struct {
	provider unsafe.Pointer // *pluginProvider
	exec     unsafe.Pointer // *execPlugin
	// Where the provider has its plugin; another may be put there.
	place *plugin.Plugin
}

// pluginOf makes a provider of the version, with an empty cache.
func pluginOf(apiVersion string) upstreamPlugin {
	provider := providerOf(apiVersion)
	value := reflect.NewAt(pluginProviderType, provider).Elem()
	place := (*plugin.Plugin)(value.FieldByName("plugin").Addr().UnsafePointer())
	return upstreamPlugin{provider, reflect.ValueOf(*place).UnsafePointer(), place}
}

func providerOf(apiVersion string) unsafe.Pointer {
	provider, err := newPluginProvider("", kubeletconfig.CredentialProvider{
		Name:                 "plugin",
		MatchImages:          []string{anyImage},
		DefaultCacheDuration: &metav1.Duration{},
		APIVersion:           apiVersion,
	}, nil, nil)
	if err != nil {
		panic(err)
	}
	return provider
}

func (p upstreamPlugin) encodeRequest(request *providerapi.CredentialProviderRequest) ([]byte, error) {
	return encodeRequest(p.exec, request)
}

func (p upstreamPlugin) decodeResponse(stdout []byte) (*providerapi.CredentialProviderResponse, error) {
	return decodeResponse(p.exec, stdout)
}

// provide is what a provider says to a response of its plugin.
func (p upstreamPlugin) provide(response *providerapi.CredentialProviderResponse) error {
	*p.place = responding{response}
	_, _, err := provide(p.provider, anyImage, "", "", "", "")
	return err
}

// responding is a plugin that has run already.
type responding struct {
	response *providerapi.CredentialProviderResponse
}

func (r responding) ExecPlugin(context.Context, string, string, map[string]string) (*providerapi.CredentialProviderResponse, error) {
	return r.response, nil
}

// pluginProviderType is a type that has no exported name: a keyring is made of one provider, and taken apart. Nothing stays registered.
var pluginProviderType = func() reflect.Type {
	const name = "taken apart"
	before := registeredProviders
	registerCredentialProviderPlugin(name, providerOf(providerapi.GroupName+"/v1"))
	defer func() {
		registeredProviders = before
		seenProviderNames.Delete(name)
	}()
	keyring := reflect.ValueOf(plugin.NewExternalCredentialProviderDockerKeyring("", "", "", "")).Elem()
	of := keyring.FieldByName("providers")
	perPod := of.Index(of.Len() - 1).Elem().Elem()
	return perPod.FieldByName("provider").Type().Elem()
}()

//go:linkname newPluginProvider k8s.io/kubernetes/pkg/credentialprovider/plugin.newPluginProvider
func newPluginProvider(pluginBinDir string, provider kubeletconfig.CredentialProvider, getServiceAccountToken, getServiceAccount func()) (unsafe.Pointer, error)

//go:linkname registerCredentialProviderPlugin k8s.io/kubernetes/pkg/credentialprovider/plugin.registerCredentialProviderPlugin
func registerCredentialProviderPlugin(name string, provider unsafe.Pointer)

//go:linkname registeredProviders k8s.io/kubernetes/pkg/credentialprovider/plugin.providers
var registeredProviders []struct{}

//go:linkname seenProviderNames k8s.io/kubernetes/pkg/credentialprovider/plugin.seenProviderNames
var seenProviderNames sets.String

//go:linkname encodeRequest k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).encodeRequest
func encodeRequest(exec unsafe.Pointer, request *providerapi.CredentialProviderRequest) ([]byte, error)

//go:linkname decodeResponse k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).decodeResponse
func decodeResponse(exec unsafe.Pointer, data []byte) (*providerapi.CredentialProviderResponse, error)

//go:linkname provide k8s.io/kubernetes/pkg/credentialprovider/plugin.(*pluginProvider).provide
func provide(provider unsafe.Pointer, image, podNamespace, podName string, podUID types.UID, serviceAccountName string) (credentialprovider.DockerConfig, *credentialprovider.ServiceAccountCoordinates, error)
