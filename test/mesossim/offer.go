// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"net"
	"sort"
	"strconv"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

type offer struct {
	id        string
	serial    int
	framework *framework
	agent     *agentView
	role      string
	resources bag // allocated to role
	made      time.Time
	stop      func()
}

func (o *offer) stopTimer() {
	if o.stop != nil {
		o.stop()
		o.stop = nil
	}
}

// offerFate is what became of an offer.
type offerFate int

const (
	offerAccepted offerFate = iota
	offerDeclined
	offerRescinded
	offerLost
	offerInvalidated
)

func sortedOffers(offers map[string]*offer) []*offer {
	out := make([]*offer, 0, len(offers))
	for _, o := range offers {
		out = append(out, o)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].serial < out[j].serial })
	return out
}

// makeOffer records an offer and returns its wire form.
func (m *master) makeOffer(f *framework, v *agentView, role string, resources bag) mesos.Offer {
	o := &offer{serial: m.nextOffer, id: m.nextOfferID(), framework: f, agent: v, role: role, resources: resources, made: m.now()}
	m.offers[o.id], f.offers[o.id], v.offers[o.id] = o, o, o
	m.c.records.counters.OffersMade++
	if d := m.c.timing.OfferTimeout; d > 0 {
		o.stop = m.c.after(d, func() {
			if m.offers[o.id] == o {
				m.rescind(o)
			}
		})
	}
	return m.offerMessage(o)
}

func (m *master) offerMessage(o *offer) mesos.Offer {
	f, v := o.framework, o.agent
	out := mesos.Offer{
		ID: mesos.OfferID{Value: o.id}, FrameworkID: mesos.FrameworkID{Value: f.id}, AgentID: mesos.AgentID{Value: v.id},
		Hostname: v.info.Hostname, URL: v.url(), Domain: v.info.Domain, Resources: wireResources(f, o.resources.inOfferOrder()),
		Attributes: v.info.Attributes, Unavailability: m.registry.schedule.unavailability(v.info.Hostname, v.ip()),
	}
	if f.has(mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		out.AllocationInfo = &mesos.Resource_AllocationInfo{Role: proto.String(o.role)}
	}
	for id := range f.executors[v.id] {
		out.ExecutorIDs = append(out.ExecutorIDs, mesos.ExecutorID{Value: id})
	}
	sort.Slice(out.ExecutorIDs, func(i, j int) bool { return out.ExecutorIDs[i].Value < out.ExecutorIDs[j].Value })
	return out
}

// wireResources gives resources the form that the framework's capabilities ask for.
func wireResources(f *framework, b bag) []mesos.Resource {
	if !f.has(mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		b = b.allocated("")
	}
	out := b.toProto()
	if !f.has(mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT) {
		out = preRefinement(out)
	}
	return out
}

// removeOffer forgets an offer. The caller says what becomes of its resources.
func (m *master) removeOffer(o *offer, fate offerFate) {
	if m.offers[o.id] != o {
		return
	}
	o.stopTimer()
	delete(m.offers, o.id)
	delete(o.framework.offers, o.id)
	delete(o.agent.offers, o.id)
	counters := &m.c.records.counters
	switch fate {
	case offerAccepted:
		counters.OffersAccepted++
	case offerDeclined:
		counters.OffersDeclined++
	case offerRescinded:
		counters.OffersRescinded++
	case offerLost:
		counters.OffersLost++
	case offerInvalidated:
		counters.OffersInvalidated++
	}
}

// rescind takes an offer back and tells the framework.
func (m *master) rescind(o *offer) {
	m.removeOffer(o, offerRescinded)
	m.alloc.recover(o.framework, o.agent, o.resources, nil)
	o.framework.send(&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: o.id}}})
}

func (m *master) rescindAll(v *agentView) {
	for _, o := range sortedOffers(v.offers) {
		m.rescind(o)
	}
}

// decline handles DECLINE. Ids that are not known are skipped silently.
func (m *master) decline(f *framework, ids []mesos.OfferID, filters *mesos.Filters) {
	for i := range ids {
		o := m.offers[ids[i].Value]
		if o == nil || o.framework != f {
			continue
		}
		m.removeOffer(o, offerDeclined)
		m.alloc.recover(f, o.agent, o.resources, orDefault(filters))
	}
}

// orDefault makes absent filters the default ones.
func orDefault(filters *mesos.Filters) *mesos.Filters {
	if filters == nil {
		return &mesos.Filters{}
	}
	return filters
}

func agentURL(hostname, ip string, port int) *mesos.URL {
	return &mesos.URL{Scheme: "http", Address: mesos.Address{Hostname: proto.String(hostname), IP: proto.String(ip), Port: int32(port)},
		Path: proto.String("/slave(1)")}
}

func splitEndpoint(addr string) (ip string, port int) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return "127.0.0.1", 5051
	}
	port, _ = strconv.Atoi(portText)
	return host, port
}
