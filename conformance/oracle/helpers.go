package main

import "os"

// scriptedPlugin is a program that does what it is told: the scripted-plugin of keyfob-testkit.
func scriptedPlugin() string {
	plugin := os.Getenv("KEYFOB_SCRIPTED_PLUGIN")
	if plugin == "" {
		panic("KEYFOB_SCRIPTED_PLUGIN is not set")
	}
	return plugin
}

// must gives what there is no reason to fail for; a panic is an answer that is never right.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
