// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxFrame is the largest frame, in bytes, that a FrameReader accepts unless told otherwise. An OFFERS event
// takes about 340 bytes an agent in protobuf and 900 in JSON.
const DefaultMaxFrame = 64 << 20

// ErrFrame is the kind of every error that says that a stream broke the rules of RecordIO.
var ErrFrame = errors.New("bad RecordIO frame")

// A FrameReader reads the frames of a RecordIO stream: the length in decimal ASCII, a line feed, and that many bytes.
// Borders of reads mean nothing. Memory grows with the bytes that really arrive, not with the stated length.
type FrameReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

// NewFrameReader returns a reader of the frames of r that refuses frames over max bytes; max <= 0 means DefaultMaxFrame.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	if max <= 0 {
		max = DefaultMaxFrame
	}
	return &FrameReader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// ReadFrame returns the next frame; the bytes are valid until the next call. At the end of the stream between two
// frames the error is io.EOF, inside a frame it is io.ErrUnexpectedEOF.
func (f *FrameReader) ReadFrame() ([]byte, error) {
	size, err := f.readLength()
	if err != nil {
		return nil, err
	}
	f.buf = f.buf[:0]
	const step = 64 << 10
	for len(f.buf) < size {
		n := min(size-len(f.buf), max(step, len(f.buf)))
		have := len(f.buf)
		if cap(f.buf) < have+n {
			grown := make([]byte, have, have+n)
			copy(grown, f.buf)
			f.buf = grown
		}
		f.buf = f.buf[:have+n]
		if _, err := io.ReadFull(f.r, f.buf[have:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return f.buf, nil
}

// readLength reads the length line. Ten digits hold every length up to the largest cap that fits an int32, so a
// longer line is refused without being read to its end.
func (f *FrameReader) readLength() (int, error) {
	size, digits := 0, 0
	for {
		c, err := f.r.ReadByte()
		if err != nil {
			if err == io.EOF && digits > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		switch {
		case c >= '0' && c <= '9':
			if digits++; digits > 10 {
				return 0, fmt.Errorf("%w: the length has more than 10 digits", ErrFrame)
			}
			size = size*10 + int(c-'0')
		case c == '\n' && digits > 0:
			if size == 0 {
				return 0, fmt.Errorf("%w: the length is 0", ErrFrame)
			}
			if size > f.max {
				return 0, fmt.Errorf("%w: a frame of %d bytes is larger than the cap of %d bytes", ErrFrame, size, f.max)
			}
			return size, nil
		default:
			return 0, fmt.Errorf("%w: %q stands where a digit of the length was expected", ErrFrame, c)
		}
	}
}
