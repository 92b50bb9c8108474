// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// A Credential authenticates a request: by principal and secret (HTTP Basic, the authenticator that Mesos ships) or by
// a bearer token (authenticator modules). The zero value is none.
type Credential struct {
	Principal string
	Secret    string
	Bearer    string
}

// String hides the secret and the token.
func (c Credential) String() string {
	switch {
	case c.Bearer != "":
		return "bearer token"
	case c.Principal != "":
		return fmt.Sprintf("principal %q", c.Principal)
	}
	return "no credential"
}

// GoString hides the secret and the token.
func (c Credential) GoString() string { return c.String() }

// check refuses what cannot be sent. Mesos splits what Basic carries at every colon and wants exactly two parts
// (BasicAuthenticator of libprocess).
func (c Credential) check() error {
	switch {
	case c.Bearer != "" && (c.Principal != "" || c.Secret != ""):
		return errors.New("a bearer token and a principal with secret exclude each other")
	case c.Bearer != "" && !printable(c.Bearer):
		return errors.New("the bearer token contains a blank or a control character")
	case c.Secret != "" && c.Principal == "":
		return errors.New("there is a secret without a principal")
	case strings.Contains(c.Principal, ":"):
		return fmt.Errorf("the principal %q contains a colon, which Mesos does not take", c.Principal)
	case strings.Contains(c.Secret, ":"):
		return fmt.Errorf("the secret of the principal %q contains a colon, which Mesos does not take", c.Principal)
	}
	return nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// apply puts the credential into a request.
func (c Credential) apply(r *http.Request) {
	switch {
	case c.Bearer != "":
		r.Header.Set("Authorization", "Bearer "+c.Bearer)
	case c.Principal != "":
		r.SetBasicAuth(c.Principal, c.Secret)
	}
}

// maxSecret bounds, in bytes, the size of a file with a secret.
const maxSecret = 64 << 10

// FileCredential returns a function for Config.Credential that reads the secret of principal, or a bearer token, from
// a file each time, so that a rotated one is used at once. White space around the content is cut off. Without files
// it returns none.
func FileCredential(principal, secretFile, bearerTokenFile string) func() (Credential, error) {
	return func() (Credential, error) {
		switch {
		case bearerTokenFile != "":
			token, err := readSecret(bearerTokenFile)
			if err != nil {
				return Credential{}, err
			}
			return Credential{Bearer: token}, nil
		case secretFile != "":
			secret, err := readSecret(secretFile)
			if err != nil {
				return Credential{}, err
			}
			return Credential{Principal: principal, Secret: secret}, nil
		}
		return Credential{}, nil
	}
}

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxSecret || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file of at most %d bytes", path, maxSecret)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
