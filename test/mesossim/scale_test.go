// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// fastClient speaks protobuf over a few connections, as a busy framework does.
type fastClient struct {
	url, framework, stream string
	http                   *http.Client
}

func (c *fastClient) call(call *scheduler.Call) error {
	call.FrameworkID = &mesos.FrameworkID{Value: c.framework}
	body, err := call.Marshal()
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, "http://"+c.url+"/api/v1/scheduler", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", mediaProtobuf)
	request.Header.Set(streamHeader, c.stream)
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s: %s", call.Type, response.Status, text)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return nil
}

// scale launches tasks on synthetic agents, perAccept an ACCEPT, and acknowledges everything. It returns how long it
// took until all of them ran.
func scale(ctx context.Context, c *Cluster, tasks, perAccept int) (time.Duration, error) {
	client := &fastClient{url: c.URL(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, MaxConnsPerHost: 8}}}
	defer client.http.CloseIdleConnections()
	info := &mesos.FrameworkInfo{User: "root", Name: "scale", Roles: []string{"kubernetes"}, FailoverTimeout: proto.Float64(60), Checkpoint: proto.Bool(true),
		Capabilities: []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}, {Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE},
			{Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT}}}
	body, err := (&scheduler.Call{Type: scheduler.Call_SUBSCRIBE, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: info}}).Marshal()
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+client.url+"/api/v1/scheduler", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", mediaProtobuf)
	request.Header.Set("Accept", mediaProtobuf)
	response, err := client.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	client.stream = response.Header.Get(streamHeader)
	frames := mesosapi.NewFrameReader(response.Body, 0)
	acks := make(chan *scheduler.Call, 1<<16)
	fail := make(chan error, 8)
	var senders sync.WaitGroup
	for range 4 {
		senders.Add(1)
		go func() {
			defer senders.Done()
			for call := range acks {
				if err := client.call(call); err != nil {
					select {
					case fail <- err:
					default:
					}
				}
			}
		}()
	}
	defer senders.Wait()
	defer close(acks)
	start := time.Now()
	launched, running := 0, 0
	for running < tasks {
		select {
		case err := <-fail:
			return 0, err
		default:
		}
		frame, err := frames.ReadFrame()
		if err != nil {
			return 0, err
		}
		event := &scheduler.Event{}
		if err := event.Unmarshal(frame); err != nil {
			return 0, err
		}
		switch event.Type {
		case scheduler.Event_SUBSCRIBED:
			client.framework = event.Subscribed.FrameworkID.Value
		case scheduler.Event_UPDATE:
			status := &event.Update.Status
			switch status.GetState() {
			case mesos.TASK_RUNNING:
				running++
			case mesos.TASK_STARTING:
			default:
				return 0, fmt.Errorf("task %s: %s %s", status.TaskID.Value, status.GetState(), status.GetMessage())
			}
			acks <- &scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, Acknowledge: &scheduler.Call_Acknowledge{AgentID: *status.AgentID, TaskID: status.TaskID, UUID: status.UUID}}
		case scheduler.Event_OFFERS:
			for i := range event.Offers.Offers {
				o := &event.Offers.Offers[i]
				accept := &scheduler.Call_Accept{OfferIDs: []mesos.OfferID{o.ID}, Filters: &mesos.Filters{RefuseSeconds: proto.Float64(0)}}
				var infos []mesos.TaskInfo
				for range min(perAccept, tasks-launched) {
					id := strconv.Itoa(launched)
					launched++
					infos = append(infos, mesos.TaskInfo{Name: "pod-" + id, TaskID: mesos.TaskID{Value: "task-" + id}, AgentID: o.AgentID,
						Resources: []mesos.Resource{scalarResource("cpus", 0.1), scalarResource("mem", 64)},
						Executor: &mesos.ExecutorInfo{Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: "e"}, Resources: []mesos.Resource{scalarResource("cpus", 0.1), scalarResource("mem", 64)},
							Command: &mesos.CommandInfo{Value: proto.String("/bin/true")}}})
				}
				if len(infos) == 0 {
					accept.Filters.RefuseSeconds = proto.Float64(3600)
				} else {
					accept.Operations = []mesos.Offer_Operation{{Type: mesos.Offer_Operation_LAUNCH, Launch: &mesos.Offer_Operation_Launch{TaskInfos: infos}}}
				}
				acks <- &scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: accept}
			}
		}
	}
	return time.Since(start), nil
}

func scalarResource(name string, v float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}}
}

// BenchmarkScale prints what the simulator itself can do: launches a second with the client on the same machine, and
// the memory of all.
func BenchmarkScale(b *testing.B) {
	const agents, tasks = 5000, 50000
	for range b.N {
		begin := time.Now()
		c, err := Start(b.Context(), Options{Agents: syntheticAgents(agents), WorkDir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		started := time.Since(begin)
		took, err := scale(b.Context(), c, tasks, 10)
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("mesossim: agents=%d tasks=%d start=%.1fs launches/s=%.0f live=%dMiB sys=%dMiB\n", agents, tasks, started.Seconds(),
			float64(tasks)/took.Seconds(), m.HeapAlloc>>20, m.Sys>>20)
		b.ReportMetric(float64(tasks)/took.Seconds(), "launches/s")
		c.Close()
	}
}

func TestScaleSmall(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(50), Timing: fastTiming()})
	if _, err := scale(t.Context(), c, 1000, 5); err != nil {
		t.Fatal(err)
	}
	if n := c.CountLive(); n != 1000 {
		t.Errorf("%d live tasks", n)
	}
}
