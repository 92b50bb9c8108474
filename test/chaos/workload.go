// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// Bounds of the workload.
const (
	maxJobs = 4
)

// workload creates, scales and deletes all the time.
type workload struct {
	*world
	random      *rand.Rand
	serial      int
	deployments map[string]int32 // replicas
	jobs        []string
}

func newWorkload(w *world, seed uint64) *workload {
	return &workload{world: w, random: rand.New(rand.NewPCG(seed, 0x776f726b)), deployments: map[string]int32{}}
}

// run works until ctx ends. What the API server refuses or does not answer is left: the next act comes soon.
func (l *workload) run(ctx context.Context) {
	for pause(ctx, 50*ms+time.Duration(l.random.ExpFloat64()*float64(300*ms))) {
		l.act(ctx)
	}
}

func (l *workload) act(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var what string
	var err error
	switch n := l.random.IntN(100); {
	case n < 12:
		what, err = l.createDeployment(ctx)
	case n < 32:
		what, err = l.scale(ctx)
	case n < 38:
		what, err = l.deleteDeployment(ctx)
	case n < 52:
		what, err = l.createJob(ctx)
	case n < 57:
		what, err = l.deleteJob(ctx)
	case n < 82:
		what, err = l.createPod(ctx)
	case n < 95:
		what, err = l.deletePod(ctx)
	default:
		what, err = l.release(ctx)
	}
	switch {
	case err != nil:
		l.journal.notef("workload: %s: %v", what, err)
	case what != "":
		l.journal.notef("workload: %s", what)
	}
}

func (l *workload) name(kind string) string {
	l.serial++
	return fmt.Sprintf("%s-%d", kind, l.serial)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// spec draws a pod. stop-after and ready-after are kwok's, see test/cluster.
func (l *workload) spec() (annotations map[string]string, spec corev1.PodSpec) {
	r := l.random
	requests := corev1.ResourceList{}
	if r.IntN(8) > 0 { // one in eight asks for nothing
		requests[corev1.ResourceCPU] = resource.MustParse(pick(r, l.size.requests...))
		requests[corev1.ResourceMemory] = resource.MustParse(pick(r, "1Mi", "64Mi", "100Mi", "128M"))
	}
	grace := pick[int64](r, 0, 1, 2, 5, 30)
	annotations = map[string]string{}
	if r.IntN(3) == 0 {
		annotations[cluster.ReadyAfterAnnotation] = pick(r, "1ms", "500ms", "3s", "never")
	}
	if r.IntN(3) == 0 {
		annotations[cluster.StopAfterAnnotation] = pick(r, "1ms", "1s", "2s", "grace")
	}
	if annotations[cluster.StopAfterAnnotation] == "grace" {
		grace = min(grace, 8) // a run waits for the end of every pod
	}
	spec = corev1.PodSpec{
		SchedulerName:                 cluster.SchedulerName,
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: "main", Image: "registry.invalid/pause", Resources: corev1.ResourceRequirements{Requests: requests}}},
	}
	if r.IntN(5) == 0 {
		spec.InitContainers = []corev1.Container{{Name: "init", Image: "registry.invalid/init", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(l.size.initCPU)}}}}
	}
	if r.IntN(5) == 0 { // Kubernetes itself evicts these from a node that is not ready
		seconds := pick[int64](r, 0, 1, 3)
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
	return annotations, spec
}

func (l *workload) template() (map[string]string, corev1.PodTemplateSpec) {
	annotations, spec := l.spec()
	labels := map[string]string{"app": l.name("app")}
	return labels, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: spec}
}

func (l *workload) replicas() int32 {
	var n int32
	for _, r := range l.deployments {
		n += r
	}
	return n
}

func (l *workload) createDeployment(ctx context.Context) (string, error) {
	replicas := 1 + l.random.Int32N(8)
	labels, template := l.template()
	if l.replicas()+replicas > l.size.deploymentPods {
		return "", nil
	}
	name := l.name("deployment")
	l.deployments[name] = replicas
	_, err := l.c.Client.AppsV1().Deployments(l.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	return fmt.Sprintf("create %s with %d", name, replicas), err
}

// anyDeployment picks one, in an order that does not depend on the map's.
func (l *workload) anyDeployment() string {
	if len(l.deployments) == 0 {
		return ""
	}
	return pick(l.random, sortedKeys(l.deployments)...)
}

func (l *workload) scale(ctx context.Context) (string, error) {
	name := l.anyDeployment()
	replicas := l.random.Int32N(9)
	if name == "" || l.replicas()-l.deployments[name]+replicas > l.size.deploymentPods {
		return "", nil
	}
	l.deployments[name] = replicas
	_, err := l.c.Client.AppsV1().Deployments(l.namespace).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	return fmt.Sprintf("scale %s to %d", name, replicas), err
}

func (l *workload) deleteDeployment(ctx context.Context) (string, error) {
	name := l.anyDeployment()
	if name == "" {
		return "", nil
	}
	delete(l.deployments, name)
	background := metav1.DeletePropagationBackground
	return "delete " + name, l.c.Client.AppsV1().Deployments(l.namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

func (l *workload) createJob(ctx context.Context) (string, error) {
	r := l.random
	annotations, spec := l.spec()
	if annotations[cluster.ReadyAfterAnnotation] == "never" {
		delete(annotations, cluster.ReadyAfterAnnotation)
	}
	annotations[cluster.CompleteAfterAnnotation] = pick(r, "1ms", "300ms", "1s", "4s")
	annotations[cluster.ExitCodeAnnotation] = pick(r, "0", "0", "0", "1")
	spec.RestartPolicy = pick(r, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	completions, parallelism, limit := 1+r.Int32N(4), 1+r.Int32N(3), int32(2)
	name := l.name("job")
	var doomed string
	if len(l.jobs) >= maxJobs {
		doomed, l.jobs = l.jobs[0], l.jobs[1:]
	}
	l.jobs = append(l.jobs, name)
	background := metav1.DeletePropagationBackground
	if doomed != "" {
		if err := l.c.Client.BatchV1().Jobs(l.namespace).Delete(ctx, doomed, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			return "delete " + doomed, err
		}
	}
	_, err := l.c.Client.BatchV1().Jobs(l.namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, BackoffLimit: &limit,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: spec}},
	}, metav1.CreateOptions{})
	return fmt.Sprintf("create %s of %d", name, completions), err
}

func (l *workload) deleteJob(ctx context.Context) (string, error) {
	if len(l.jobs) == 0 {
		return "", nil
	}
	i := l.random.IntN(len(l.jobs))
	name := l.jobs[i]
	l.jobs = append(l.jobs[:i:i], l.jobs[i+1:]...)
	background := metav1.DeletePropagationBackground
	return "delete " + name, l.c.Client.BatchV1().Jobs(l.namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

// finalizer keeps a deleted pod until the workload releases it.
const finalizer = "test.kube-mesos.io/kept"

func (l *workload) createPod(ctx context.Context) (string, error) {
	r := l.random
	annotations, spec := l.spec()
	if r.IntN(3) == 0 {
		annotations[cluster.CompleteAfterAnnotation] = pick(r, "1ms", "200ms", "2s")
	}
	spec.RestartPolicy = pick(r, corev1.RestartPolicyAlways, corev1.RestartPolicyNever)
	if r.IntN(4) == 0 {
		port := 31000 + r.Int32N(4)
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: port}}
	}
	finalized := r.IntN(8) == 0
	// Names come again, so that pods are made anew under the name of one that is hardly gone.
	name := fmt.Sprintf("pod-%d", r.Int32N(l.size.barePods))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec}
	if finalized {
		pod.Finalizers = []string{finalizer}
	}
	for _, p := range l.recorder.present() {
		if p.Name == name {
			return "", nil
		}
	}
	_, err := l.c.Client.CoreV1().Pods(l.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return "create " + name, err
}

func (l *workload) deletePod(ctx context.Context) (string, error) {
	pods := l.recorder.present()
	if len(pods) == 0 {
		return "", nil
	}
	pod := pods[l.random.IntN(len(pods))]
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if l.random.IntN(4) == 0 {
		grace := pick[int64](l.random, 1, 3)
		options.GracePeriodSeconds = &grace
	}
	l.journal.add(incident{text: fmt.Sprintf("workload: deleting pod %s (%s)", pod.Name, pod.UID), pod: string(pod.UID)})
	return "delete " + pod.Name, l.c.Client.CoreV1().Pods(l.namespace).Delete(ctx, pod.Name, options)
}

// release takes the finalizers off deleted pods.
func (l *workload) release(ctx context.Context) (string, error) {
	for _, pod := range l.recorder.present() {
		if pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 {
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, pod.UID, finalizer)
			_, err := l.c.Client.CoreV1().Pods(l.namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return "release " + pod.Name, err
			}
		}
	}
	return "", nil
}

// clear deletes everything, gracefully.
func (l *workload) clear(ctx context.Context) error {
	all := metav1.ListOptions{}
	background := metav1.DeletePropagationBackground
	client := l.c.Client
	l.journal.notef("workload: delete everything")
	if err := client.AppsV1().Deployments(l.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, all); err != nil {
		return err
	}
	if err := client.BatchV1().Jobs(l.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, all); err != nil {
		return err
	}
	for _, pod := range l.recorder.present() {
		l.journal.add(incident{text: fmt.Sprintf("workload: deleting pod %s (%s)", pod.Name, pod.UID), pod: string(pod.UID)})
	}
	return client.CoreV1().Pods(l.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all)
}
