// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/scheme"
	configv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/v1"
)

// hidden stands where something secret was.
const hidden = "***"

// ShownArgs returns the plugin's arguments as people write them, without what may be secret: passwords in addresses and
// the values of environment variables. Files are named, not read.
func ShownArgs(args *config.MesosArgs) (map[string]any, error) {
	var external configv1.MesosArgs
	if err := scheme.Scheme.Convert(args.DeepCopy(), &external, nil); err != nil {
		return nil, fmt.Errorf("convert the args: %w", err)
	}
	for i, master := range external.Masters {
		external.Masters[i] = withoutPassword(master)
	}
	external.WebUIURL = withoutPassword(external.WebUIURL)
	for i := range external.Executor.Environment {
		external.Executor.Environment[i].Value = hidden
	}
	data, err := json.Marshal(&external)
	if err != nil {
		return nil, err
	}
	shown := map[string]any{}
	return shown, json.Unmarshal(data, &shown)
}

// withoutPassword hides user and password of an address: all that stands before its last @.
func withoutPassword(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	scheme, _, ok := strings.Cut(address[:at], "://")
	if ok {
		scheme += "://"
	} else {
		scheme = ""
	}
	return scheme + hidden + address[at:]
}
