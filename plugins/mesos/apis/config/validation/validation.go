// SPDX-License-Identifier: Apache-2.0

// Package validation checks the arguments of the plugin Mesos. Every error names the field, its value and what would be
// right.
package validation

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

const (
	maxName        = 255 // bytes of a framework name
	maxBatchWindow = time.Second
	maxBatchTasks  = 10000
)

// ValidateMesosArgs returns all that is wrong with arguments whose defaults are set. Path is where they stand in the
// configuration; nil means its root.
func ValidateMesosArgs(path *field.Path, a *config.MesosArgs) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateMasters(path.Child("masters"), a.Masters)...)
	errs = append(errs, validateFramework(path, a)...)
	errs = append(errs, validateRoles(path.Child("roles"), a.Roles)...)
	if a.ReserveForGangs && slices.ContainsFunc(a.Roles, func(r config.Role) bool { return r.Name == "*" }) {
		errs = append(errs, field.Invalid(path.Child("reserveForGangs"), true, "must be false while roles has *: Mesos reserves nothing for it"))
	}
	errs = append(errs, validateAuthentication(path.Child("authentication"), &a.Authentication)...)
	if a.TLS != nil {
		errs = append(errs, validateTLS(path.Child("tls"), a.TLS)...)
	}
	errs = append(errs, validateStateConfigMap(path.Child("stateConfigMap"), &a.StateConfigMap)...)
	errs = append(errs, validateLaunch(path, a)...)
	errs = append(errs, validateOffers(path, a)...)
	errs = append(errs, validateLifecycle(path, a)...)
	errs = append(errs, validateExecutor(path.Child("executor"), &a.Executor, a.LaunchTimeout.Duration)...)
	errs = append(errs, validateNodeMapping(path.Child("nodeMapping"), &a.NodeMapping)...)
	switch a.InverseOffers {
	case config.InverseOffersDecline, config.InverseOffersDrain:
	default:
		errs = append(errs, field.NotSupported(path.Child("inverseOffers"), a.InverseOffers,
			[]config.InverseOfferPolicy{config.InverseOffersDecline, config.InverseOffersDrain}))
	}
	switch a.TaskLimits {
	case config.TaskLimitsNone, config.TaskLimitsFromPod:
	default:
		errs = append(errs, field.NotSupported(path.Child("taskLimits"), a.TaskLimits,
			[]config.TaskLimitsPolicy{config.TaskLimitsNone, config.TaskLimitsFromPod}))
	}
	switch a.ScoringStrategy {
	case config.LeastAllocated, config.MostAllocated:
	default:
		errs = append(errs, field.NotSupported(path.Child("scoringStrategy"), a.ScoringStrategy,
			[]config.ScoringStrategyType{config.LeastAllocated, config.MostAllocated}))
	}
	return append(errs, validateStatusAddress(path.Child("statusAddress"), a.StatusAddress)...)
}

func validateMasters(path *field.Path, masters []string) field.ErrorList {
	err := mesosapi.CheckMasters(masters)
	if err == nil {
		return nil
	}
	var bad *mesosapi.MasterError
	if !errors.As(err, &bad) || bad.Index < 0 {
		return field.ErrorList{field.Required(path, "give host:port, http://host:port or https://host:port for each Mesos master, or one zk://host:port,host:port/path")}
	}
	return field.ErrorList{field.Invalid(path.Index(bad.Index), bad.Value, bad.Reason)}
}

func validateFramework(path *field.Path, a *config.MesosArgs) field.ErrorList {
	var errs field.ErrorList
	name := path.Child("frameworkName")
	switch {
	case a.FrameworkName == "":
		errs = append(errs, field.Required(name, "give the name that Mesos shows, or leave it out for kube-mesos-scheduler"))
	case len(a.FrameworkName) > maxName || strings.ContainsFunc(a.FrameworkName, unicode.IsControl):
		errs = append(errs, field.Invalid(name, a.FrameworkName, fmt.Sprintf("must have at most %d bytes and no control characters", maxName)))
	}
	if !isWord(a.User) {
		errs = append(errs, field.Invalid(path.Child("user"), a.User, "must be the name of a user of the agents' hosts, such as root"))
	}
	if a.Hostname != "" && !isWord(a.Hostname) {
		errs = append(errs, field.Invalid(path.Child("hostname"), a.Hostname, "must be a host name, or empty for that of this host"))
	}
	if a.WebUIURL != "" {
		u, err := url.Parse(a.WebUIURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			errs = append(errs, field.Invalid(path.Child("webUIURL"), withoutPassword(u, a.WebUIURL), "must be a URL such as https://host:port/path, or empty"))
		}
	}
	if d := a.FailoverTimeout.Duration; d <= 0 {
		errs = append(errs, field.Invalid(path.Child("failoverTimeout"), d.String(),
			"must be positive, for example 168h: with 0 Mesos kills every task of the framework as soon as its connection breaks"))
	}
	return errs
}

// isWord reports whether text is there and free of white space and control characters.
func isWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

// withoutPassword hides a password in a URL, or all of what cannot be parsed and may hold one.
func withoutPassword(u *url.URL, text string) string {
	switch {
	case u != nil:
		return u.Redacted()
	case strings.Contains(text, "@"):
		return "***"
	}
	return text
}

func validateRoles(path *field.Path, roles []config.Role) field.ErrorList {
	var errs field.ErrorList
	if len(roles) == 0 {
		errs = append(errs, field.Required(path, "give at least one role, or leave it out for the role kubernetes"))
	}
	seen := sets.New[string]()
	for i, role := range roles {
		at := path.Index(i)
		if reason := roleReason(role.Name); reason != "" {
			errs = append(errs, field.Invalid(at.Child("name"), role.Name, reason))
		} else if seen.Has(role.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), role.Name))
		}
		seen.Insert(role.Name)
		if role.NamespaceSelector != nil {
			errs = append(errs, metav1validation.ValidateLabelSelector(role.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("namespaceSelector"))...)
		}
	}
	return errs
}

// roleReason says why Mesos would not take a role's name (roles::validate in src/common/roles.cpp), empty if it would.
func roleReason(name string) string {
	const like = ", such as kubernetes or prod/web"
	switch {
	case name == "*":
		return ""
	case name == "":
		return "must not be empty: give a name" + like
	case strings.HasPrefix(name, "/"), strings.HasSuffix(name, "/"):
		return "must not begin or end with a slash: give a name" + like
	case strings.Contains(name, "//"):
		return "must not contain two slashes in a row: give a name" + like
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return "must not contain white space, backspace or other control characters: give a name" + like
	}
	for _, part := range strings.Split(name, "/") {
		switch {
		case part == "." || part == ".." || part == "*":
			return fmt.Sprintf("must not have %q between slashes: give a name%s", part, like)
		case strings.HasPrefix(part, "-"):
			return "must not have a part that begins with a dash: give a name" + like
		}
	}
	return ""
}

func validateAuthentication(path *field.Path, a *config.Authentication) field.ErrorList {
	var errs field.ErrorList
	if a.SecretFile != "" && a.BearerTokenFile != "" {
		errs = append(errs, field.Invalid(path.Child("bearerTokenFile"), a.BearerTokenFile, "excludes secretFile: set the one that the masters' authenticator wants"))
	}
	principal := path.Child("principal")
	switch {
	case a.SecretFile != "" && a.Principal == "":
		errs = append(errs, field.Required(principal, "secretFile needs the principal whose secret it is"))
	case a.SecretFile != "" && strings.Contains(a.Principal, ":"):
		errs = append(errs, field.Invalid(principal, a.Principal, "must not contain a colon when secretFile is set: Mesos splits principal and secret there"))
	case a.Principal != "" && strings.ContainsFunc(a.Principal, unicode.IsControl):
		errs = append(errs, field.Invalid(principal, a.Principal, "must not contain control characters"))
	}
	return errs
}

func validateTLS(path *field.Path, t *config.TLS) field.ErrorList {
	var errs field.ErrorList
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		errs = append(errs, field.Required(path.Child("keyFile"), "certFile needs the file with its key"))
	case t.CertFile == "" && t.KeyFile != "":
		errs = append(errs, field.Required(path.Child("certFile"), "keyFile needs the file with its certificate"))
	}
	if t.ServerName != "" && !isWord(t.ServerName) {
		errs = append(errs, field.Invalid(path.Child("serverName"), t.ServerName, "must be a name in the masters' certificates, or empty for the host of each address"))
	}
	switch t.MinVersion {
	case "1.2", "1.3":
	default:
		errs = append(errs, field.NotSupported(path.Child("minVersion"), t.MinVersion, []string{"1.2", "1.3"}))
	}
	return errs
}

func validateStateConfigMap(path *field.Path, ref *config.ObjectReference) field.ErrorList {
	var errs field.ErrorList
	for _, reason := range validation.IsDNS1123Label(ref.Namespace) {
		errs = append(errs, field.Invalid(path.Child("namespace"), ref.Namespace, reason))
	}
	for _, reason := range validation.IsDNS1123Subdomain(ref.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), ref.Name, reason))
	}
	return errs
}

func validateLaunch(path *field.Path, a *config.MesosArgs) field.ErrorList {
	errs := positive(path.Child("launchTimeout"), a.LaunchTimeout)
	errs = append(errs, atLeast(path.Child("launchRetries"), a.LaunchRetries, 0)...)
	errs = append(errs, notNegative(path.Child("batchWindow"), a.BatchWindow)...)
	if d := a.BatchWindow.Duration; d > maxBatchWindow {
		errs = append(errs, field.Invalid(path.Child("batchWindow"), d.String(), fmt.Sprintf("must be at most %v: every launch waits for it", maxBatchWindow)))
	}
	errs = append(errs, atLeast(path.Child("maxBatchTasks"), a.MaxBatchTasks, 1)...)
	if a.MaxBatchTasks > maxBatchTasks {
		errs = append(errs, field.Invalid(path.Child("maxBatchTasks"), a.MaxBatchTasks, fmt.Sprintf("must be at most %d", maxBatchTasks)))
	}
	least := path.Child("minimumTaskResources")
	if q := a.MinimumTaskResources.CPU; q.MilliValue() < 1 {
		errs = append(errs, field.Invalid(least.Child("cpu"), q.String(), "must be at least 1m: Mesos refuses tasks with less"))
	}
	if q := a.MinimumTaskResources.Memory; q.Value() < 1<<20 {
		errs = append(errs, field.Invalid(least.Child("memory"), q.String(), "must be at least 1Mi"))
	}
	return errs
}

func validateOffers(path *field.Path, a *config.MesosArgs) field.ErrorList {
	errs := notNegative(path.Child("idleAfter"), a.IdleAfter)
	errs = append(errs, positive(path.Child("idleRefuse"), a.IdleRefuse)...)
	errs = append(errs, notNegative(path.Child("shortRefuse"), a.ShortRefuse)...)
	errs = append(errs, positive(path.Child("offerHold"), a.OfferHold)...)
	errs = append(errs, notNegative(path.Child("maintenanceLeadTime"), a.MaintenanceLeadTime)...)
	if len(errs) == 0 && a.ShortRefuse.Duration > a.IdleRefuse.Duration {
		errs = append(errs, field.Invalid(path.Child("shortRefuse"), a.ShortRefuse.Duration.String(), fmt.Sprintf("must not be longer than idleRefuse (%v)", a.IdleRefuse.Duration)))
	}
	return errs
}

func validateLifecycle(path *field.Path, a *config.MesosArgs) field.ErrorList {
	errs := positive(path.Child("reconcileInterval"), a.ReconcileInterval)
	errs = append(errs, positive(path.Child("reholdTimeout"), a.ReholdTimeout)...)
	errs = append(errs, notNegative(path.Child("unreachableTimeout"), a.UnreachableTimeout)...)
	errs = append(errs, notNegative(path.Child("orphanGracePeriod"), a.OrphanGracePeriod)...)
	return append(errs, atLeast(path.Child("maxOrphanKills"), a.MaxOrphanKills, 1)...)
}

func validateNodeMapping(path *field.Path, m *config.NodeMapping) field.ErrorList {
	var errs field.ErrorList
	label := path.Child("label")
	switch m.Source {
	case config.NodeMappingLabel:
		if m.Label == "" {
			errs = append(errs, field.Required(label, "source Label needs the key of the label that holds the agent's host name"))
			break
		}
		for _, reason := range validation.IsQualifiedName(m.Label) {
			errs = append(errs, field.Invalid(label, m.Label, reason))
		}
	case config.NodeMappingHostname, config.NodeMappingAddress:
		if m.Label != "" {
			errs = append(errs, field.Invalid(label, m.Label, fmt.Sprintf("must be empty for source %s: it is for source Label", m.Source)))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("source"), m.Source,
			[]config.NodeMappingSource{config.NodeMappingHostname, config.NodeMappingAddress, config.NodeMappingLabel}))
	}
	if m.StripDomain && m.Source == config.NodeMappingAddress {
		errs = append(errs, field.Invalid(path.Child("stripDomain"), m.StripDomain, "must be false for source Address"))
	}
	return errs
}

func validateStatusAddress(path *field.Path, address string) field.ErrorList {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || (host != "" && !isWord(host)) {
		return field.ErrorList{field.Invalid(path, address, "must be host:port with a port from 0 to 65535, for example 127.0.0.1:10270, or empty to serve no status")}
	}
	return nil
}

func positive(path *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be greater than 0")}
}

func notNegative(path *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be 0 or greater")}
}

func atLeast(path *field.Path, n, least int32) field.ErrorList {
	if n >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("must be at least %d", least))}
}
