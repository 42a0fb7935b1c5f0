package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// account is a service account, and what becomes of who asks for it or for a token of it.
type account struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	UID         types.UID         `json:"uid"`
	Annotations map[string]string `json:"annotations"`
	// Generation is what its tokens are told apart by. Without one they are empty.
	Generation *int `json:"generation"`
	// Gone is why it is not to be had.
	Gone *string `json:"gone"`
	// Refused is why no token of it is to be had.
	Refused *string `json:"refused"`
}

// pod is who pulls.
type pod struct {
	Namespace      string    `json:"namespace"`
	Name           string    `json:"name"`
	UID            types.UID `json:"uid"`
	ServiceAccount string    `json:"serviceAccount"`
}

// accounts are all service accounts there are, and what was asked of them.
type accounts struct {
	all         map[[2]string]account
	got, wanted []string
}

func newAccounts(first []account) *accounts {
	a := &accounts{all: map[[2]string]account{}}
	for _, each := range first {
		a.set(each)
	}
	return a
}

// set says what an account is like from now on.
func (a *accounts) set(account account) {
	a.all[[2]string{account.Namespace, account.Name}] = account
}

func (a *accounts) find(namespace, name string) (account, error) {
	account, found := a.all[[2]string{namespace, name}]
	if !found {
		return account, fmt.Errorf("serviceaccounts %q not found", name)
	}
	return account, nil
}

func (a *accounts) get(namespace, name string) (*core.ServiceAccount, error) {
	a.got = append(a.got, namespace+"/"+name)
	account, err := a.find(namespace, name)
	if err != nil {
		return nil, err
	}
	if account.Gone != nil {
		return nil, errors.New(*account.Gone)
	}
	return &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: account.UID, Annotations: account.Annotations,
	}}, nil
}

func (a *accounts) token(namespace, name string, request *authentication.TokenRequest) (*authentication.TokenRequest, error) {
	bound := request.Spec.BoundObjectRef
	wanted := fmt.Sprintf("%s/%s/%s for %s in %s/%s", namespace, name, request.UID,
		strings.Join(request.Spec.Audiences, " "), bound.Name, bound.UID)
	if request.Spec.ExpirationSeconds != nil {
		wanted += fmt.Sprintf(" for %d s", *request.Spec.ExpirationSeconds)
	}
	a.wanted = append(a.wanted, wanted)
	account, err := a.find(namespace, name)
	if err != nil {
		return nil, err
	}
	if account.Refused != nil {
		return nil, errors.New(*account.Refused)
	}
	given := request.DeepCopy()
	if account.Generation != nil {
		given.Status.Token = fmt.Sprintf("%s, %d", wanted, *account.Generation)
	}
	return given, nil
}

// asked is which accounts and which tokens were asked for.
type asked struct {
	Accounts []string `json:"accounts"`
	Tokens   []string `json:"tokens"`
}

// newRequests has what was asked for since it was last called; nothing if nothing was.
func (a *accounts) newRequests() *asked {
	got, wanted := a.got, append([]string{}, a.wanted...)
	a.got, a.wanted = nil, nil
	if len(got) == 0 {
		return nil
	}
	slices.Sort(got)
	slices.Sort(wanted)
	return &asked{got, slices.Compact(wanted)}
}
