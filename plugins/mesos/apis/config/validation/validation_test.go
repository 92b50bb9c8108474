// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/scheme"
	configv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/v1"
)

// defaults returns what a user gets who gives only the masters.
func defaults(t *testing.T) *config.MesosArgs {
	t.Helper()
	in := &configv1.MesosArgs{Masters: []string{"m1:5050"}}
	configv1.SetDefaults_MesosArgs(in)
	out := &config.MesosArgs{}
	if err := scheme.Scheme.Convert(in, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestValidateMesosArgs(t *testing.T) {
	const negative = -time.Second
	type args = config.MesosArgs
	duration := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	roles := func(names ...string) func(*args) {
		return func(a *args) {
			a.Roles = nil
			for _, name := range names {
				a.Roles = append(a.Roles, config.Role{Name: name})
			}
		}
	}
	masters := func(list ...string) func(*args) { return func(a *args) { a.Masters = list } }
	env := func(vars ...config.EnvVar) func(*args) { return func(a *args) { a.Executor.Environment = vars } }

	for name, tt := range map[string]struct {
		change func(*args)
		// want lists, for each error, its field and a text that says what would be right; none: valid.
		want []string
	}{
		"defaults": {func(*args) {}, nil},

		"several masters":                  {masters("m1:5050", "http://m2:5050", "https://m3:5050"), nil},
		"ZooKeeper":                        {masters("zk://me:hush@z1:2181,z2:2181/mesos"), nil},
		"no master":                        {masters(), []string{"masters: zk://"}},
		"empty master":                     {masters("m1:5050", ""), []string{"masters[1]: host:port"}},
		"unparsable master":                {masters("http://m1:5050%zz"), []string{"masters[0]: host:port"}},
		"master without a port":            {masters("m1"), []string{"masters[0]: m1"}},
		"master twice":                     {masters("m1:5050", "m1:5050"), []string{"masters[1]: once"}},
		"ZooKeeper and a master":           {masters("zk://z1:2181/mesos", "m1:5050"), []string{"masters[0]: only one"}},
		"a master and ZooKeeper":           {masters("m1:5050", "zk://me:hush@z1:2181/mesos"), []string{"masters[1]: only one"}},
		"two ZooKeepers":                   {masters("zk://z1:2181/mesos", "zk://z2:2181/mesos"), []string{"masters[0]: only one"}},
		"ZooKeeper without a path":         {masters("zk://z1:2181"), []string{"masters[0]: /path"}},
		"password in a master's URL":       {masters("http://me:hush@m1:5050"), []string{"masters[0]: authentication"}},
		"password in a master without one": {masters("me:hush@m1:5050"), []string{"masters[0]: authentication"}},
		"password in an unparsable master": {masters("http://me:hush%zz@m1:5050"), []string{"masters[0]: host:port"}},
		"framework name empty":             {func(a *args) { a.FrameworkName = "" }, []string{"frameworkName: leave it out"}},
		"framework name with a line feed":  {func(a *args) { a.FrameworkName = "a\nb" }, []string{"frameworkName: control"}},
		"framework name too long":          {func(a *args) { a.FrameworkName = strings.Repeat("x", 256) }, []string{"frameworkName: 255"}},
		"user empty":                       {func(a *args) { a.User = "" }, []string{"user: root"}},
		"user with a blank":                {func(a *args) { a.User = "a b" }, []string{"user: root"}},
		"hostname":                         {func(a *args) { a.Hostname = "host_1.example" }, nil},
		"hostname with a blank":            {func(a *args) { a.Hostname = "a b" }, []string{"hostname: empty"}},
		"web UI":                           {func(a *args) { a.WebUIURL = "https://ui.example/mesos?x=1" }, nil},
		"web UI without a scheme":          {func(a *args) { a.WebUIURL = "ui.example" }, []string{"webUIURL: https://host:port/path"}},
		"web UI that is unparsable":        {func(a *args) { a.WebUIURL = "http://ui\n" }, []string{"webUIURL: https://host:port/path"}},
		"web UI with another scheme":       {func(a *args) { a.WebUIURL = "javascript://x/%0aalert(1)" }, []string{"webUIURL: https://host:port/path"}},
		"web UI with a password":           {func(a *args) { a.WebUIURL = "http://me:hush@ui" }, []string{"webUIURL: https://host:port/path"}},
		"failover timeout 0":               {func(a *args) { a.FailoverTimeout = duration(0) }, []string{"failoverTimeout: 168h"}},
		"failover timeout negative":        {func(a *args) { a.FailoverTimeout = duration(negative) }, []string{"failoverTimeout: 168h"}},
		"failover timeout of 292 years":    {func(a *args) { a.FailoverTimeout = duration(math.MaxInt64) }, nil},
		"roles":                            {roles("*", "kubernetes", "prod/web", "a.b-c", "ä"), nil},
		"no role":                          {roles(), []string{"roles: at least one"}},
		"role empty":                       {roles(""), []string{"roles[0].name: such as"}},
		"role with a slash before":         {roles("/a"), []string{"roles[0].name: slash"}},
		"role with a slash after":          {roles("a/"), []string{"roles[0].name: slash"}},
		"role with two slashes":            {roles("a//b"), []string{"roles[0].name: two slashes"}},
		"role of a dot":                    {roles("a/."), []string{"roles[0].name: between slashes"}},
		"role of two dots":                 {roles("..", "../a"), []string{"roles[0].name: between slashes", "roles[1].name: between slashes"}},
		"role with a star in it":           {roles("a/*"), []string{"roles[0].name: between slashes"}},
		"role with a dash before":          {roles("-a"), []string{"roles[0].name: dash"}},
		"role with a dash in a part":       {roles("a/-b"), []string{"roles[0].name: dash"}},
		"role with a blank":                {roles("a b"), []string{"roles[0].name: white space"}},
		"role with a tabulator":            {roles("a\tb"), []string{"roles[0].name: white space"}},
		"role with a backspace":            {roles("a\bb"), []string{"roles[0].name: backspace"}},
		"role twice":                       {roles("a", "b", "a"), []string{"roles[2].name: Duplicate"}},
		"role with an empty selector":      {func(a *args) { a.Roles[0].NamespaceSelector = &metav1.LabelSelector{} }, nil},
		"role with a bad selector":         {func(a *args) { a.Roles[0].NamespaceSelector = selector("a", "NearTo") }, []string{"roles[0].namespaceSelector.matchExpressions[0].operator: selector operator"}},
		"role with a bad label":            {func(a *args) { a.Roles[0].NamespaceSelector = selector("a b", "Exists") }, []string{"roles[0].namespaceSelector.matchExpressions[0].key: alphanumeric"}},
		"gangs reserved":                   {func(a *args) { a.ReserveForGangs = true }, nil},
		"gangs reserved for everybody": {func(a *args) {
			a.ReserveForGangs = true
			a.Roles = append(a.Roles, config.Role{Name: "*"})
		}, []string{"reserveForGangs: nothing for it"}},
		"secret":          {func(a *args) { a.Authentication = config.Authentication{Principal: "p", SecretFile: "s"} }, nil},
		"principal alone": {func(a *args) { a.Authentication.Principal = "p" }, nil},
		"bearer token":    {func(a *args) { a.Authentication = config.Authentication{Principal: "p:q", BearerTokenFile: "s"} }, nil},
		"secret and bearer token": {func(a *args) {
			a.Authentication = config.Authentication{Principal: "p", SecretFile: "s", BearerTokenFile: "t"}
		}, []string{"authentication.bearerTokenFile: excludes secretFile"}},
		"secret without a principal": {func(a *args) { a.Authentication.SecretFile = "s" }, []string{"authentication.principal: secretFile needs"}},
		"principal with a colon":     {func(a *args) { a.Authentication = config.Authentication{Principal: "p:q", SecretFile: "s"} }, []string{"authentication.principal: colon"}},
		"principal with a line feed": {func(a *args) { a.Authentication.Principal = "p\n" }, []string{"authentication.principal: control"}},
		"TLS": {func(a *args) {
			a.TLS = &config.TLS{CAFile: "a", CertFile: "c", KeyFile: "k", ServerName: "m", MinVersion: "1.3"}
		}, nil},
		"certificate without a key":         {func(a *args) { a.TLS = &config.TLS{CertFile: "c", MinVersion: "1.2"} }, []string{"tls.keyFile: certFile needs"}},
		"key without a certificate":         {func(a *args) { a.TLS = &config.TLS{KeyFile: "k", MinVersion: "1.2"} }, []string{"tls.certFile: keyFile needs"}},
		"TLS 1.1":                           {func(a *args) { a.TLS = &config.TLS{MinVersion: "1.1"} }, []string{`tls.minVersion: "1.2", "1.3"`}},
		"TLS server name with a blank":      {func(a *args) { a.TLS = &config.TLS{MinVersion: "1.2", ServerName: "a b"} }, []string{"tls.serverName: certificates"}},
		"state ConfigMap without namespace": {func(a *args) { a.StateConfigMap.Namespace = "" }, []string{"stateConfigMap.namespace: alphanumeric"}},
		"state ConfigMap with a bad name":   {func(a *args) { a.StateConfigMap.Name = "A_b" }, []string{"stateConfigMap.name: alphanumeric"}},

		"launch timeout 0":           {func(a *args) { a.LaunchTimeout = duration(0) }, []string{"launchTimeout: greater than 0"}},
		"launch timeout negative":    {func(a *args) { a.LaunchTimeout = duration(negative) }, []string{"launchTimeout: greater than 0"}},
		"launch retries 0":           {func(a *args) { a.LaunchRetries = 0 }, nil},
		"launch retries negative":    {func(a *args) { a.LaunchRetries = -1 }, []string{"launchRetries: at least 0"}},
		"batch window 0":             {func(a *args) { a.BatchWindow = duration(0) }, nil},
		"batch window negative":      {func(a *args) { a.BatchWindow = duration(negative) }, []string{"batchWindow: 0 or greater"}},
		"batch window long":          {func(a *args) { a.BatchWindow = duration(2 * time.Second) }, []string{"batchWindow: at most 1s"}},
		"batch of none":              {func(a *args) { a.MaxBatchTasks = 0 }, []string{"maxBatchTasks: at least 1"}},
		"batch of too many":          {func(a *args) { a.MaxBatchTasks = 10001 }, []string{"maxBatchTasks: at most 10000"}},
		"minimum without cpu":        {func(a *args) { a.MinimumTaskResources.CPU = resource.MustParse("0") }, []string{"minimumTaskResources.cpu: at least 1m"}},
		"minimum with negative cpu":  {func(a *args) { a.MinimumTaskResources.CPU = resource.MustParse("-1") }, []string{"minimumTaskResources.cpu: at least 1m"}},
		"minimum with little memory": {func(a *args) { a.MinimumTaskResources.Memory = resource.MustParse("1M") }, []string{"minimumTaskResources.memory: at least 1Mi"}},

		"idle after 0":                  {func(a *args) { a.IdleAfter = duration(0) }, nil},
		"idle after negative":           {func(a *args) { a.IdleAfter = duration(negative) }, []string{"idleAfter: 0 or greater"}},
		"idle refuse 0":                 {func(a *args) { a.IdleRefuse = duration(0) }, []string{"idleRefuse: greater than 0"}},
		"short refuse 0":                {func(a *args) { a.ShortRefuse = duration(0) }, nil},
		"short refuse negative":         {func(a *args) { a.ShortRefuse = duration(negative) }, []string{"shortRefuse: 0 or greater"}},
		"short refuse longer than idle": {func(a *args) { a.ShortRefuse = duration(time.Hour) }, []string{"shortRefuse: idleRefuse (5m0s)"}},
		"offer hold 0":                  {func(a *args) { a.OfferHold = duration(0) }, []string{"offerHold: greater than 0"}},
		"maintenance lead negative":     {func(a *args) { a.MaintenanceLeadTime = duration(negative) }, []string{"maintenanceLeadTime: 0 or greater"}},

		"reconcile interval 0":         {func(a *args) { a.ReconcileInterval = duration(0) }, []string{"reconcileInterval: greater than 0"}},
		"re-hold timeout 0":            {func(a *args) { a.ReholdTimeout = duration(0) }, []string{"reholdTimeout: greater than 0"}},
		"unreachable timeout":          {func(a *args) { a.UnreachableTimeout = duration(time.Hour) }, nil},
		"unreachable timeout negative": {func(a *args) { a.UnreachableTimeout = duration(negative) }, []string{"unreachableTimeout: 0 or greater"}},
		"orphan grace negative":        {func(a *args) { a.OrphanGracePeriod = duration(negative) }, []string{"orphanGracePeriod: 0 or greater"}},
		"orphan kills 0":               {func(a *args) { a.MaxOrphanKills = 0 }, []string{"maxOrphanKills: at least 1"}},

		"executor path relative":         {func(a *args) { a.Executor.Path = "bin/executor" }, []string{"executor.path: absolute"}},
		"executor path empty":            {func(a *args) { a.Executor.Path = "" }, []string{"executor.path: absolute"}},
		"executor path with dots":        {func(a *args) { a.Executor.Path = "/opt/../bin/executor" }, []string{"executor.path: absolute"}},
		"executor path of a folder":      {func(a *args) { a.Executor.Path = "/opt/" }, []string{"executor.path: absolute"}},
		"executor kubeconfig relative":   {func(a *args) { a.Executor.Kubeconfig = "kubelet.conf" }, []string{"executor.kubeconfig: absolute"}},
		"executor cpu too small":         {func(a *args) { a.Executor.CPU = resource.MustParse("9m") }, []string{"executor.cpu: at least 10m"}},
		"executor memory too small":      {func(a *args) { a.Executor.Memory = resource.MustParse("31Mi") }, []string{"executor.memory: at least 32Mi"}},
		"executor memory negative":       {func(a *args) { a.Executor.Memory = resource.MustParse("-1Gi") }, []string{"executor.memory: at least 32Mi"}},
		"bind timeout 0":                 {func(a *args) { a.Executor.BindTimeout = duration(0) }, []string{"executor.bindTimeout: launchTimeout"}},
		"bind within the launch timeout": {func(a *args) { a.Executor.BindTimeout = a.LaunchTimeout }, []string{"executor.bindTimeout: launchTimeout (1m0s)"}},
		"force delete after":             {func(a *args) { a.Executor.ForceDeleteAfter = duration(time.Minute) }, nil},
		"force delete negative":          {func(a *args) { a.Executor.ForceDeleteAfter = duration(negative) }, []string{"executor.forceDeleteAfter: 0 or greater"}},
		"kill margin negative":           {func(a *args) { a.Executor.KillMargin = duration(negative) }, []string{"executor.killMargin: 0 or greater"}},
		"shutdown grace 0":               {func(a *args) { a.Executor.ShutdownGracePeriod = duration(0) }, []string{"executor.shutdownGracePeriod: greater than 0"}},
		"executor idle 0":                {func(a *args) { a.Executor.IdleTimeout = duration(0) }, nil},
		"executor idle negative":         {func(a *args) { a.Executor.IdleTimeout = duration(negative) }, []string{"executor.idleTimeout: 0 or greater"}},
		"executor for no task":           {func(a *args) { a.Executor.MaxTasks = 0 }, []string{"executor.maxTasks: at least 1"}},
		"environment":                    {env(config.EnvVar{Name: "A", Value: "b=c"}, config.EnvVar{Name: "GODEBUG"}), nil},
		"variable without a name":        {env(config.EnvVar{Value: "b"}), []string{"executor.environment[0].name: name"}},
		"variable with an equals sign":   {env(config.EnvVar{Name: "A=B"}), []string{"executor.environment[0].name: alphabetic"}},
		"variable of the agent":          {env(config.EnvVar{Name: "MESOS_TASK_ID"}), []string{"executor.environment[0].name: MESOS_"}},
		"variable twice":                 {env(config.EnvVar{Name: "A"}, config.EnvVar{Name: "A"}), []string{"executor.environment[1].name: Duplicate"}},
		"TLS with agents": {env(config.EnvVar{Name: "LIBPROCESS_SSL_ENABLED", Value: "true"}, config.EnvVar{Name: "LIBPROCESS_SSL_CA_FILE", Value: "/ca.pem"},
			config.EnvVar{Name: "LIBPROCESS_SSL_CERT_FILE", Value: "/c.pem"}, config.EnvVar{Name: "LIBPROCESS_SSL_KEY_FILE", Value: "/k.pem"}, config.EnvVar{Name: "LIBPROCESS_SSL_CIPHERS", Value: "x"}), nil},
		"TLS that is neither on nor off": {env(config.EnvVar{Name: "LIBPROCESS_SSL_ENABLED", Value: "yes"}), []string{"executor.environment[0].value: true"}},
		"TLS file of the sandbox":        {env(config.EnvVar{Name: "LIBPROCESS_SSL_CA_FILE", Value: "ca.pem"}), []string{"executor.environment[0].value: absolute path"}},
		"TLS certificate without a key":  {env(config.EnvVar{Name: "LIBPROCESS_SSL_CERT_FILE", Value: "/c.pem"}), []string{"executor.environment: LIBPROCESS_SSL_KEY_FILE"}},
		"TLS key without a certificate":  {env(config.EnvVar{Name: "LIBPROCESS_SSL_KEY_FILE", Value: "/k.pem"}), []string{"executor.environment: LIBPROCESS_SSL_CERT_FILE"}},
		"variable with a NUL":            {env(config.EnvVar{Name: "A", Value: "a\x00"}), []string{"executor.environment[0].value: NUL"}},

		"nodes by address": {func(a *args) { a.NodeMapping.Source = config.NodeMappingAddress }, nil},
		"nodes by label": {func(a *args) {
			a.NodeMapping = config.NodeMapping{Source: config.NodeMappingLabel, Label: "example.com/host"}
		}, nil},
		"nodes by label without label": {func(a *args) { a.NodeMapping.Source = config.NodeMappingLabel }, []string{"nodeMapping.label: source Label needs"}},
		"nodes by a bad label":         {func(a *args) { a.NodeMapping = config.NodeMapping{Source: config.NodeMappingLabel, Label: "a b"} }, []string{"nodeMapping.label: alphanumeric"}},
		"a label that is not used":     {func(a *args) { a.NodeMapping.Label = "host" }, []string{"nodeMapping.label: source Label"}},
		"nodes by an unknown source":   {func(a *args) { a.NodeMapping.Source = "Guess" }, []string{`nodeMapping.source: "Hostname", "Address", "Label"`}},
		"short host names":             {func(a *args) { a.NodeMapping.StripDomain = true }, nil},
		"short addresses": {func(a *args) {
			a.NodeMapping = config.NodeMapping{Source: config.NodeMappingAddress, StripDomain: true}
		}, []string{"nodeMapping.stripDomain: false"}},
		"drain":                           {func(a *args) { a.InverseOffers = config.InverseOffersDrain }, nil},
		"unknown answer":                  {func(a *args) { a.InverseOffers = "Accept" }, []string{`inverseOffers: "Decline", "Drain"`}},
		"limits":                          {func(a *args) { a.TaskLimits = config.TaskLimitsFromPod }, nil},
		"unknown limits":                  {func(a *args) { a.TaskLimits = "All" }, []string{`taskLimits: "None", "FromPod"`}},
		"packing":                         {func(a *args) { a.ScoringStrategy = config.MostAllocated }, nil},
		"unknown strategy":                {func(a *args) { a.ScoringStrategy = "Random" }, []string{`scoringStrategy: "LeastAllocated", "MostAllocated"`}},
		"no status":                       {func(a *args) { a.StatusAddress = "" }, nil},
		"status on all addresses":         {func(a *args) { a.StatusAddress = ":10270" }, nil},
		"status on any port":              {func(a *args) { a.StatusAddress = "[::1]:0" }, nil},
		"status without a port":           {func(a *args) { a.StatusAddress = "127.0.0.1" }, []string{"statusAddress: host:port"}},
		"status with a port in words":     {func(a *args) { a.StatusAddress = "127.0.0.1:http" }, []string{"statusAddress: host:port"}},
		"status with a port out of range": {func(a *args) { a.StatusAddress = "127.0.0.1:65536" }, []string{"statusAddress: host:port"}},
		"several at once": {func(a *args) { a.Masters, a.FailoverTimeout, a.Executor.Path = nil, duration(0), "x" },
			[]string{"masters: zk://", "failoverTimeout: 168h", "executor.path: absolute"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := defaults(t)
			tt.change(a)
			errs := ValidateMesosArgs(field.NewPath("args"), a)
			if len(errs) != len(tt.want) {
				t.Fatalf("ValidateMesosArgs = %v, want %d errors", errs, len(tt.want))
			}
			for i, err := range errs {
				at, text, _ := strings.Cut(tt.want[i], ": ")
				if err.Field != "args."+at || !strings.Contains(err.Error(), text) {
					t.Errorf("Error %d = %v, want field %s and %q", i, err, at, text)
				}
				if strings.Contains(err.Error(), "hush") {
					t.Errorf("Error %d = %v shows the password", i, err)
				}
			}
		})
	}
}

func selector(key, operator string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOperator(operator)}}}
}

func TestValidateMesosArgsChangesNothing(t *testing.T) {
	a := defaults(t)
	before := a.DeepCopy()
	if errs := ValidateMesosArgs(nil, a); len(errs) != 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(before, a); diff != "" {
		t.Errorf("Arguments (-before,+after):\n%s", diff)
	}
}
