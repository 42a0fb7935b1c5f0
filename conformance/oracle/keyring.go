package main

import (
	"fmt"
	"unicode/utf8"
	_ "unsafe" // for linkname

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	providerapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"
	"k8s.io/kubernetes/pkg/util/parsers"
)

type keyringQuestion struct {
	Image string `json:"image"`
	// The pod's pull secrets, in its order.
	Secrets []pullSecret `json:"secrets"`
	// The node's docker configuration.
	Node *nodeConfig `json:"node"`
	// What the providers answered, in the order of the configuration; an entry has key, user name and password.
	Providers [][][3]string `json:"providers"`
}

type pullSecret struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	UID       string          `json:"uid"`
	Type      string          `json:"type"`
	Data      map[string]text `json:"data"`
}

type nodeConfig struct {
	Legacy bool `json:"legacy"`
	Text   text `json:"text"`
}

type keyringAnswer struct {
	Credentials []keyringCredential `json:"credentials"`
	Found       bool                `json:"found"`
	// Why the node's docker configuration gives nothing.
	Node string `json:"node,omitempty"`
}

type keyringCredential struct {
	Username string             `json:"username"`
	Password string             `json:"password"`
	Email    string             `json:"email,omitempty"`
	Hash     string             `json:"hash"`
	Secret   *secretCoordinates `json:"secret"`
	// User name and password, if they are no text.
	Bytes [][]byte `json:"bytes,omitempty"`
}

type secretCoordinates struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// keyring says which credentials a kubelet tries for an image, and in which order: those of the pod's secrets, then the node's,
// then what providers answered.
func keyring(q keyringQuestion) any {
	repository, _, _, err := parsers.ParseImageName(q.Image)
	if err != nil {
		return failure{err.Error()}
	}
	var answer keyringAnswer
	node := &credentialprovider.BasicDockerKeyring{}
	if q.Node != nil {
		config, err := q.Node.read()
		if err != nil {
			answer.Node = err.Error()
		}
		node.Add(nil, config)
	}
	defer answerReady(q.Providers, repository)()
	rest := credentialprovider.UnionDockerKeyring{node, plugin.NewExternalCredentialProviderDockerKeyring("", "", "", "")}
	for n := range q.Secrets {
		// Upstream's error names no secret; the first whose addition makes it fail is the one.
		if _, err := secrets.MakeDockerKeyring(kubernetesSecrets(q.Secrets[:n+1]), rest); err != nil {
			return struct {
				failure
				Secret int `json:"secret"`
			}{failure{err.Error()}, n}
		}
	}
	all, err := secrets.MakeDockerKeyring(kubernetesSecrets(q.Secrets), rest)
	if err != nil {
		return failure{err.Error()}
	}
	found, ok := all.Lookup(repository)
	answer.Found = ok
	answer.Credentials = make([]keyringCredential, len(found))
	for i, credential := range found {
		answer.Credentials[i] = shownCredential(credential)
	}
	return answer
}

func (n nodeConfig) read() (credentialprovider.DockerConfig, error) {
	if n.Legacy {
		return credentialprovider.ReadDockerConfigFileFromBytes(n.Text)
	}
	return readDockerConfigJSON(n.Text)
}

// The one door of this topic: the reader of config.json, without a file.
//
//go:linkname readDockerConfigJSON k8s.io/kubernetes/pkg/credentialprovider.readDockerConfigJSONFileFromBytes
func readDockerConfigJSON(contents []byte) (credentialprovider.DockerConfig, error)

// answerReady registers providers for a repository, which have their answers ready. What it gives unregisters them.
func answerReady(answers [][][3]string, repository string) func() {
	unregisterAll()
	for n, entries := range answers {
		auth := map[string]providerapi.AuthConfig{}
		for _, entry := range entries {
			auth[entry[0]] = providerapi.AuthConfig{Username: entry[1], Password: entry[2]}
		}
		register(fmt.Sprint(n), repository, responding{&providerapi.CredentialProviderResponse{
			CacheKeyType: providerapi.ImagePluginCacheKeyType,
			Auth:         auth,
		}})
	}
	return unregisterAll
}

func kubernetesSecrets(given []pullSecret) []v1.Secret {
	result := make([]v1.Secret, len(given))
	for i, secret := range given {
		data := map[string][]byte{}
		for key, value := range secret.Data {
			data[key] = value
		}
		result[i] = v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Namespace: secret.Namespace, UID: types.UID(secret.UID)},
			Type:       v1.SecretType(secret.Type),
			Data:       data,
		}
	}
	return result
}

func shownCredential(credential credentialprovider.TrackedAuthConfig) keyringCredential {
	shown := keyringCredential{
		Username: credential.Username,
		Password: credential.Password,
		Email:    credential.Email,
		Hash:     credential.AuthConfigHash,
	}
	if !utf8.ValidString(credential.Username) || !utf8.ValidString(credential.Password) {
		shown.Bytes = [][]byte{[]byte(credential.Username), []byte(credential.Password)}
	}
	if credential.Source != nil {
		secret := credential.Source.Secret
		shown.Secret = &secretCoordinates{secret.UID, secret.Namespace, secret.Name}
	}
	return shown
}
