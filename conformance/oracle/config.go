package main

import (
	"os"
	"path/filepath"
	"strings"

	validation "k8s.io/apimachinery/pkg/util/validation/field"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

type configQuestion struct {
	Files []configFile `json:"files"`
	// What is read: a file of the directory, or the directory itself if it is empty.
	Path string `json:"path"`
}

// configFile is something in the directory: a file unless another field says what it is.
type configFile struct {
	Name      string `json:"name"`
	Content   text   `json:"content"`
	Link      string `json:"link"`
	Directory bool   `json:"directory"`
}

type configAnswer struct {
	Hash      string           `json:"hash"`
	Providers []configProvider `json:"providers"`
	Invalid   string           `json:"invalid"`
	// Without the feature gate of service account tokens.
	InvalidWithoutGate string `json:"invalid_without_gate"`
}

type configProvider struct {
	Name                 string        `json:"name"`
	MatchImages          []string      `json:"matchImages"`
	DefaultCacheDuration *string       `json:"defaultCacheDuration"`
	APIVersion           string        `json:"apiVersion"`
	Args                 []string      `json:"args"`
	Env                  [][2]string   `json:"env"`
	TokenAttributes      *configTokens `json:"tokenAttributes"`
}

type configTokens struct {
	ServiceAccountTokenAudience          string   `json:"serviceAccountTokenAudience"`
	CacheType                            string   `json:"cacheType"`
	RequireServiceAccount                *bool    `json:"requireServiceAccount"`
	RequiredServiceAccountAnnotationKeys []string `json:"requiredServiceAccountAnnotationKeys"`
	OptionalServiceAccountAnnotationKeys []string `json:"optionalServiceAccountAnnotationKeys"`
}

// config says what a kubelet makes of a configuration. In texts, DIR stands for the directory.
func config(q configQuestion) any {
	directory := must(os.MkdirTemp("", "oracle"))
	defer os.RemoveAll(directory)
	for _, file := range q.Files {
		check(file.write(filepath.Join(directory, file.Name)))
	}
	path := directory
	if q.Path != "" {
		path = directory + "/" + q.Path
	}
	read, hash, err := readCredentialProviderConfig(path)
	if err != nil {
		return failure{strings.ReplaceAll(err.Error(), directory, "DIR")}
	}
	answer := configAnswer{Hash: hash, Providers: []configProvider{}}
	for _, provider := range read.Providers {
		answer.Providers = append(answer.Providers, providerAnswer(provider))
	}
	answer.Invalid = joined(validateCredentialProviderConfig(read, true))
	answer.InvalidWithoutGate = joined(validateCredentialProviderConfig(read, false))
	return answer
}

func (f configFile) write(path string) error {
	switch {
	case f.Directory:
		return os.Mkdir(path, 0o700)
	case f.Link != "":
		return os.Symlink(f.Link, path)
	default:
		return os.WriteFile(path, f.Content, 0o600)
	}
}

func providerAnswer(provider kubeletconfig.CredentialProvider) configProvider {
	answer := configProvider{
		Name:        provider.Name,
		MatchImages: list(provider.MatchImages),
		APIVersion:  provider.APIVersion,
		Args:        list(provider.Args),
		Env:         [][2]string{},
	}
	if provider.DefaultCacheDuration != nil {
		text := provider.DefaultCacheDuration.Duration.String()
		answer.DefaultCacheDuration = &text
	}
	for _, variable := range provider.Env {
		answer.Env = append(answer.Env, [2]string{variable.Name, variable.Value})
	}
	if tokens := provider.TokenAttributes; tokens != nil {
		answer.TokenAttributes = &configTokens{
			ServiceAccountTokenAudience:          tokens.ServiceAccountTokenAudience,
			CacheType:                            string(tokens.CacheType),
			RequireServiceAccount:                tokens.RequireServiceAccount,
			RequiredServiceAccountAnnotationKeys: list(tokens.RequiredServiceAccountAnnotationKeys),
			OptionalServiceAccountAnnotationKeys: list(tokens.OptionalServiceAccountAnnotationKeys),
		}
	}
	return answer
}

// list is [] in JSON also where nothing was given: no behaviour depends on that.
func list(texts []string) []string {
	return append([]string{}, texts...)
}

func joined(errors validation.ErrorList) string {
	if err := errors.ToAggregate(); err != nil {
		return err.Error()
	}
	return ""
}
