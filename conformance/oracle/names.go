package main

import (
	"time"

	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/util/parsers"
)

type matchQuestion struct {
	Pattern string `json:"pattern"`
	Image   string `json:"image"`
}

// match says whether a pattern of matchImages, or a key of a keyring, matches.
func match(q matchQuestion) any {
	matches, err := credentialprovider.URLsMatchStr(q.Pattern, q.Image)
	if err != nil {
		return failure{err.Error()}
	}
	return struct {
		Match bool `json:"match"`
	}{matches}
}

type imageQuestion struct {
	Image string `json:"image"`
}

// image says how a kubelet reads an image's name before it asks for credentials.
func image(q imageQuestion) any {
	repository, tag, digest, err := parsers.ParseImageName(q.Image)
	if err != nil {
		return failure{err.Error()}
	}
	return struct {
		Repository string `json:"repository"`
		Tag        string `json:"tag"`
		Digest     string `json:"digest"`
	}{repository, tag, digest}
}

type durationQuestion struct {
	Duration string `json:"duration"`
}

// duration says what a duration means, and how it is printed.
func duration(q durationQuestion) any {
	duration, err := time.ParseDuration(q.Duration)
	if err != nil {
		return failure{err.Error()}
	}
	return struct {
		Nanos int64  `json:"nanos"`
		Text  string `json:"text"`
	}{duration.Nanoseconds(), duration.String()}
}
