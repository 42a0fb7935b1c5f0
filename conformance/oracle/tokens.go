package main

import (
	"errors"
	"strconv"
	"time"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

type tokensQuestion struct {
	// Steps have one of these each.
	Steps []struct {
		Advance *string      `json:"advance"`
		Serve   *tokenServer `json:"serve"`
		Get     *wantedToken `json:"get"`
		Forget  *types.UID   `json:"forget"`
	} `json:"steps"`
}

// tokenServer numbers its tokens.
type tokenServer struct {
	// Expires is how long after it is made a token ends; without it there are none.
	Expires *string `json:"expires"`
	// Seconds is how long a token lives, as the server says.
	Seconds *int64 `json:"seconds"`
}

type wantedToken struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Audiences []string  `json:"audiences"`
	Seconds   *int64    `json:"seconds"`
	Pod       string    `json:"pod"`
	PodUID    types.UID `json:"pod_uid"`
}

type tokensAnswer struct {
	Given    []*string `json:"given"`
	Requests int       `json:"requests"`
}

// tokens says which tokens a kubelet's token manager gives out, and how many it asks for.
func tokens(q tokensQuestion) any {
	clock := clocktesting.NewFakeClock(time.Date(2030, 3, 17, 17, 46, 40, 0, time.UTC))
	answer, server := tokensAnswer{Given: []*string{}}, tokenServer{}
	manager := newTokenManager(clock, func(_, _ string, request *authentication.TokenRequest) (*authentication.TokenRequest, error) {
		answer.Requests++
		if server.Expires == nil {
			return nil, errors.New("no token")
		}
		given := request.DeepCopy()
		given.Spec.ExpirationSeconds = server.Seconds
		given.Status.Token = strconv.Itoa(answer.Requests)
		given.Status.ExpirationTimestamp = metav1.NewTime(clock.Now().Add(must(time.ParseDuration(*server.Expires))))
		return given, nil
	})
	for _, step := range q.Steps {
		switch {
		case step.Advance != nil:
			clock.Step(must(time.ParseDuration(*step.Advance)))
		case step.Serve != nil:
			server = *step.Serve
		case step.Forget != nil:
			manager.DeleteServiceAccountToken(*step.Forget)
		default:
			// A kubelet does so every minute.
			cleanUpTokens(manager)
			var given *string
			if token, err := manager.GetServiceAccountToken(step.Get.Namespace, step.Get.Name, step.Get.request()); err == nil {
				given = &token.Status.Token
			}
			answer.Given = append(answer.Given, given)
		}
	}
	return answer
}

func (w *wantedToken) request() *authentication.TokenRequest {
	return &authentication.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{UID: w.UID},
		Spec: authentication.TokenRequestSpec{
			Audiences:         w.Audiences,
			ExpirationSeconds: w.Seconds,
			BoundObjectRef:    &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: w.Pod, UID: w.PodUID},
		},
	}
}
