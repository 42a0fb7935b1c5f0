package main

import (
	"runtime/debug"
	"strings"
)

// builtFrom says whose code answers.
func builtFrom(struct{}) any {
	var modules []string
	if info, ok := debug.ReadBuildInfo(); ok {
		modules = append(modules, info.GoVersion)
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			if module.Path == "k8s.io/kubernetes" || strings.HasSuffix(module.Path, "/client-go") {
				modules = append(modules, module.Path+" "+module.Version)
			}
		}
	}
	return struct {
		Modules []string `json:"modules"`
	}{modules}
}
