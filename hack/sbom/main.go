// SPDX-License-Identifier: Apache-2.0

// Command sbom writes the bill of materials of a Go program as SPDX 2.3 in JSON: the modules that are linked into it, with
// their checksums, as the program itself records them.
//
//	sbom bin/kube-mesos-scheduler > kube-mesos-scheduler.spdx.json
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type document struct {
	SPDXVersion   string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	SPDXID        string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	CreationInfo  creation       `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	SPDXID           string        `json:"SPDXID"`
	Name             string        `json:"name"`
	Version          string        `json:"versionInfo,omitempty"`
	DownloadLocation string        `json:"downloadLocation"`
	FilesAnalyzed    bool          `json:"filesAnalyzed"`
	Checksums        []checksum    `json:"checksums,omitempty"`
	ExternalRefs     []externalRef `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: sbom PROGRAM")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	e := json.NewEncoder(out)
	e.SetIndent("", " ")
	return e.Encode(bill(filepath.Base(args[0]), hex.EncodeToString(sum[:]), info))
}

var notID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// bill is the same for the same program: it names no time and no place.
func bill(name, digest string, info *debug.BuildInfo) document {
	program := pkg{
		SPDXID: "SPDXRef-program", Name: name, Version: info.Main.Version, DownloadLocation: "NOASSERTION",
		Checksums: []checksum{{"SHA256", digest}},
	}
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: name,
		Namespace:     "https://kube-mesos.io/spdx/" + name + "-" + digest,
		CreationInfo:  creation{Created: "1970-01-01T00:00:00Z", Creators: []string{"Tool: hack/sbom"}},
		Packages:      []pkg{program, module("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", program.SPDXID}},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Packages = append(d.Packages, module(m.Path, m.Version, m.Sum))
	}
	for _, p := range d.Packages[1:] {
		d.Relationships = append(d.Relationships, relationship{program.SPDXID, "CONTAINS", p.SPDXID})
	}
	return d
}

func module(path, version, sum string) pkg {
	p := pkg{
		SPDXID: "SPDXRef-" + notID.ReplaceAllString(path+"-"+version, "-"), Name: path, Version: version, DownloadLocation: "NOASSERTION",
		ExternalRefs: []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
	// go.sum's h1 is a SHA-256 over the files of a module.
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == sha256.Size {
		p.Checksums = []checksum{{"SHA256", hex.EncodeToString(raw)}}
	}
	return p
}
