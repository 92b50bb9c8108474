// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"fmt"
	"reflect"
	"sync"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

var (
	eventShape      = sync.OnceValue(func() *shape { return shapeOf(reflect.TypeFor[scheduler.Event](), map[reflect.Type]*shape{}) })
	masterInfoShape = sync.OnceValue(func() *shape { return shapeOf(reflect.TypeFor[mesos.MasterInfo](), map[reflect.Type]*shape{}) })
)

// DecodeEvent decodes one event from protobuf. It never panics. An event of a known type has the message that the type
// promises (ev.Update for UPDATE and so on); an event of a type that this client does not know comes back with that
// type's number and is to be left alone. Errors are of kind ErrProtocol.
func DecodeEvent(data []byte) (*scheduler.Event, error) {
	ev := &scheduler.Event{}
	if err := unmarshal(data, ev, eventShape()); err != nil {
		return nil, fmt.Errorf("%w: an event of %d bytes does not decode: %w", ErrProtocol, len(data), err)
	}
	present := true
	switch ev.Type {
	case scheduler.Event_SUBSCRIBED:
		present = ev.Subscribed != nil && ev.Subscribed.FrameworkID != nil
	case scheduler.Event_OFFERS:
		present = ev.Offers != nil
	case scheduler.Event_INVERSE_OFFERS:
		present = ev.InverseOffers != nil
	case scheduler.Event_RESCIND:
		present = ev.Rescind != nil
	case scheduler.Event_RESCIND_INVERSE_OFFER:
		present = ev.RescindInverseOffer != nil
	case scheduler.Event_UPDATE:
		present = ev.Update != nil
	case scheduler.Event_UPDATE_OPERATION_STATUS:
		present = ev.UpdateOperationStatus != nil
	case scheduler.Event_MESSAGE:
		present = ev.Message != nil
	case scheduler.Event_FAILURE:
		present = ev.Failure != nil
	case scheduler.Event_ERROR:
		present = ev.Error != nil
	}
	if !present {
		return nil, fmt.Errorf("%w: an event of type %s lacks the message that belongs to the type", ErrProtocol, ev.Type)
	}
	return ev, nil
}

// unmarshal decodes data into m, whose shape is s. The generated code indexes and recurses as the data tells it, so
// the data is checked against the shape first; the recover is for what the check does not foresee.
func unmarshal(data []byte, m interface{ Unmarshal([]byte) error }, s *shape) (err error) {
	if err := s.check(data, 0); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the decoder failed: %v", r)
		}
	}()
	return m.Unmarshal(data)
}
