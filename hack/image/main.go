// SPDX-License-Identifier: Apache-2.0

// Command image writes an OCI image with one static program in it, without an engine and bit for bit the same each time.
//
//	image -name kube-mesos-scheduler -tag v1 -user 65532:65532 -out image.tar bin/kube-mesos-scheduler
//
//	image -run image.tar -- --version
//
// runs the program of an image with nothing but what is in it, as its user.
//
// The archive is an OCI image layout: `skopeo copy oci-archive:image.tar docker://...`, `ctr image import image.tar`.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// epoch is the time of everything in an image.
var epoch = time.Unix(0, 0).UTC()

type image struct {
	name, tag, user, arch, program string
}

func main() {
	i := image{}
	out := flag.String("out", "", "archive to write")
	flag.StringVar(&i.name, "name", "", "name of the image")
	flag.StringVar(&i.tag, "tag", "latest", "tag of the image")
	flag.StringVar(&i.user, "user", "", "user and group that the program runs as")
	flag.StringVar(&i.arch, "arch", "amd64", "architecture of the program")
	archive := flag.String("run", "", "run the program of this archive instead of writing one")
	flag.Parse()
	if *archive != "" {
		if err := runImage(context.Background(), *archive, flag.Args(), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	i.program = flag.Arg(0)
	if err := run(i, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(i image, out string) error {
	if i.name == "" || i.program == "" || out == "" {
		return errors.New("usage: image -name NAME [-tag TAG] [-user UID:GID] -out ARCHIVE PROGRAM")
	}
	program, err := os.ReadFile(i.program)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	digest, err := write(&archive, i, program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, archive.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %s:%s sha256:%s\n", out, i.name, i.tag, digest)
	return nil
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// blobs are what an image layout holds, by digest, in the order in which they were added.
type blobs struct {
	names []string
	data  map[string][]byte
}

func (b *blobs) add(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	if _, ok := b.data[name]; !ok {
		b.names = append(b.names, name)
		b.data[name] = data
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: len(data)}
}

// write writes the archive and returns the digest of the image.
func write(w io.Writer, i image, program []byte) (string, error) {
	b := blobs{data: map[string][]byte{}}
	path := filepath.Base(i.program)
	var layer bytes.Buffer
	if err := tarOf(&layer, []entry{{path, 0o755, program}}); err != nil {
		return "", err
	}
	plain := sha256.Sum256(layer.Bytes())
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped) // its header has no time and no name
	if _, err := z.Write(layer.Bytes()); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	layerBlob := b.add("application/vnd.oci.image.layer.v1.tar+gzip", zipped.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": i.arch, "os": "linux", "created": epoch,
		"config": map[string]any{"User": i.user, "Entrypoint": []string{"/" + path}, "Labels": map[string]string{"org.opencontainers.image.title": i.name, "org.opencontainers.image.version": i.tag, "org.opencontainers.image.licenses": "Apache-2.0"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(plain[:])}},
	})
	if err != nil {
		return "", err
	}
	configBlob := b.add("application/vnd.oci.image.config.v1+json", config)
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": configBlob, "layers": []descriptor{layerBlob},
	})
	if err != nil {
		return "", err
	}
	manifestBlob := b.add("application/vnd.oci.image.manifest.v1+json", manifest)
	manifestBlob.Platform = &platform{i.arch, "linux"}
	manifestBlob.Annotations = map[string]string{"org.opencontainers.image.ref.name": i.tag}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []descriptor{manifestBlob}})
	if err != nil {
		return "", err
	}
	entries := []entry{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}}
	for _, name := range b.names {
		entries = append(entries, entry{"blobs/sha256/" + name, 0o644, b.data[name]})
	}
	return manifestBlob.Digest[len("sha256:"):], tarOf(w, entries)
}

type entry struct {
	name string
	mode int64
	data []byte
}

func tarOf(w io.Writer, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: epoch, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}
