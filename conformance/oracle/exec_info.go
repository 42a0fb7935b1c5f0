package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/tools/clientcmd"
)

type infoQuestion struct {
	APIVersion  string       `json:"apiVersion"`
	Interactive bool         `json:"interactive"`
	Cluster     *infoCluster `json:"cluster"`
}

type infoCluster struct {
	Server                   string      `json:"server"`
	TLSServerName            string      `json:"tlsServerName"`
	InsecureSkipTLSVerify    bool        `json:"insecureSkipTlsVerify"`
	CertificateAuthorityData []byte      `json:"certificateAuthorityData"`
	ProxyURL                 string      `json:"proxyUrl"`
	DisableCompression       bool        `json:"disableCompression"`
	Config                   *infoConfig `json:"config"`
}

// infoConfig is what a program set, or what stands in the extension of a kubeconfig.
type infoConfig struct {
	Program    *string `json:"program"`
	Kubeconfig *string `json:"kubeconfig"`
}

// execInfo says what a plugin finds in KUBERNETES_EXEC_INFO.
func execInfo(q infoQuestion) any {
	version, known := execAPIVersions[q.APIVersion]
	if !known {
		_, err := cats.of(q.APIVersion)
		return failure{err.Error()}
	}
	request := &clientauthentication.ExecCredential{Spec: clientauthentication.ExecCredentialSpec{Interactive: q.Interactive}}
	if q.Cluster != nil {
		config, err := q.Cluster.Config.object()
		if err != nil {
			return failure{err.Error()}
		}
		request.Spec.Cluster = &clientauthentication.Cluster{
			Server:                   q.Cluster.Server,
			TLSServerName:            q.Cluster.TLSServerName,
			InsecureSkipTLSVerify:    q.Cluster.InsecureSkipTLSVerify,
			CertificateAuthorityData: q.Cluster.CertificateAuthorityData,
			ProxyURL:                 q.Cluster.ProxyURL,
			DisableCompression:       q.Cluster.DisableCompression,
			Config:                   config,
		}
	}
	text, err := runtime.Encode(execCodecs.LegacyCodec(version), request)
	if err != nil {
		return failure{err.Error()}
	}
	return struct {
		Info string `json:"info"`
	}{string(text)}
}

func (c *infoConfig) object() (runtime.Object, error) {
	switch {
	case c == nil:
		return nil, nil
	case c.Program != nil:
		return &runtime.Unknown{Raw: []byte(*c.Program)}, nil
	}
	const extension = "client.authentication.k8s.io/exec"
	file := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {extensions: [{name: %s, extension: %s\n}]}}]", extension, *c.Kubeconfig)
	config, err := clientcmd.Load([]byte(file))
	if err != nil {
		return nil, err
	}
	return config.Clusters["c"].Extensions[extension], nil
}
