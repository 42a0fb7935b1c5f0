package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"
)

type recordsQuestion struct {
	Policy    kubeletconfig.ImagePullCredentialsVerificationPolicy `json:"policy"`
	Allowlist []string                                             `json:"allowlist"`
	// Intents and Records are how many of them are kept in memory.
	Intents int32         `json:"intents"`
	Records int32         `json:"records"`
	Steps   []recordsStep `json:"steps"`
}

// recordsStep has one of these.
type recordsStep struct {
	// Start is the first step. Another one is a new start after a kill.
	Start  *recordsStart `json:"start"`
	Intent *string       `json:"intent"`
	Pulled *pulledImage  `json:"pulled"`
	Failed *string       `json:"failed"`
	Must   *wantedImage  `json:"must"`
	Prune  *pruning      `json:"prune"`
}

// recordsStart is what is there when a kubelet starts.
type recordsStart struct {
	Files  []recordsFile `json:"files"`
	Images []struct {
		ID      string   `json:"id"`
		Tags    []string `json:"tags"`
		Digests []string `json:"digests"`
	} `json:"images"`
}

type pulledImage struct {
	Image  string       `json:"image"`
	ID     string       `json:"id"`
	Access *imageAccess `json:"access"`
}

type imageAccess struct {
	Secrets  []accessSecret `json:"secrets"`
	Accounts []coordinates  `json:"accounts"`
	Node     bool           `json:"node"`
}

type accessSecret struct {
	coordinates
	Hash string `json:"hash"`
}

// wantedImage is what a pod wants, and has for it.
type wantedImage struct {
	Image   string         `json:"image"`
	ID      string         `json:"id"`
	Secrets []accessSecret `json:"secrets"`
	Account *coordinates   `json:"account"`
	// Unknown is that nobody can say what the pod has.
	Unknown bool `json:"unknown"`
}

type pruning struct {
	Images []string  `json:"images"`
	Until  time.Time `json:"until"`
}

type recordsAnswer struct {
	Steps []recordsResult `json:"steps"`
	// Metrics are those of each start, at its end.
	Metrics []recordsMetrics `json:"metrics"`
}

type recordsResult struct {
	Failed bool `json:"failed,omitempty"`
	// Must is whether the image must be pulled, and Asked whether it depended on what the pod has.
	Must  *bool `json:"must,omitempty"`
	Asked bool  `json:"asked,omitempty"`
	// Changed are the files that are not as they were before: what is in them, or null if they are gone.
	Changed map[string]*string `json:"changed,omitempty"`
}

// records says which images must be pulled again, and what is written down about that.
func records(q recordsQuestion) any {
	policy, err := pullmanager.NewImagePullCredentialVerificationPolicy(q.Policy, q.Allowlist)
	if err != nil {
		return failure{err.Error()}
	}
	folder := must(os.MkdirTemp("", "oracle"))
	defer os.RemoveAll(folder)
	answer, snapshot := recordsAnswer{}, newSnapshot(folder)
	var manager *pullmanager.PullManager
	for i, step := range q.Steps {
		if step.Start != nil {
			if i > 0 {
				answer.Metrics = append(answer.Metrics, metricsOfRecords(folder))
			}
			legacyregistry.Reset()
			for _, file := range step.Start.Files {
				file.write(folder)
			}
			snapshot.changes(i)
			manager, err = q.start(folder, policy, *step.Start)
			answer.Steps = append(answer.Steps, recordsResult{Failed: err != nil, Changed: snapshot.changes(i)})
			if err != nil {
				break
			}
			continue
		}
		result := step.do(manager)
		result.Changed = snapshot.changes(i)
		answer.Steps = append(answer.Steps, result)
	}
	answer.Metrics = append(answer.Metrics, metricsOfRecords(folder))
	return answer
}

// start does what a kubelet does when it starts.
func (q recordsQuestion) start(folder string, policy pullmanager.ImagePullPolicyEnforcer, start recordsStart) (*pullmanager.PullManager, error) {
	const stripes = 4
	files, err := pullmanager.NewFSPullRecordsAccessor(klog.Background(), folder)
	if err != nil {
		return nil, err
	}
	memory := pullmanager.NewCachedPullRecordsAccessor(klog.Background(), files, q.Intents, q.Records, stripes)
	runtime := localImages{}
	for _, image := range start.Images {
		runtime.images = append(runtime.images, container.Image{ID: image.ID, RepoTags: image.Tags, RepoDigests: image.Digests})
	}
	return pullmanager.NewImagePullManager(context.Background(), memory, policy, runtime, stripes)
}

func (s recordsStep) do(manager *pullmanager.PullManager) recordsResult {
	ctx := context.Background()
	switch {
	case s.Intent != nil:
		return recordsResult{Failed: manager.RecordPullIntent(klog.Background(), *s.Intent) != nil}
	case s.Pulled != nil:
		manager.RecordImagePulled(ctx, s.Pulled.Image, s.Pulled.ID, s.Pulled.Access.upstream())
		return recordsResult{}
	case s.Failed != nil:
		manager.RecordImagePullFailed(ctx, *s.Failed)
		return recordsResult{}
	case s.Prune != nil:
		manager.PruneUnknownRecords(ctx, s.Prune.Images, s.Prune.Until)
		return recordsResult{}
	}
	result := recordsResult{}
	must, err := manager.MustAttemptImagePull(ctx, s.Must.Image, s.Must.ID, func() ([]kubeletconfig.ImagePullSecret, *kubeletconfig.ImagePullServiceAccount, error) {
		result.Asked = true
		if s.Must.Unknown {
			return nil, nil, errors.New("unknown")
		}
		return upstreamSecrets(s.Must.Secrets), s.Must.Account.upstream(), nil
	})
	result.Must, result.Failed = &must, err != nil
	return result
}

func (a *imageAccess) upstream() *kubeletconfig.ImagePullCredentials {
	if a == nil {
		return nil
	}
	access := &kubeletconfig.ImagePullCredentials{KubernetesSecrets: upstreamSecrets(a.Secrets), NodePodsAccessible: a.Node}
	for _, account := range a.Accounts {
		access.KubernetesServiceAccounts = append(access.KubernetesServiceAccounts, *account.upstream())
	}
	return access
}

func upstreamSecrets(secrets []accessSecret) []kubeletconfig.ImagePullSecret {
	var all []kubeletconfig.ImagePullSecret
	for _, each := range secrets {
		all = append(all, kubeletconfig.ImagePullSecret{UID: each.UID, Namespace: each.Namespace, Name: each.Name, CredentialHash: each.Hash})
	}
	return all
}

func (c *coordinates) upstream() *kubeletconfig.ImagePullServiceAccount {
	if c == nil {
		return nil
	}
	return &kubeletconfig.ImagePullServiceAccount{UID: c.UID, Namespace: c.Namespace, Name: c.Name}
}

// recordsMetrics has how many checks ended in which way, and how many files are counted.
type recordsMetrics struct {
	Checks  map[string]float64 `json:"checks"`
	Intents uint               `json:"intents"`
	Records uint               `json:"records"`
}

// metricsOfRecords counts files itself: upstream does so when it writes one, and shows that count until it writes the next.
func metricsOfRecords(folder string) recordsMetrics {
	metrics := recordsMetrics{Checks: map[string]float64{}}
	metrics.Intents, _ = countCacheFiles(filepath.Join(folder, "image_manager", "pulling"))
	metrics.Records, _ = countCacheFiles(filepath.Join(folder, "image_manager", "pulled"))
	for _, family := range must(legacyregistry.DefaultGatherer.Gather()) {
		if family.GetName() == "kubelet_imagemanager_image_mustpull_checks_total" {
			for _, metric := range family.GetMetric() {
				metrics.Checks[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return metrics
}

// localImages is a container runtime that knows its images and nothing else.
type localImages struct {
	container.ImageService
	images []container.Image
}

func (l localImages) ListImages(context.Context) ([]container.Image, error) {
	return l.images, nil
}
