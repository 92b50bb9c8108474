// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCache(t *testing.T) {
	taken := 0
	take := func() []int { taken++; return []int{taken} }
	var c copied[int]
	now := time.Now()
	for i := range 3 {
		require.Equal(t, []int{i + 1}, c.get(now, large-1, take), "a small book is copied each time")
	}
	require.Equal(t, []int{4}, c.get(now, large, take))
	require.Equal(t, []int{4}, c.get(now.Add(copyAgain-1), large, take))
	require.Equal(t, []int{5}, c.get(now.Add(copyAgain), large, take))
	require.Equal(t, []int{6}, c.get(now, large, take), "the clock went back")
}
