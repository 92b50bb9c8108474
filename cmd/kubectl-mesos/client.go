// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 20

// statusPort is the scheduler's own default, for pods that do not name their port.
const statusPort = 10270

// client asks one scheduler.
type client struct {
	http  *http.Client
	base  string // the address that stands for the scheduler's root
	token string // for the scheduler, through the pod proxy
}

// connect finds the scheduler that leads. change says that more than reading is wanted.
func (o *options) connect(ctx context.Context, change bool) (*client, error) {
	if o.server != "" {
		return local(o.server)
	}
	config, kube, err := o.kubernetes()
	if err != nil {
		return nil, err
	}
	pod, err := o.leader(ctx, kube)
	if err != nil {
		return nil, err
	}
	account := o.viewer
	if change {
		account = o.operator
	}
	seconds := int64(600)
	token, err := kube.CoreV1().ServiceAccounts(o.schedulerNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of service account %s/%s, which the scheduler lets ask (the Role %s of the manifests allows it): %w", o.schedulerNamespace, account, account, err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	base = base.JoinPath("api/v1/namespaces", pod.Namespace, "pods", "https:"+pod.Name+":"+portOf(pod), "proxy")
	return &client{http: web, base: base.String(), token: token.Status.Token}, nil
}

// local makes a client for a scheduler on this machine, who asks nobody for credentials.
func local(address string) (*client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("--server is %q, it must be a URL such as http://127.0.0.1:10270", address)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("--server is %q: it is for a scheduler on this machine or behind kubectl port-forward; leave it out to go through the API server", address)
	}
	return &client{http: http.DefaultClient, base: strings.TrimSuffix(u.String(), "/")}, nil
}

func (o *options) kubernetes() (*rest.Config, *kubernetes.Clientset, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(o.rules, &o.overrides)
	config, err := loader.ClientConfig()
	raw, rawErr := loader.RawConfig()
	switch {
	case rawErr == nil && len(raw.Contexts) > 0 && o.overrides.CurrentContext != "" && raw.Contexts[o.overrides.CurrentContext] == nil:
		return nil, nil, fmt.Errorf("--context is %q, it must be one of: %s", o.overrides.CurrentContext, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	case clientcmd.IsEmptyConfig(err):
		return nil, nil, errors.New("there is no kubeconfig: give --kubeconfig or KUBECONFIG, as for kubectl, or --server for a scheduler on this machine")
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("--kubeconfig, or a file that it names: %w", err)
	case err != nil:
		return nil, nil, err
	}
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	return config, kube, err
}

// leader returns the pod of the scheduler that leads: the Lease's holder is its host name and a random part.
func (o *options) leader(ctx context.Context, kube kubernetes.Interface) (*corev1.Pod, error) {
	lease, err := kube.CoordinationV1().Leases(o.schedulerNamespace).Get(ctx, o.lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Lease %s/%s: does the scheduler run, and in that namespace (--scheduler-namespace, --lease)?", o.schedulerNamespace, o.lease)
	}
	if err != nil {
		return nil, err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, fmt.Errorf("nobody holds the Lease %s/%s: no scheduler leads at present", o.schedulerNamespace, o.lease)
	}
	host := *lease.Spec.HolderIdentity
	if i := strings.LastIndexByte(host, '_'); i > 0 {
		host = host[:i]
	}
	pods := kube.CoreV1().Pods(o.schedulerNamespace)
	pod, err := pods.Get(ctx, host, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		return pod, err
	}
	// On the host's network a pod has the host's name.
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kube-mesos-scheduler"})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName == host || p.Spec.Hostname == host {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the leader %s is no pod of namespace %s; reach it by its own address with --server", host, o.schedulerNamespace)
}

func portOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == "status" {
				return strconv.Itoa(int(p.ContainerPort))
			}
		}
	}
	return strconv.Itoa(statusPort)
}

// get asks for something and decodes the answer.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, into)
}

func (c *client) do(ctx context.Context, method, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.base+v1.Root+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if c.token != "" {
		request.Header.Set(v1.TokenHeader, c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		if errors.Is(err, syscall.ECONNREFUSED) && c.token == "" {
			return fmt.Errorf("ask the scheduler: %w: nothing listens there; --server is where the scheduler's statusAddress is, or kubectl port-forward", err)
		}
		return fmt.Errorf("ask the scheduler: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the scheduler's answer: %w", err)
	}
	if response.StatusCode >= 300 {
		return refusal(response, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s does not answer as a scheduler of this version does: %w", c.base, err)
	}
	return nil
}

// refusal turns an answer into an error: the scheduler's own Error, a Status of the API server, or some text.
func refusal(response *http.Response, body []byte) error {
	var answer struct{ Kind, Message string }
	if json.Unmarshal(body, &answer) == nil && answer.Message != "" {
		switch {
		case response.StatusCode == http.StatusForbidden:
			return fmt.Errorf("%s (the Role kube-mesos-viewer or kube-mesos-operator of the manifests allows it)", answer.Message)
		case answer.Kind == "Status" && response.StatusCode >= 500:
			return fmt.Errorf("the API server cannot reach the scheduler: %s (if statusAddress is on loopback, use kubectl port-forward and --server)", answer.Message)
		}
		return errors.New(answer.Message)
	}
	text := strings.TrimSpace(string(body))
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return fmt.Errorf("the scheduler answers %s: %s", response.Status, text)
}
