package main

import (
	_ "github.com/go-logr/logr"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth/exec"
	_ "k8s.io/client-go/rest"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "k8s.io/kubelet/pkg/apis/credentialprovider"
	_ "k8s.io/kubernetes/pkg/credentialprovider/plugin"
	_ "k8s.io/kubernetes/pkg/credentialprovider/secrets"
	_ "k8s.io/kubernetes/pkg/kubelet/apis/config"
	_ "k8s.io/utils/clock/testing"
)
