// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"io"
	"log"
)

// discardLog swallows what net/http says about clients that go away.
var discardLog = log.New(io.Discard, "", 0)
