// SPDX-License-Identifier: Apache-2.0

package mesossim

import "github.com/mesos/mesos-go/api/v1/lib/scheduler"

// A SchedulerCall is a call of a framework on its way.
type SchedulerCall struct {
	// Kind is its type, as "ACCEPT".
	Kind string
	// Framework and Hostname are the name and the host name in the FrameworkInfo that the call brings, or else in that of the
	// framework's present subscription.
	Framework, Hostname string
	// Handled says that the master has handled the call and is about to answer; else it has only arrived.
	Handled bool
}

// OnCall sets what is told of every scheduler call when it arrives and again before it is answered; nil, or Clear, ends
// that. If it returns true the connection breaks there. It may call the cluster.
func (f *Faults) OnCall(hook func(SchedulerCall) (cut bool)) {
	f.c.do(func() { f.c.faults.onCall = hook })
}

// PassFailoverTimeout removes a framework that is not connected, as when its failover timeout has passed. It returns
// false if there is none.
func (f *Faults) PassFailoverTimeout(frameworkID string) bool {
	found := false
	f.c.do(func() {
		if fw := f.c.m.frameworks[frameworkID]; fw != nil && !fw.connected {
			found = true
			f.c.m.removeFramework(fw)
		}
	})
	return found
}

// tellCall tells the hook of a call and returns whether to break its connection.
func (c *Cluster) tellCall(call *schedulerCall, handled bool) bool {
	var hook func(SchedulerCall) bool
	told := SchedulerCall{Kind: call.Type.String(), Handled: handled}
	c.do(func() {
		if hook = c.faults.onCall; hook == nil {
			return
		}
		if call.Type == scheduler.Call_SUBSCRIBE {
			told.Framework, told.Hostname = call.Subscribe.FrameworkInfo.Name, call.Subscribe.FrameworkInfo.GetHostname()
		} else if f := c.m.frameworks[call.FrameworkID.GetValue()]; f != nil {
			told.Framework, told.Hostname = f.info.Name, f.info.GetHostname()
		}
	})
	return hook != nil && hook(told)
}
