// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMasters(t *testing.T) {
	for name, tt := range map[string]struct {
		list    []string
		want    []string
		wantErr []string // texts of the error
	}{
		"bare":                       {[]string{"m1:5050", "10.0.0.2:5051", "[::1]:5050"}, []string{"http://m1:5050", "http://10.0.0.2:5051", "http://[::1]:5050"}, nil},
		"schemes":                    {[]string{"http://m1:5050", "https://M2.example:5051/"}, []string{"http://m1:5050", "https://m2.example:5051"}, nil},
		"none":                       {nil, nil, []string{"masters: ", "there is none", "host:port"}},
		"empty":                      {[]string{"m1:5050", ""}, nil, []string{"masters[1]", "empty", "host:port"}},
		"no port":                    {[]string{"m1"}, nil, []string{"masters[0]", `"m1"`, "port", "m1"}},
		"no port with a scheme":      {[]string{"https://m1"}, nil, []string{"masters[0]", "port"}},
		"port 0":                     {[]string{"m1:0"}, nil, []string{"1 to 65535"}},
		"port too large":             {[]string{"m1:65536"}, nil, []string{"1 to 65535"}},
		"port in words":              {[]string{"m1:http"}, nil, []string{"masters[0]", "invalid port"}},
		"no host":                    {[]string{":5050"}, nil, []string{"host"}},
		"other scheme":               {[]string{"ftp://m1:5050"}, nil, []string{`"ftp"`, "http://host:port"}},
		"path":                       {[]string{"http://m1:5050/master"}, nil, []string{"path"}},
		"query":                      {[]string{"http://m1:5050?a=b"}, nil, []string{"query"}},
		"not a URL":                  {[]string{"http://m1:5050%zz"}, nil, []string{"masters[0]", "host:port"}},
		"blank in the host":          {[]string{"m 1:5050"}, nil, []string{"masters[0]"}},
		"several in one":             {[]string{"m1:5050,m2:5050"}, nil, []string{"masters[0]", "host:port"}},
		"credentials in a URL":       {[]string{"http://me:hush@m1:5050"}, nil, []string{"masters[0]", "http://***@m1:5050", "authentication"}},
		"credentials without scheme": {[]string{"me:hush@m1:5050"}, nil, []string{"***@m1:5050"}},
		"unparsable with password":   {[]string{"http://me:hush%zz@m1:5050"}, nil, []string{"***@m1:5050"}},
		"unparsable with a scheme":   {[]string{"h%ttp://me:hush@m1:5050"}, nil, []string{"***@m1:5050"}},
		"twice":                      {[]string{"m1:5050", "http://M1:05050"}, nil, []string{"masters[1]", "masters[0]"}},
		"zk with others":             {[]string{"m1:5050", "zk://me:hush@z1:2181/mesos"}, nil, []string{"masters[1]", "zk://***@z1:2181/mesos", "only one"}},
		"others with zk":             {[]string{"zk://z1:2181/mesos", "m1:5050"}, nil, []string{"masters[0]", "only one"}},
		"zk without path":            {[]string{"zk://z1:2181"}, nil, []string{"masters[0]", "path", "/mesos"}},
		"zk with an empty path":      {[]string{"zk://z1:2181/"}, nil, []string{"path"}},
		"zk path with a slash":       {[]string{"zk://z1:2181/mesos/"}, nil, []string{"path"}},
		"zk path with dots":          {[]string{"zk://z1:2181/a/../b"}, nil, []string{"path"}},
		"zk without port":            {[]string{"zk://z1,z2:2181/mesos"}, nil, []string{"host:port"}},
		"zk without hosts":           {[]string{"zk:///mesos"}, nil, []string{"host:port"}},
		"zk with half a user":        {[]string{"zk://hush@z1:2181/mesos"}, nil, []string{"user:password", "zk://***@z1:2181/mesos"}},
	} {
		t.Run(name, func(t *testing.T) {
			masters, _, err := parseMasters(tt.list, "http")
			if tt.wantErr != nil {
				var typed *MasterError
				if !errors.As(err, &typed) {
					t.Fatalf("parseMasters = %v, %v, want a *MasterError", masters, err)
				}
				for _, want := range tt.wantErr {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("The error %q lacks %q", err, want)
					}
				}
				if strings.Contains(err.Error(), "hush") {
					t.Errorf("The error %q shows the password", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range masters {
				got = append(got, m.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Masters (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestParseZK(t *testing.T) {
	for text, want := range map[string]zkGroup{
		"zk://z1:2181/mesos":                 {servers: []string{"z1:2181"}, path: "/mesos"},
		"zk://z1:2181,z2:2182/a/b":           {servers: []string{"z1:2181", "z2:2182"}, path: "/a/b"},
		"zk://me:hush@z1:2181/mesos":         {servers: []string{"z1:2181"}, path: "/mesos", digest: "me:hush"},
		"zk://me:p@ss:w%2Fo@z1:2181/mesos":   {servers: []string{"z1:2181"}, path: "/mesos", digest: "me:p@ss:w/o"},
		"zk://me:100%@[fe80::1]:2181/mesos":  {servers: []string{"[fe80::1]:2181"}, path: "/mesos", digest: "me:100%"},
		"zk://Z1.example:2181,10.0.0.1:1/m-": {servers: []string{"z1.example:2181", "10.0.0.1:1"}, path: "/m-"},
	} {
		masters, got, err := parseMasters([]string{text}, "http")
		if err != nil || len(masters) != 0 {
			t.Errorf("%s: %v, %v", text, masters, err)
			continue
		}
		if diff := cmp.Diff(&want, got, cmp.AllowUnexported(zkGroup{})); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", text, diff)
		}
	}
}

func TestRedirectTarget(t *testing.T) {
	plain, secure := master{"http", "m1:5050"}, master{"https", "m1:5050"}
	for name, tt := range map[string]struct {
		from     master
		location string
		want     string // empty: refused
	}{
		"as Mesos sends it":       {plain, "//m2:5050/master/api/v1/scheduler", "http://m2:5050"},
		"the scheme is kept":      {secure, "//m2:5050/master/api/v1/scheduler", "https://m2:5050"},
		"full URL":                {plain, "http://m2:5050/master/api/v1/scheduler", "http://m2:5050"},
		"from http to https":      {plain, "https://m2:5050/x", "https://m2:5050"},
		"from https to http":      {secure, "http://m2:5050/master/api/v1/scheduler", ""},
		"IPv6":                    {plain, "//[::1]:5050/master/api/v1/scheduler", "http://[::1]:5050"},
		"capitals":                {plain, "//M2.Example:5050/", "http://m2.example:5050"},
		"default port of http":    {plain, "//m2/x", "http://m2:80"},
		"default port of https":   {secure, "//m2/x", "https://m2:443"},
		"none":                    {plain, "", ""},
		"path only":               {plain, "/master/api/v1/scheduler", ""},
		"other scheme":            {plain, "file:///etc/passwd", ""},
		"opaque":                  {plain, "mailto:a@b", ""},
		"with a user":             {plain, "//me:hush@m2:5050/", ""},
		"port too large":          {plain, "//m2:99999/", ""},
		"not a URL":               {plain, "//m2:5050/%zz", ""},
		"control character":       {plain, "//m2\n:5050/", ""},
		"too long":                {plain, "//m2:5050/" + strings.Repeat("x", 4096), ""},
		"no host before a port":   {plain, "//:5050/", ""},
		"backslash":               {plain, `//m2\@m3:5050/`, ""},
		"escaped in the host":     {plain, "//m2%2f:5050/", ""},
		"colons only":             {plain, "//::", ""},
		"zone of an IPv6 address": {plain, "//[fe80::1%25eth0]:5050/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := redirectTarget(tt.from, tt.location)
			if tt.want == "" {
				if err == nil {
					t.Errorf("redirectTarget = %v, want an error", got)
				}
				return
			}
			if err != nil || got.String() != tt.want {
				t.Errorf("redirectTarget = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func FuzzRedirect(f *testing.F) {
	for _, location := range []string{"//m2:5050/master/api/v1/scheduler", "https://m2/", "//[::1]:5050", "//a@b:1", "/x", `//m2\@m3:1`} {
		f.Add(location, true)
		f.Add(location, false)
	}
	f.Fuzz(func(t *testing.T, location string, secure bool) {
		from := master{"http", "m1:5050"}
		if secure {
			from.scheme = "https"
		}
		to, err := redirectTarget(from, location)
		if err != nil {
			return
		}
		if secure && to.scheme != "https" {
			t.Fatalf("%q leads from https to %v", location, to)
		}
		// What comes out is as strict as what a user may configure.
		again, err := parseMaster(to.String(), "http")
		if err != nil || again != to {
			t.Fatalf("%q leads to %v, which reads as %v, %v", location, to, again, err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	good := []string{"m1:5050"}
	for want, cfg := range map[string]Config{
		"masters":          {},
		"maxFrame":         {Masters: good, MaxFrame: -1},
		"dialTimeout":      {Masters: good, DialTimeout: -1},
		"callTimeout":      {Masters: good, CallTimeout: -1},
		"missedHeartbeats": {Masters: good, MissedHeartbeats: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want an error that names %s", err, want)
		}
	}
}
