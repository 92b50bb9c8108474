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

// ShownArgs returns the plugin's arguments as people write them, without what may be secret. Files are named, not read.
func ShownArgs(args *config.MesosArgs) (map[string]any, error) {
	args = args.DeepCopy()
	HideSecrets(args)
	var external configv1.MesosArgs
	if err := scheme.Scheme.Convert(args, &external, nil); err != nil {
		return nil, fmt.Errorf("convert the args: %w", err)
	}
	data, err := json.Marshal(&external)
	if err != nil {
		return nil, err
	}
	shown := map[string]any{}
	return shown, json.Unmarshal(data, &shown)
}

// HideSecrets overwrites what may be secret in arguments: passwords in addresses and the values of environment variables.
func HideSecrets(args *config.MesosArgs) {
	for i, master := range args.Masters {
		args.Masters[i] = withoutPassword(master)
	}
	args.WebUIURL = withoutPassword(args.WebUIURL)
	for i := range args.Executor.Environment {
		args.Executor.Environment[i].Value = hidden
	}
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
