// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func read(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(epoch) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s depends on who made it, and when: %+v", h.Name, h)
		}
		if out[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// An image says of each part what it is by its digest, from the index down to the program, and is always the same.
func TestImage(t *testing.T) {
	i := image{name: "x", tag: "v1", user: "65532:65532", arch: "amd64", program: "bin/x"}
	var one, two bytes.Buffer
	digest, err := write(&one, i, []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write(&two, i, []byte("program")); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Fatalf("two images of the same differ: %v", err)
	}
	files := read(t, &one)
	blob := func(d string, size int) []byte {
		t.Helper()
		data := files["blobs/sha256/"+strings.TrimPrefix(d, "sha256:")]
		if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != d || len(data) != size {
			t.Fatalf("blob %s of %d bytes is not there", d, size)
		}
		return data
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 || index.Manifests[0].Digest != "sha256:"+digest {
		t.Fatalf("index %s: %v", files["index.json"], err)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(blob(index.Manifests[0].Digest, index.Manifests[0].Size), &manifest); err != nil {
		t.Fatal(err)
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(blob(manifest.Config.Digest, manifest.Config.Size), &config); err != nil || config.Config.User != i.user || config.Config.Entrypoint[0] != "/x" {
		t.Fatalf("config %+v: %v", config, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0].Digest, manifest.Layers[0].Size)))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(layer); config.Rootfs.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Error("the config names another layer")
	}
	if got := read(t, bytes.NewReader(layer)); len(got) != 1 || string(got["x"]) != "program" {
		t.Errorf("the layer holds %v", got)
	}
}

// A program is the same wherever it is built: the folder of the sources is not in it.
func TestProgramsAreReproducible(t *testing.T) {
	build := func(folder string) []byte {
		t.Helper()
		for _, name := range []string{"go.mod", "main.go"} {
			text := map[string]string{"go.mod": "module example.test/x\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() { panic(\"here\") }\n"}[name]
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", "x", ".")
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+flags(t))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(filepath.Join(folder, "x"))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(build(t.TempDir()), build(t.TempDir())) {
		t.Error("the same sources in two folders give two programs")
	}
}

// An image's program runs with nothing but the image, as its user; a damaged image is refused.
func TestRunImage(t *testing.T) {
	dir := t.TempDir()
	source := `package main

import (
	"fmt"
	"os"
)

func main() {
	root, err := os.ReadDir("/")
	fmt.Println(os.Args[1:], os.Getuid(), os.Getgid(), len(root), err, len(os.Environ()))
}
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "x"), filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	archive := filepath.Join(dir, "x.tar")
	i := image{name: "x", tag: "v1", user: "65532:65533", arch: "amd64", program: filepath.Join(dir, "x")}
	if err := run(i, archive); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err := runImage(t.Context(), archive, []string{"--version"}, &out, &errs)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("This machine lets nobody but root change the root of a process")
	}
	if want := "[--version] 65532 65533 1 <nil> 0\n"; err != nil || out.String() != want {
		t.Errorf("%v: %q %q, want %q", err, &out, &errs, want)
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1 // within the layer
	if err := os.WriteFile(archive, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runImage(t.Context(), archive, nil, &out, &errs); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("A damaged image: %v", err)
	}
}

// flags are the ones that hack/images.sh builds with.
func flags(t *testing.T) string {
	script, err := os.ReadFile("../images.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(script), "GOFLAGS='")
	if !ok {
		t.Fatal("hack/images.sh sets no GOFLAGS")
	}
	flags, _, _ := strings.Cut(rest, "'")
	return flags
}
