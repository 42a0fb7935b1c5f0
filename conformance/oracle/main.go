// Oracle answers questions about credential providers with Kubernetes' own code.
//
// Every line of stdin is a question, an object with one field: {"match": {"pattern": "*.io", "image": "a.io/b"}}. The line of
// stdout that follows is its answer. A question that upstream panics on has the answer {"panic": "…"}.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// questions has a function for every kind of question.
var questions = map[string]func(json.RawMessage) any{
	"allowlist":   about(allowlist),
	"answer":      about(answer),
	"bench":       about(bench),
	"built_from":  about(builtFrom),
	"config":      about(config),
	"duration":    about(duration),
	"exec":        about(execStory),
	"exec-answer": about(execAnswer),
	"exec-info":   about(execInfo),
	"image":       about(image),
	"keyring":     about(keyring),
	"lookups":     about(lookups),
	"match":       about(match),
	"providers":   about(providers),
	"records":     about(records),
	"request":     about(request),
	"tokens":      about(tokens),
	"trim":        about(trim),
}

func main() {
	listen(nobody)
	if err := answerAll(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func answerAll(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		} else if err != nil && err != io.EOF {
			return err
		}
		var question map[string]json.RawMessage
		if err := json.Unmarshal(line, &question); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		if len(question) != 1 {
			return fmt.Errorf("a question has one field: %s", line)
		}
		for kind, question := range question {
			answer, known := questions[kind]
			if !known {
				return fmt.Errorf("no such question: %q", kind)
			}
			if err := answers.Encode(answer(question)); err != nil {
				return err
			}
		}
	}
}

// about makes an entry of questions from a function of its type. A question that is not of the type ends the program.
func about[Q any](answer func(Q) any) func(json.RawMessage) any {
	return func(text json.RawMessage) (result any) {
		var question Q
		fields := json.NewDecoder(bytes.NewReader(text))
		fields.DisallowUnknownFields()
		if err := fields.Decode(&question); err != nil {
			fmt.Fprintf(os.Stderr, "oracle: %v: %s\n", err, text)
			os.Exit(1)
		}
		defer func() {
			if cause := recover(); cause != nil {
				result = map[string]string{"panic": fmt.Sprint(cause)}
			}
		}()
		return answer(question)
	}
}

// failure is the answer of whatever upstream refuses, in its own words.
type failure struct {
	Error string `json:"error"`
}

// listen lets a sink have upstream's log.
func listen(sink logr.LogSink) {
	klog.SetLogger(logr.New(sink))
}

// nobody listens most of the time.
var nobody = logr.Discard().GetSink()
