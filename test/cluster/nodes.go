// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Annotations that a test sets on a pod to steer how kwok plays it; testdata/kwok.yaml says what they mean.
const (
	ReadyAfterAnnotation    = "test.kube-mesos.io/ready-after"
	CompleteAfterAnnotation = "test.kube-mesos.io/complete-after"
	ExitCodeAnnotation      = "test.kube-mesos.io/exit-code"
	StopAfterAnnotation     = "test.kube-mesos.io/stop-after"
)

// kwokNodeAnnotation marks the nodes that kwok manages; it leaves all others alone.
const kwokNodeAnnotation = "kwok.x-k8s.io/node"

//go:embed testdata/kwok.yaml
var kwokConfig []byte

// Node describes a node for AddKwokNodes.
type Node struct {
	Name string
	// CPU and Memory are quantities; empty means 4 and 8Gi. Pods 0 means 110.
	CPU, Memory string
	Pods        int64
	// Labels are added to the ones that a kubelet sets.
	Labels map[string]string
	Taints []corev1.Taint
}

// AddKwokNodes adds nodes that kwok plays, each with a kubeconfig of its own (NodeKubeconfig), and waits until they
// are ready.
func (c *Cluster) AddKwokNodes(ctx context.Context, nodes ...Node) error {
	if err := c.startKwok(); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for _, n := range nodes {
		group.Go(func() error {
			object, err := n.object()
			if err != nil {
				return err
			}
			if err := c.writeNodeKubeconfig(n.Name); err != nil {
				return err
			}
			if _, err := c.Client.CoreV1().Nodes().Create(groupCtx, object, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", n.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := c.waitNodeReady(ctx, c.Kwok, n.Name); err != nil {
			return err
		}
	}
	return nil
}

func (n Node) object() (*corev1.Node, error) {
	capacity := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{
		corev1.ResourceCPU:    or(n.CPU, "4"),
		corev1.ResourceMemory: or(n.Memory, "8Gi"),
		corev1.ResourcePods:   strconv.FormatInt(or(n.Pods, 110), 10),
	} {
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("node %s: %s %q: %w", n.Name, name, value, err)
		}
		capacity[name] = quantity
	}
	labels := map[string]string{
		corev1.LabelHostname:   n.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	maps.Copy(labels, n.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: map[string]string{kwokNodeAnnotation: "fake"}},
		Spec:       corev1.NodeSpec{Taints: n.Taints},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}, nil
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// NotReadyAnnotation keeps kwok from writing the status of a node that is annotated with "true", so that a test can.
const NotReadyAnnotation = "test.kube-mesos.io/not-ready"

// unlessNotReady adds to every stage of nodes that it is not for nodes with the annotation.
func unlessNotReady(stages []byte) []byte {
	const selector = "    matchExpressions:\n"
	return bytes.ReplaceAll(stages, []byte(selector), []byte(selector+
		"    - key: '.metadata.annotations[\""+NotReadyAnnotation+"\"]'\n      operator: 'NotIn'\n      values:\n      - 'true'\n"))
}

func (c *Cluster) startKwok() error {
	if c.Kwok != nil {
		return nil
	}
	// The stages of nodes are kwok's own, the stages of pods are ours.
	stages, err := os.ReadFile(c.tool("kwok-node-stages.yaml"))
	if err != nil {
		return fmt.Errorf("kwok's stages are not built, run `make tools`: %w", err)
	}
	config := c.path("kwok.yaml")
	if err := os.WriteFile(config, append(append(slices.Clone(kwokConfig), "\n"...), unlessNotReady(stages)...), 0o644); err != nil {
		return err
	}
	c.Kwok = c.NewProcess("kwok", c.tool("kwok"), "--kubeconfig="+c.AdminKubeconfig(), "--config="+config)
	c.options.Logf("starting kwok")
	return c.Kwok.Start()
}

// NodeKubeconfig is the path of the kubeconfig by which the API server knows its bearer as the kubelet of the node.
func (c *Cluster) NodeKubeconfig(node string) string {
	return c.path("nodes", node+".kubeconfig")
}

// WriteNodeKubeconfig writes a kubeconfig with a new client certificate of a node, for the API server at url.
func (c *Cluster) WriteNodeKubeconfig(path, url, node string) error {
	return c.clientKubeconfig(path, url, "system:node:"+node, "system:nodes")
}

// WriteForeignNodeKubeconfig is WriteNodeKubeconfig with a certificate that the API server does not accept.
func (c *Cluster) WriteForeignNodeKubeconfig(path, url, node string) error {
	pair, err := c.frontProxy.client("system:node:"+node, "system:nodes")
	if err != nil {
		return err
	}
	return writeKubeconfig(path, url, c.ca.pem, "", &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key})
}

func (c *Cluster) writeNodeKubeconfig(node string) error {
	return c.WriteNodeKubeconfig(c.NodeKubeconfig(node), c.url, node)
}

// StartHollowNode starts a hollow kubelet (real kubelet code over a fake container runtime, with 1 cpu and 3840Mi of
// memory) with the node's own client certificate and waits until its node is ready.
func (c *Cluster) StartHollowNode(ctx context.Context, name string) (*Process, error) {
	if err := c.writeNodeKubeconfig(name); err != nil {
		return nil, err
	}
	var ports [2]int
	for i := range ports {
		port, err := c.Port()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	temp := c.path("tmp", name)
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return nil, err
	}
	p := c.NewProcess("kubelet-"+name, c.tool("kubemark"),
		"--morph=kubelet",
		"--name="+name,
		"--kubeconfig="+c.NodeKubeconfig(name),
		fmt.Sprintf("--kubelet-port=%d", ports[0]),
		fmt.Sprintf("--kubelet-read-only-port=%d", ports[1]),
		"--use-host-image-service=false",
		"--kube-api-qps=100",
		"--kube-api-burst=200",
	)
	p.Env = []string{"TMPDIR=" + temp}
	c.options.Logf("starting hollow kubelet %s", name)
	if err := p.Start(); err != nil {
		return nil, err
	}
	return p, c.waitNodeReady(ctx, p, name)
}

func (c *Cluster) waitNodeReady(ctx context.Context, kubelet *Process, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("gave up"))
	defer cancel()
	return kubelet.WaitUntil(ctx, "node "+name+" to be ready", func(ctx context.Context) error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return errors.New("it has not registered yet")
		}
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				for _, taint := range node.Spec.Taints {
					if taint.Key == corev1.TaintNodeNotReady {
						return errors.New("it is ready but still tainted as not ready")
					}
				}
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", node.Status.Conditions)
	})
}
