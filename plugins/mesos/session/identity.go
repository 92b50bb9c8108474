// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Identity keeps the framework id.
type Identity interface {
	// Load returns the stored id, "" if there is none.
	Load(ctx context.Context) (string, error)
	// Save replaces the stored id if it still is old.
	Save(ctx context.Context, old, id string) error
	// Confirmed says whether an operator has confirmed that the removed id may be replaced while pods are bound with it.
	Confirmed(ctx context.Context, id string) (bool, error)
	// HowToConfirm says to a person how to confirm it.
	HowToConfirm(id string) string
}

// ConfigMapIdentity keeps the framework id in a ConfigMap, together with the identity of the cluster: a ConfigMap that
// was copied from another cluster would make two clusters fight for one framework, so it is refused.
type ConfigMapIdentity struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

// Keys of the ConfigMap's data.
const (
	frameworkKey = "frameworkID"
	clusterKey   = "clusterID"
)

// clusterID is the UID of the kube-system namespace, which lives as long as the cluster.
func (c ConfigMapIdentity) clusterID(ctx context.Context) (string, error) {
	ns, err := c.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("identify the cluster: %w", err)
	}
	return string(ns.UID), nil
}

func (c ConfigMapIdentity) get(ctx context.Context) (*v1.ConfigMap, error) {
	return c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
}

// Load returns the stored framework id.
func (c ConfigMapIdentity) Load(ctx context.Context) (string, error) {
	stored, err := c.get(ctx)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := stored.Data[frameworkKey]
	if id == "" {
		return "", nil
	}
	cluster, err := c.clusterID(ctx)
	if err != nil {
		return "", err
	}
	if of := stored.Data[clusterKey]; of != cluster {
		return "", fmt.Errorf("ConfigMap %s/%s holds the framework id %s of another cluster (%s %q, this cluster is %q): it was copied; delete it here", c.Namespace, c.Name, id, clusterKey, of, cluster)
	}
	return id, nil
}

// Save stores a framework id in place of old, by compare-and-swap on the object's version.
func (c ConfigMapIdentity) Save(ctx context.Context, old, id string) error {
	cluster, err := c.clusterID(ctx)
	if err != nil {
		return err
	}
	stored, err := c.get(ctx)
	if apierrors.IsNotFound(err) {
		if old != "" {
			return fmt.Errorf("ConfigMap %s/%s with the framework id %s is gone", c.Namespace, c.Name, old)
		}
		_, err = c.Client.CoreV1().ConfigMaps(c.Namespace).Create(ctx, &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
			Data:       map[string]string{frameworkKey: id, clusterKey: cluster},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if now := stored.Data[frameworkKey]; now != old {
		return fmt.Errorf("ConfigMap %s/%s holds the framework id %q, not %q: another instance has changed it", c.Namespace, c.Name, now, old)
	}
	if stored.Data == nil {
		stored.Data = map[string]string{}
	}
	stored.Data[frameworkKey], stored.Data[clusterKey] = id, cluster
	delete(stored.Data, launchesKey) // those of the old framework have ended with it
	delete(stored.Annotations, wellknown.ConfirmNewFrameworkAnnotation)
	_, err = c.Client.CoreV1().ConfigMaps(c.Namespace).Update(ctx, stored, metav1.UpdateOptions{})
	return err
}

// Confirmed looks for the annotation that confirms the loss of a framework id.
func (c ConfigMapIdentity) Confirmed(ctx context.Context, id string) (bool, error) {
	stored, err := c.get(ctx)
	if err != nil {
		return false, err
	}
	return stored.Annotations[wellknown.ConfirmNewFrameworkAnnotation] == confirmation(id), nil
}

// HowToConfirm names the annotation.
func (c ConfigMapIdentity) HowToConfirm(id string) string {
	return fmt.Sprintf("ConfigMap %s/%s with %s=%s", c.Namespace, c.Name, wellknown.ConfirmNewFrameworkAnnotation, confirmation(id))
}

// confirmation is what the annotation must say: the id that is given up, or that none is stored.
func confirmation(id string) string {
	if id == "" {
		return "no-id-stored"
	}
	return id
}
