// SPDX-License-Identifier: Apache-2.0

// Package mesosapi is a client of the Mesos v1 scheduler API over HTTP. It finds the leading master, holds the event
// stream, and sends calls. It keeps no state of a framework and repeats nothing by itself: the caller knows which call
// may be sent twice.
//
// Subscribe makes one attempt over all masters. The Stream that it returns belongs to one subscription: Next reads
// events, Call sends calls to the same master with the stream's id, Close ends both.
//
// The wire rules are those of Mesos 1.12 (src/master/http.cpp, docs/scheduler-http-api.md). Messages travel as
// protobuf; the types come from mesos-go, its HTTP and RecordIO helpers are not used.
package mesosapi
