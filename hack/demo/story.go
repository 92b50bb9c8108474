// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

const (
	replicas    = 12
	scaled      = 6
	completions = 4
	// lossWindow is for how long after the scheduler's restart the demo looks for losses: longer than the scheduler
	// needs to compare all tasks with all pods.
	lossWindow = 5 * time.Second
)

// demo plays the whole story in dir and ends everything it started.
func demo(ctx context.Context, dir string) (err error) {
	start := time.Now()
	say := narrator(start)
	if _, err := cluster.StopRecorded(dir, 0); err != nil { // of a demo that was killed
		return err
	}
	if err := errors.Join(endExecutors(dir), os.RemoveAll(dir)); err != nil {
		return err
	}
	w, err := build(ctx, dir, false, say)
	defer func() {
		err = errors.Join(err, w.stop())
		if err != nil {
			err = fmt.Errorf("%w\nlogs: %s/logs, sandboxes of the executors: %s/mesos", err, dir, dir)
		}
	}()
	if err != nil {
		return err
	}
	s := &story{world: w}
	if err := s.tell(ctx); err != nil {
		return err
	}
	say("Stopping everything.")
	if err := w.stop(); err != nil {
		return err
	}
	pods, tasks := s.peaks.get()
	fmt.Printf("demo: pods=%d tasks=%d killed-by-restart=%d orphans=%d seconds=%d\n",
		pods, tasks, s.killed, s.orphans, int(time.Since(start).Seconds()))
	if s.killed > 0 || s.orphans > 0 {
		return errors.New("something was killed by the restart, or left over")
	}
	return nil
}

// narrator returns a function that prints a line with the time since start.
func narrator(start time.Time) func(string, ...any) {
	return func(format string, args ...any) {
		fmt.Printf("[%5.1f s] %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}

// story is the demo and what it counts.
type story struct {
	*world
	peaks           *peaks
	killed, orphans int
}

func (s *story) tell(ctx context.Context) error {
	watchCtx, stop := context.WithCancel(ctx)
	s.peaks = s.watchPeaks(watchCtx)
	defer func() {
		stop()
		<-s.peaks.done
	}()
	for _, chapter := range []func(context.Context) error{
		s.create, s.tooBig, s.run, s.scaleDown, s.restart, s.deleteAll,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// create makes everything at once.
func (s *story) create(ctx context.Context) error {
	s.say("Creating Deployment web with %d pods of 500m cpu, Job sum with %d completions, and pod big that wants 8 cpus.", replicas, completions)
	if _, err := s.Client.AppsV1().Deployments(namespace).Create(ctx, deployment("web", replicas, "500m", "256Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := s.Client.BatchV1().Jobs(namespace).Create(ctx, job("sum", completions, "500m", "256Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := s.Client.CoreV1().Pods(namespace).Create(ctx, pod("big", "8", "1Gi"), metav1.CreateOptions{})
	return err
}

// tooBig shows why the pod that no agent has room for waits.
func (s *story) tooBig(ctx context.Context) error {
	var reason string
	if err := s.wait(ctx, "an event that says why pod big waits", func(ctx context.Context) error {
		events, err := s.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
			"involvedObject.name": "big", "reason": "FailedScheduling",
		}.String()})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, "Mesos") {
				reason = e.Message
				return nil
			}
		}
		return fmt.Errorf("none of its %d events names Mesos", len(events.Items))
	}); err != nil {
		return err
	}
	s.say("Pod big waits, and its event says why: %s", reason)
	return nil
}

// run waits until all pods run and shows pods and tasks side by side.
func (s *story) run(ctx context.Context) error {
	if err := s.waitPods(ctx, replicas); err != nil {
		return err
	}
	s.say("All %d pods of web run, each with a running Mesos task.", replicas)
	if err := s.wait(ctx, "Job sum to complete", func(ctx context.Context) error {
		j, err := s.Client.BatchV1().Jobs(namespace).Get(ctx, "sum", metav1.GetOptions{})
		if err == nil && j.Status.Succeeded != completions {
			err = fmt.Errorf("%d of %d succeeded", j.Status.Succeeded, completions)
		}
		return err
	}); err != nil {
		return err
	}
	if err := s.wait(ctx, fmt.Sprintf("%d finished tasks", completions), s.tasksAre("TASK_FINISHED", completions)); err != nil {
		return err
	}
	s.say("Job sum has completed %d times; its tasks have finished and hold nothing any more.", completions)
	return s.show(ctx)
}

func (s *story) show(ctx context.Context) error {
	agents, err := s.master.agents(ctx)
	if err != nil {
		return err
	}
	r, err := s.records(ctx)
	if err != nil {
		return err
	}
	r.table(os.Stdout, agents)
	return nil
}

// scaleDown shows that tasks go with their pods.
func (s *story) scaleDown(ctx context.Context) error {
	s.say("Scaling web to %d.", scaled)
	scale, err := s.Client.AppsV1().Deployments(namespace).GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = scaled
	if _, err := s.Client.AppsV1().Deployments(namespace).UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := s.waitPods(ctx, scaled); err != nil {
		return err
	}
	r, err := s.records(ctx)
	if err != nil {
		return err
	}
	s.say("%d pods are gone; the master says %d tasks run and %d were killed.", replicas-scaled, r.count("TASK_RUNNING"), r.count("TASK_KILLED"))
	return nil
}

// restart kills the scheduler, starts it again and counts what that has cost.
func (s *story) restart(ctx context.Context) error {
	before, err := s.records(ctx)
	if err != nil {
		return err
	}
	was, err := s.master.framework(ctx)
	if err != nil {
		return err
	}
	s.say("Killing the scheduler (pid %d) with SIGKILL.", s.scheduler.PID())
	if err := s.scheduler.Kill(); err != nil {
		return err
	}
	if err := s.startScheduler(ctx); err != nil {
		return err
	}
	is, err := s.master.framework(ctx)
	if err != nil {
		return err
	}
	if is.ID != was.ID {
		return fmt.Errorf("the framework id was %s and is %s now", was.ID, is.ID)
	}
	s.say("It is back (pid %d), leads, and is the same framework: %s.", s.scheduler.PID(), is.ID)
	if _, err := s.Client.CoreV1().Pods(namespace).Create(ctx, pod("after", "500m", "256Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.waitPods(ctx, scaled+1); err != nil {
		return err
	}
	lost, err := s.watchFor(ctx, lossWindow, before)
	if err != nil {
		return err
	}
	s.killed = len(lost)
	s.say("It places a new pod. Of %d pods and tasks from before, the restart has cost %d in the %.0f s after it.",
		before.runningPods(), s.killed, lossWindow.Seconds())
	s.list(lost)
	return s.countOrphans(ctx)
}

// watchFor looks for the given time at what of before is lost, and returns it. It ends early if something is.
func (s *story) watchFor(ctx context.Context, window time.Duration, before records) ([]string, error) {
	var lost []string
	end := time.Now().Add(window)
	err := s.wait(ctx, "losses to show", func(ctx context.Context) error {
		now, err := s.records(ctx)
		if err != nil {
			return err
		}
		if lost = before.lost(now); len(lost) == 0 && time.Now().Before(end) {
			return errors.New("none so far")
		}
		return nil
	})
	return lost, err
}

// deleteAll deletes everything and counts what is left.
func (s *story) deleteAll(ctx context.Context) error {
	s.say("Deleting everything.")
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if err := errors.Join(
		s.Client.AppsV1().Deployments(namespace).Delete(ctx, "web", options),
		s.Client.BatchV1().Jobs(namespace).Delete(ctx, "sum", options),
		s.Client.CoreV1().Pods(namespace).Delete(ctx, "big", metav1.DeleteOptions{}),
		s.Client.CoreV1().Pods(namespace).Delete(ctx, "after", metav1.DeleteOptions{}),
	); err != nil {
		return err
	}
	if err := s.wait(ctx, "all pods to be gone", func(ctx context.Context) error {
		r, err := s.records(ctx)
		if err == nil && len(r.pods) > 0 {
			err = fmt.Errorf("%d are there", len(r.pods))
		}
		return err
	}); err != nil {
		return err
	}
	if err := s.countOrphans(ctx); err != nil {
		return err
	}
	r, err := s.records(ctx)
	if err != nil {
		return err
	}
	s.say("All pods are gone, and of the %d tasks that there were none is alive: %d finished, %d were killed.",
		len(r.tasks), r.count("TASK_FINISHED"), r.count("TASK_KILLED"))
	return s.checkRights()
}

// checkRights looks whether the manifests and the nodes' credentials gave the right to all that was tried.
func (s *story) checkRights() error {
	var all []string
	for _, prefix := range []string{"system:serviceaccount:" + cluster.SchedulerNamespace + ":", "system:node:"} {
		refused, err := s.Forbidden(prefix)
		if err != nil {
			return err
		}
		for _, r := range refused {
			all = append(all, r.User+": "+r.String())
		}
	}
	if len(all) > 0 {
		s.list(all)
		return fmt.Errorf("the API server has refused %d requests of the scheduler and the executors", len(all))
	}
	s.say("The scheduler had the rights of its manifests, the executors those of their nodes: nothing was refused.")
	return nil
}

// countOrphans waits until no pod and no task stands alone and counts those that still do in the end.
func (s *story) countOrphans(ctx context.Context) error {
	var alone []string
	err := cluster.WaitAtMost(ctx, 30*time.Second, "pods and tasks to match", func(ctx context.Context) error {
		r, err := s.records(ctx)
		if err != nil {
			return err
		}
		if alone = r.orphans(); len(alone) > 0 {
			return fmt.Errorf("%d do not", len(alone))
		}
		return nil
	})
	if len(alone) == 0 {
		return err
	}
	s.orphans += len(alone)
	s.say("%d pods or tasks stand alone.", len(alone))
	s.list(alone)
	return ctx.Err()
}

func (s *story) list(lines []string) {
	for _, line := range lines {
		fmt.Println("    " + line)
	}
}

// waitPods waits until n pods and n tasks run, not one more.
func (s *story) waitPods(ctx context.Context, n int) error {
	return s.wait(ctx, fmt.Sprintf("%d pods and their tasks to run", n), func(ctx context.Context) error {
		r, err := s.records(ctx)
		if err != nil {
			return err
		}
		web := 0
		for _, p := range r.pods {
			if p.Labels["app"] != "sum" && bound(p) && p.DeletionTimestamp == nil {
				web++
			}
		}
		live := 0
		for _, tasks := range r.liveTasks() {
			live += len(tasks)
		}
		running, tasks := r.runningPods(), r.count("TASK_RUNNING")
		s.peaks.add(r)
		if web != n || running < n || tasks < n || n < replicas && (running != n || live != n) {
			return fmt.Errorf("%d pods are bound, %d run, %d tasks live, %d run", web, running, live, tasks)
		}
		return nil
	})
}

func (s *story) tasksAre(state string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := s.records(ctx)
		if err == nil && r.count(state) != n {
			err = fmt.Errorf("%d are %s", r.count(state), state)
		}
		return err
	}
}
