package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/kubelet/pkg/apis/credentialprovider"
)

type requestQuestion struct {
	APIVersion  string            `json:"apiVersion"`
	Image       string            `json:"image"`
	Token       string            `json:"token"`
	Annotations map[string]string `json:"annotations"`
}

// request says what a plugin reads from its stdin.
func request(q requestQuestion) any {
	data, err := providerOf(q.APIVersion).encodeRequest(&credentialprovider.CredentialProviderRequest{
		Image:                     q.Image,
		ServiceAccountToken:       q.Token,
		ServiceAccountAnnotations: q.Annotations,
	})
	if err != nil {
		return failure{err.Error()}
	}
	return struct {
		Stdin string `json:"stdin"`
	}{string(data)}
}

type answerQuestion struct {
	APIVersion string `json:"apiVersion"`
	Stdout     text   `json:"stdout"`
}

type answerAnswer struct {
	CacheKeyType  credentialprovider.PluginCacheKeyType `json:"cacheKeyType"`
	CacheDuration *int64                                `json:"cacheDuration"`
	Auth          map[string]answerAuth                 `json:"auth"`
}

type answerAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// answer says what a plugin's stdout means, by the steps of ExecPlugin after the run. Why it is refused, a kubelet mostly hides; at
// which step, it does not.
func answer(q answerQuestion) any {
	type refusal struct {
		Refused string `json:"refused"`
	}
	provider := providerOf(q.APIVersion)
	said, err := json.DefaultMetaFactory.Interpret(q.Stdout)
	if err != nil {
		if strings.HasPrefix(err.Error(), "unexpected GroupVersion string: ") {
			return refusal{"its version has too many parts"}
		}
		return refusal{"it names no version"}
	}
	if said.GroupVersion().String() != q.APIVersion {
		return refusal{"it names another version"}
	}
	response, err := provider.decodeResponse(q.Stdout)
	if err != nil {
		return refusal{"it cannot be decoded"}
	}
	provider.setPlugin(responding{response})
	if err := provider.provide(anyImage); err != nil {
		if err.Error() != fmt.Sprintf("credential provider plugin did not return a valid cacheKeyType: %s", response.CacheKeyType) {
			panic(err)
		}
		return refusal{"its cacheKeyType is unknown"}
	}
	shown := answerAnswer{CacheKeyType: response.CacheKeyType, Auth: map[string]answerAuth{}}
	if response.CacheDuration != nil {
		nanos := response.CacheDuration.Nanoseconds()
		shown.CacheDuration = &nanos
	}
	for key, auth := range response.Auth {
		shown.Auth[key] = answerAuth{auth.Username, auth.Password}
	}
	return shown
}

const anyImage = "registry.example/app"

// providerOf makes a provider whose plugin speaks this version.
func providerOf(apiVersion string) pluginProvider {
	config := configFor("provider", anyImage)
	config.APIVersion = apiVersion
	return newProvider(config)
}

// responding is a plugin that has run already.
type responding struct {
	response *credentialprovider.CredentialProviderResponse
}

func (r responding) ExecPlugin(context.Context, string, string, map[string]string) (*credentialprovider.CredentialProviderResponse, error) {
	return r.response, nil
}
