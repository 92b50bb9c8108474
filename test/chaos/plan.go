// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A fault is one blow of a plan: what, to whom, when, and for how long.
type fault struct {
	at   time.Duration // from the start of the faults
	kind string
	// lasts is how long it lasts, where it lasts.
	lasts time.Duration
	// agent is the number of the agent or node it strikes.
	agent int
	// n is a number of bytes, messages or whatever the kind counts.
	n int
	// call is the kind of the scheduler call it strikes.
	call string
	// variant is one of the kind's own.
	variant string
}

func (f fault) String() string {
	s := fmt.Sprintf("%s agent=%d", f.kind, f.agent+1)
	if f.lasts > 0 {
		s += fmt.Sprintf(" for=%v", f.lasts)
	}
	if f.n > 0 {
		s += fmt.Sprintf(" n=%d", f.n)
	}
	if f.call != "" {
		s += " call=" + f.call
	}
	if f.variant != "" {
		s += " " + f.variant
	}
	return s
}

// A kind is a kind of fault.
type kind struct {
	name   string
	weight int
	// most bounds how often a plan holds it, 0 does not.
	most int
	// min and max bound how long it lasts.
	min, max time.Duration
	// numbers bounds n.
	numbers int
	// only names the kind of kubelets that it is for; empty means every kind.
	only string
	// calls and variants are what it draws from.
	calls, variants []string
}

const ms = time.Millisecond

// What a scheduler is killed at: calls to Mesos, and requests to the API server.
var (
	crashCalls    = []string{"ACCEPT", "ACCEPT", "ACCEPT", "DECLINE", "REVIVE", "KILL", "KILL", "ACKNOWLEDGE", "ACKNOWLEDGE", "RECONCILE", "SUBSCRIBE", "SUPPRESS"}
	crashRequests = []string{"binding", "binding", "binding", "patch-pod", "patch-status", "delete-pod", "configmap", "lease"}
)

var calls = []string{"ACCEPT", "ACCEPT", "ACCEPT", "DECLINE", "REVIVE", "SUPPRESS", "KILL", "KILL", "ACKNOWLEDGE", "RECONCILE", "SHUTDOWN", ""}

// kinds are all faults that a plan is drawn from. What costs much (a restart of the API server) is rare.
var kinds = []kind{
	{name: "kill-scheduler", weight: 4, variants: []string{"leader", "leader", "standby", "both"}, max: 2000 * ms},
	{name: "stop-scheduler", weight: 3, variants: []string{"leader", "leader", "standby"}, min: 500 * ms, max: 8000 * ms},

	{name: "fail-over", weight: 4, most: 4, variants: []string{"", "keep-old"}, max: 3000 * ms},
	{name: "restart-master", weight: 2, most: 2, max: 3000 * ms},
	{name: "wipe-registry", weight: 2, most: 2, max: 2000 * ms},

	{name: "cut-stream", weight: 5, numbers: 4000},
	{name: "cut-next-stream", weight: 2, numbers: 1000},
	{name: "silence", weight: 3, min: 500 * ms, max: 8000 * ms},
	{name: "lose-update", weight: 5, numbers: 4, variants: []string{"", "", "master"}},
	{name: "double-update", weight: 4, numbers: 4},
	{name: "delay-update", weight: 4, numbers: 4, max: 3000 * ms},
	{name: "lose-call", weight: 5, numbers: 2, calls: calls},
	{name: "lose-answer", weight: 6, numbers: 2, calls: calls},
	{name: "delay-call", weight: 6, numbers: 2, min: 200 * ms, max: 4000 * ms, calls: calls},
	{name: "rescind-offers", weight: 5},

	{name: "cut-agent", weight: 6, min: 300 * ms, max: 8000 * ms},
	{name: "stop-agent", weight: 3, min: 300 * ms, max: 6000 * ms},
	{name: "restart-agent", weight: 5, max: 6000 * ms},
	{name: "disconnect-agent", weight: 2},
	{name: "slow-agent", weight: 2, min: 1000 * ms, max: 5000 * ms, numbers: 300},
	{name: "replace-agent", weight: 2, most: 2, max: 2000 * ms},
	{name: "unregister-agent", weight: 1, most: 1, min: 500 * ms, max: 4000 * ms},
	{name: "mark-agent-gone", weight: 1, most: 1, min: 500 * ms, max: 4000 * ms},
	{name: "drain-agent", weight: 2, most: 1, min: 2000 * ms, max: 8000 * ms},
	{name: "deactivate-agent", weight: 1, most: 1, min: 500 * ms, max: 4000 * ms},

	{name: "kill-bridge", weight: 6},
	{name: "stop-bridge", weight: 2, min: 500 * ms, max: 5000 * ms},
	{name: "kill-executor", weight: 4},
	{name: "drop-executor-streams", weight: 3},

	{name: "maintain", weight: 2, most: 2, min: 1000 * ms, max: 8000 * ms, variants: []string{"", "", "down"}},
	{name: "rival", weight: 3, min: 1000 * ms, max: 12000 * ms, numbers: 12, variants: []string{"", "", "hold"}},
	{name: "tear-down", weight: 1, most: 1, min: 500 * ms, max: 4000 * ms, variants: []string{"", "timeout"}},
	{name: "lose-launch", weight: 2, numbers: 3, min: 500 * ms, max: 4000 * ms},

	{name: "crash-on-call", weight: 5, numbers: 3, max: 2000 * ms, calls: crashCalls, variants: []string{"before", "after"}},
	{name: "crash-on-request", weight: 5, numbers: 3, max: 2000 * ms, calls: crashRequests, variants: []string{"before", "after"}},

	{name: "api-refuse", weight: 6, numbers: 3, calls: requestKinds, variants: []string{"409", "429", "500", "503"}},
	{name: "api-delay", weight: 4, numbers: 3, min: 100 * ms, max: 4000 * ms, calls: requestKinds},
	{name: "api-lose-request", weight: 3, numbers: 2, calls: requestKinds},
	{name: "api-lose-answer", weight: 6, numbers: 3, min: 500 * ms, max: 4000 * ms, calls: requestKinds, variants: []string{"timeout", "timeout", "broken", "late"}},
	{name: "api-slow", weight: 2, min: 500 * ms, max: 5000 * ms, numbers: 600},
	{name: "api-cut", weight: 3, variants: []string{"", "scheduler", "executor"}},
	{name: "api-away", weight: 3, most: 2, min: 300 * ms, max: 8000 * ms, variants: []string{"", "scheduler", "executor"}},
	{name: "steal-lease", weight: 1, most: 1},
	{name: "rotate-credentials", weight: 2, max: 5000 * ms, variants: []string{"", "wrong"}},

	{name: "restart-api-server", weight: 1, most: 1, max: 4000 * ms},
	{name: "stop-api-server", weight: 2, most: 2, min: 300 * ms, max: 5000 * ms},
	{name: "node-not-ready", only: "kwok", weight: 4, min: 500 * ms, max: 8000 * ms},
	{name: "stop-kubelet", only: "hollow", weight: 4, min: 500 * ms, max: 5000 * ms},
	{name: "restart-kubelet", only: "hollow", weight: 3, max: 3000 * ms},
	{name: "stop-kubelets", only: "kwok", weight: 2, min: 500 * ms, max: 5000 * ms},
	{name: "force-delete-pod", weight: 4, numbers: 1 << 20},
	{name: "delete-node", weight: 2, most: 1, min: 200 * ms, max: 4000 * ms},
}

// kindsFor returns the kinds of faults for a world of a size.
func kindsFor(size size) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.only != "" && k.only != size.kubelets })
}

// draw makes the plan of a seed: the same seed gives the same plan.
func draw(seed uint64, size size, length time.Duration) []fault {
	kinds := kindsFor(size)
	random := rand.New(rand.NewPCG(seed, 0x6368616f73))
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	drawn := map[string]int{}
	var plan []fault
	for at := 300 * ms; at < length; {
		// Sometimes several strike together.
		together := 1
		if random.IntN(4) == 0 {
			together += 1 + random.IntN(2)
		}
		for range together {
			i := random.IntN(total)
			k := kinds[slices.IndexFunc(kinds, func(k kind) bool { i -= k.weight; return i < 0 })]
			f := k.draw(random, size.agents)
			f.at = at
			if drawn[k.name]++; k.most == 0 || drawn[k.name] <= k.most {
				plan = append(plan, f)
			}
		}
		at += 100*ms + time.Duration(random.ExpFloat64()*float64(700*ms)).Truncate(ms)
	}
	return plan
}

func (k kind) draw(random *rand.Rand, agents int) fault {
	f := fault{kind: k.name, agent: random.IntN(agents), lasts: k.min}
	if span := int64((k.max - k.min) / ms); span > 0 {
		f.lasts += time.Duration(random.Int64N(span)) * ms
	}
	if k.numbers > 0 {
		f.n = 1 + random.IntN(k.numbers)
	}
	if len(k.calls) > 0 {
		f.call = k.calls[random.IntN(len(k.calls))]
	}
	if len(k.variants) > 0 {
		f.variant = k.variants[random.IntN(len(k.variants))]
	}
	return f
}
