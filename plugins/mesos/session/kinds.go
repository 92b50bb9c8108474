// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// kind is a set of waiting pods that ask for the same: one need, and the same rules about nodes.
type kind struct {
	fits  []*ledger.View
	oldGr uint64 // the least version at which a fitting agent had its room
	newGr uint64 // the greatest
}

// kinds are those of one round.
type kinds struct {
	all map[string]*kind
	of  []*kind // of each waiting pod, nil if it is one too many
}

// kindNames are the names of the kinds of the pods that have waited lately.
type kindNames map[types.UID]kindName

type kindName struct{ version, name string }

// maxKinds is how many kinds of waiting pods are looked at in one round.
const maxKinds = 512

// kinds sorts the waiting pods by what they ask for and finds the agents that fit each kind. If there are too many kinds, the
// pods that come first in the queue have theirs looked at.
func (e *economy) kinds(queue []*ledger.Waiting, now time.Time) *kinds {
	if len(e.names) > 2*len(queue)+maxKinds || e.names == nil {
		e.names = make(kindNames, len(queue)) // of most of them none waits any more
	}
	k := &kinds{all: map[string]*kind{}, of: make([]*kind, len(queue))}
	if len(queue) == 0 {
		return k
	}
	for _, w := range queue {
		n, known := e.names[w.Pod.UID]
		if !known || n.version != w.Pod.ResourceVersion {
			n = kindName{w.Pod.ResourceVersion, nameOf(w.Pod, w.Need)}
			e.names[w.Pod.UID] = n
		}
		k.all[n.name] = nil
	}
	if len(k.all) > maxKinds {
		slices.SortFunc(queue, ledger.Order)
	}
	clear(k.all)
	snapshot := e.ledger.Snapshot()
	for i, w := range queue {
		name := e.names[w.Pod.UID].name
		if k.all[name] == nil && len(k.all) < maxKinds {
			k.all[name] = e.kind(w, snapshot, now)
		}
		k.of[i] = k.all[name]
	}
	return k
}

func (e *economy) kind(w *ledger.Waiting, snapshot *ledger.Snapshot, now time.Time) *kind {
	k := &kind{}
	match := e.hooks.Match(w.Pod)
	snapshot.Each(func(v *ledger.View) bool {
		if v.Fit(w.Need, e.options.Economy.MaintenanceLead, now) == ledger.Fits && match(v.Node) {
			if len(k.fits) == 0 || v.Grew < k.oldGr {
				k.oldGr = v.Grew
			}
			k.newGr = max(k.newGr, v.Grew)
			k.fits = append(k.fits, v)
		}
		return true
	})
	return k
}

// nameOf tells pods apart that ask for different things. Pods of one workload are of one kind.
func nameOf(pod *v1.Pod, need resources.Need) string {
	rules := struct {
		Selector    map[string]string
		Affinity    *v1.NodeAffinity
		Tolerations []v1.Toleration
		Revocable   bool
	}{Selector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations, Revocable: need.Revocable}
	if pod.Spec.Affinity != nil {
		rules.Affinity = pod.Spec.Affinity.NodeAffinity
	}
	b, err := json.Marshal(rules)
	if err != nil {
		return string(pod.UID) // what cannot be written down is like nothing else
	}
	return need.Role + "/" + need.String() + string(b)
}
