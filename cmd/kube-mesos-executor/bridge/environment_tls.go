// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
)

// readTLS reads what libprocess reads of its environment: the agent does not say by itself that it takes TLS, it is
// said to executors by --executor_environment_variables or by the framework (the argument executor.environment).
//
// Unlike libprocess, authorities that are named are used also where no variable asks to verify.
func readTLS(getenv func(string) string, endpoint string) (*agent.TLS, error) {
	const prefix = "LIBPROCESS_SSL_"
	var errs []error
	toggle := func(name string, otherwise bool) bool {
		switch v := getenv(prefix + name); v {
		case "":
			return otherwise
		case "true", "1":
			return true
		case "false", "0":
			return false
		default:
			errs = append(errs, fmt.Errorf("environment variable %s%s is %q, want true or false", prefix, name, v))
			return otherwise
		}
	}
	path := func(name string) string {
		v := getenv(prefix + name)
		if v != "" && !filepath.IsAbs(v) {
			errs = append(errs, fmt.Errorf("environment variable %s%s is %q, want an absolute path: executors run in their sandbox", prefix, name, v))
		}
		return v
	}
	if !toggle("ENABLED", false) {
		return nil, errors.Join(errs...)
	}
	t := &agent.TLS{CAFile: path("CA_FILE"), CADir: path("CA_DIR"), CertFile: path("CERT_FILE"), KeyFile: path("KEY_FILE")}
	if (t.CertFile == "") != (t.KeyFile == "") {
		errs = append(errs, fmt.Errorf("environment variables %[1]sCERT_FILE and %[1]sKEY_FILE belong together: set both or none", prefix))
	}
	t.Verify = toggle("VERIFY_SERVER_CERT", toggle("VERIFY_CERT", t.CAFile != "" || t.CADir != ""))
	if host, _, err := net.SplitHostPort(endpoint); err == nil {
		t.Names = append(t.Names, host)
	}
	if name, err := os.Hostname(); err == nil {
		t.Names = append(t.Names, name)
	}
	return t, errors.Join(errs...)
}
