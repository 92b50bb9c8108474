// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// readFrames returns copies of all frames and the error at their end.
func readFrames(r io.Reader, limit int) ([][]byte, error) {
	f := NewFrameReader(r, limit)
	var frames [][]byte
	for {
		data, err := f.ReadFrame()
		if err != nil {
			return frames, err
		}
		frames = append(frames, bytes.Clone(data))
	}
}

// A splitReader returns the parts of a stream, one a read.
type splitReader struct{ parts [][]byte }

func (s *splitReader) Read(p []byte) (int, error) {
	for len(s.parts) > 0 && len(s.parts[0]) == 0 {
		s.parts = s.parts[1:]
	}
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.parts[0])
	s.parts[0] = s.parts[0][n:]
	return n, nil
}

func bigOffers(n, size int) *scheduler.Event {
	offers := make([]mesos.Offer, n)
	for i := range offers {
		offers[i] = mesos.Offer{ID: mesos.OfferID{Value: fmt.Sprint("O", i)}, FrameworkID: mesos.FrameworkID{Value: "f"},
			AgentID: mesos.AgentID{Value: fmt.Sprint("S", i)}, Hostname: strings.Repeat("ä", size/n/2)}
	}
	return &scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: offers}}
}

// Frames are the same however the network cuts the stream; one that is cut off is one error and no event; a bad length
// is a protocol error. Memory grows with what arrives, never with what a length promises.
func TestC23_FramesAreIndependentOfReads(t *testing.T) {
	offers := bigOffers(5000, 9<<20)
	data, err := offers.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 9<<20 {
		t.Fatalf("The event has %d bytes", len(data))
	}
	text := []byte("aäb")
	small := [][]byte{bytes.Repeat([]byte("x"), 675), []byte("\x08\x08"), text}
	var stream []byte
	for _, f := range small {
		stream = append(stream, frame(f)...)
	}
	at := bytes.Index(stream, text) + 2 // in the middle of ä

	for name, tt := range map[string]struct {
		r    io.Reader
		want [][]byte
	}{
		"one byte a read":                 {iotest.OneByteReader(bytes.NewReader(stream)), small},
		"half of what is asked for":       {iotest.HalfReader(bytes.NewReader(stream)), small},
		"data together with the end":      {iotest.DataErrReader(bytes.NewReader(stream)), small},
		"between the digits of a length":  {&splitReader{[][]byte{stream[:1], stream[1:]}}, small},
		"before the line feed":            {&splitReader{[][]byte{stream[:3], stream[3:]}}, small},
		"in the middle of a character":    {&splitReader{[][]byte{stream[:at], stream[at:]}}, small},
		"all in one read":                 {bytes.NewReader(stream), small},
		"9 MiB in chunks of 16 KiB":       {&chunkReader{data: frame(data), size: 16 << 10}, [][]byte{data}},
		"9 MiB in one":                    {bytes.NewReader(frame(data)), [][]byte{data}},
		"9 MiB with others on both sides": {bytes.NewReader(append(append(bytes.Clone(stream), frame(data)...), stream...)), append(append(append([][]byte{}, small...), data), small...)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readFrames(tt.r, 0)
			if err != io.EOF {
				t.Errorf("Error at the end = %v, want %v", err, io.EOF)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("%d frames, want %d", len(got), len(tt.want))
			}
			for i := range got {
				if !bytes.Equal(got[i], tt.want[i]) {
					t.Errorf("Frame %d differs", i)
				}
			}
		})
	}
}

type chunkReader struct {
	data []byte
	size int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(c.size, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

func TestC23_FramesCutOff(t *testing.T) {
	stream := append(append(subscribedFrame(15), heartbeatFrame()...), eventFrame(bigOffers(3, 300))...)
	ends := map[int]int{0: 0}
	for i, f := range [][]byte{subscribedFrame(15), heartbeatFrame(), eventFrame(bigOffers(3, 300))} {
		end := 0
		for e := range ends {
			end = max(end, e)
		}
		ends[end+len(f)] = i + 1
	}
	whole := 0
	for cut := 0; cut <= len(stream); cut++ {
		want := io.ErrUnexpectedEOF
		if n, border := ends[cut]; border {
			whole, want = n, io.EOF
		}
		got, err := readFrames(bytes.NewReader(stream[:cut]), 0)
		if len(got) != whole || err != want {
			t.Errorf("Cut at byte %d: %d frames and %v, want %d and %v", cut, len(got), err, whole, want)
		}
	}

	// An event of 9 MiB that ends after 4 MiB.
	got, err := readFrames(bytes.NewReader(eventFrame(bigOffers(5000, 9<<20))[:4<<20]), 0)
	if len(got) != 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d frames and %v, want none and %v", len(got), err, io.ErrUnexpectedEOF)
	}
}

func TestC23_BadLengths(t *testing.T) {
	for name, stream := range map[string]string{
		"zero":                   "0\n",
		"negative":               "-1\nx",
		"twenty digits":          "99999999999999999999\nx",
		"a letter":               "12x\nxxxxxxxxxxxx",
		"300 digits":             strings.Repeat("9", 300),
		"many leading zeros":     strings.Repeat("0", 300) + "1\nx",
		"blank":                  " 1\nx",
		"carriage return":        "1\r\nx",
		"line feed alone":        "\n",
		"over the cap":           "67108865\n",
		"over the cap, no digit": "4294967297\n",
		"binary":                 "\x00\x01\x02",
		"a web page":             "<html>",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readFrames(strings.NewReader(stream), 0)
			if len(got) != 0 || !errors.Is(err, ErrFrame) {
				t.Errorf("%d frames and %v, want none and kind %v", len(got), err, ErrFrame)
			}
		})
	}
	_, err := readFrames(strings.NewReader("1001\n"), 1000)
	if err == nil || !strings.Contains(err.Error(), "1001") || !strings.Contains(err.Error(), "1000") {
		t.Errorf("The error %v does not name the size and the cap", err)
	}
}

// A length is only a promise: the largest one costs no more than what arrives.
func TestC23_NoAllocationOfTheStatedLength(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, _ = readFrames(strings.NewReader(fmt.Sprint(DefaultMaxFrame, "\n", "x")), 0)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 1<<20 {
		t.Errorf("A stated length of %d took %d bytes", DefaultMaxFrame, each)
	}
}

func FuzzFrames(f *testing.F) {
	recorded, err := os.ReadFile("testdata/stream.recordio")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(recorded, 7)
	f.Add([]byte("1\nx2\nyy"), 1)
	f.Add([]byte("0\n"), 3)
	f.Add([]byte("99999999999"), 2)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		const limit = 1 << 20
		want, wantErr := readFrames(bytes.NewReader(stream), limit)
		got, err := readFrames(&chunkReader{data: stream, size: 1 + size&0xff}, limit)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || len(got) != len(want) {
			t.Fatalf("%d frames and %v in chunks, %d and %v in one", len(got), err, len(want), wantErr)
		}
		var again []byte
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("Frame %d differs", i)
			}
			if len(got[i]) == 0 || len(got[i]) > limit {
				t.Fatalf("Frame %d has %d bytes", i, len(got[i]))
			}
			again = append(again, frame(got[i])...)
		}
		if wantErr == io.EOF {
			back, err := readFrames(bytes.NewReader(again), limit)
			if err != io.EOF || len(back) != len(got) {
				t.Fatalf("Written again: %d frames and %v", len(back), err)
			}
		}
	})
}
