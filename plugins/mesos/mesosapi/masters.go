// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// A master is the address of one master. Two are the same if all fields are.
type master struct {
	scheme string // http or https
	host   string // host:port in lower case, IPv6 in brackets
}

func (m master) String() string { return m.scheme + "://" + m.host }

// A MasterError says what is wrong with one of the configured masters.
type MasterError struct {
	// Index is the position in the list, -1 for the list as a whole.
	Index int
	// Value is the address without its password.
	Value string
	// Reason says what is wrong and what would be right.
	Reason string
}

func (e *MasterError) Error() string {
	if e.Index < 0 {
		return "masters: " + e.Reason
	}
	return fmt.Sprintf("masters[%d]: %q: %s", e.Index, e.Value, e.Reason)
}

const (
	mastersWanted = `give host:port, http://host:port or https://host:port for each master, or one zk://host:port,host:port/path`
	zkWanted      = `want zk://[user:password@]host:port[,host:port...]/path`
	masterWanted  = `want host:port, http://host:port or https://host:port`
)

// CheckMasters reports the first thing that is wrong with a list of masters, as a *MasterError, or nil.
func CheckMasters(masters []string) error {
	_, _, err := parseMasters(masters, "http")
	return err
}

// parseMasters returns either the masters of the list or the ZooKeeper group that it names. Masters without a scheme
// get defaultScheme.
func parseMasters(list []string, defaultScheme string) ([]master, *zkGroup, error) {
	if len(list) == 0 {
		return nil, nil, &MasterError{Index: -1, Reason: "there is none: " + mastersWanted}
	}
	var masters []master
	seen := map[master]int{}
	for i, text := range list {
		if strings.HasPrefix(text, "zk://") {
			group, err := parseZK(text)
			if err != nil {
				return nil, nil, &MasterError{Index: i, Value: redact(text), Reason: err.Error()}
			}
			if len(list) > 1 {
				return nil, nil, &MasterError{Index: i, Value: redact(text), Reason: "a zk:// address must be the only one: " + mastersWanted}
			}
			return nil, group, nil
		}
		m, err := parseMaster(text, defaultScheme)
		if err != nil {
			return nil, nil, &MasterError{Index: i, Value: redact(text), Reason: err.Error()}
		}
		if first, twice := seen[m]; twice {
			return nil, nil, &MasterError{Index: i, Value: redact(text), Reason: fmt.Sprintf("it is the same as masters[%d]: name each master once", first)}
		}
		seen[m] = i
		masters = append(masters, m)
	}
	return masters, nil, nil
}

// parseMaster reads one address. The errors do not repeat the address.
func parseMaster(text, defaultScheme string) (master, error) {
	if text == "" {
		return master{}, errors.New("it is empty: " + masterWanted)
	}
	if !strings.Contains(text, "://") {
		text = defaultScheme + "://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // url.Error repeats the whole address, with its password
		}
		if strings.Contains(text, "@") {
			err = errors.New("it cannot be parsed")
		}
		return master{}, fmt.Errorf("%w: %s", err, masterWanted)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return master{}, fmt.Errorf("the scheme %q is not known: %s", u.Scheme, masterWanted)
	case u.User != nil:
		return master{}, errors.New("a user and password in the address are not used: set the principal and its secret file under authentication")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return master{}, errors.New("it has a path, query or fragment: " + masterWanted)
	case u.Port() == "":
		return master{}, errors.New("the port is missing: " + masterWanted + ", for example host:5050")
	}
	return newMaster(u.Scheme, u.Hostname(), u.Port())
}

func newMaster(scheme, host, port string) (master, error) {
	if !isHost(host) {
		return master{}, errors.New("the host is missing or is not a host name or IP address: " + masterWanted)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return master{}, errors.New("the port is not a number from 1 to 65535: " + masterWanted)
	}
	return master{scheme: scheme, host: net.JoinHostPort(strings.ToLower(host), strconv.FormatUint(n, 10))}, nil
}

// isHost reports whether text is an IP address without a zone or looks like a host name.
func isHost(text string) bool {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Zone() == ""
	}
	if text == "" || len(text) > 253 || strings.Trim(text, ".-") == "" {
		return false
	}
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// maxLocation bounds, in bytes, the Location that is looked at.
const maxLocation = 2048

// redirectTarget returns the master that a 307 of from names. Mesos sends a Location without a scheme,
// //host:port/master/api/v1/scheduler, so the scheme is kept; one that would leave https is refused. The path is not
// used: every master serves the API under the same one.
func redirectTarget(from master, location string) (master, error) {
	if location == "" || len(location) > maxLocation {
		return master{}, fmt.Errorf("its Location has %d bytes", len(location))
	}
	u, err := url.Parse(location)
	if err != nil {
		return master{}, errors.New("its Location is not a URL")
	}
	scheme := u.Scheme
	if scheme == "" {
		scheme = from.scheme
	}
	port := u.Port()
	switch {
	case scheme != "http" && scheme != "https":
		return master{}, fmt.Errorf("its Location has the scheme %q", scheme)
	case from.scheme == "https" && scheme != "https":
		return master{}, errors.New("its Location leads from https to http")
	case u.User != nil:
		return master{}, errors.New("its Location carries a user")
	case port == "" && scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	to, err := newMaster(scheme, u.Hostname(), port)
	if err != nil {
		return master{}, errors.New("its Location names no host and port")
	}
	return to, nil
}

// redact removes what may be a password from an address, parsable or not.
func redact(text string) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text
	}
	start := strings.Index(text, "://")
	if start < 0 || start > at {
		return "***" + text[at:]
	}
	return text[:start+3] + "***" + text[at:]
}
