// SPDX-License-Identifier: Apache-2.0

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
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// runImage runs an image's program as an engine would: with nothing but what is in the image, as the image's user. It
// checks every digest on its way.
func runImage(ctx context.Context, archive string, args []string, stdout, stderr io.Writer) error {
	root, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	entrypoint, user, err := unpack(archive, root)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	cmd := exec.CommandContext(ctx, entrypoint[0], append(entrypoint[1:], args...)...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() != 0 {
		// A user namespace makes a root of anybody, who is the only user in it then.
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(user.Uid), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(user.Gid), HostID: os.Getgid(), Size: 1}}
	} else {
		cmd.SysProcAttr.Credential = user
	}
	return cmd.Run()
}

// unpack writes the files of an image into a folder and returns what to run as whom.
func unpack(archive, root string) (entrypoint []string, user *syscall.Credential, err error) {
	data, err := os.ReadFile(archive)
	if err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{}
	if err := eachFile(bytes.NewReader(data), func(h *tar.Header, data []byte) error {
		files[h.Name] = data
		return nil
	}); err != nil {
		return nil, nil, err
	}
	blob := func(d descriptor, into any) error {
		data, err := verified(files, d)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, into)
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		return nil, nil, fmt.Errorf("an index with one image is wanted: %w", err)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := blob(index.Manifests[0], &manifest); err != nil {
		return nil, nil, err
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
	}
	if err := blob(manifest.Config, &config); err != nil {
		return nil, nil, err
	}
	for _, layer := range manifest.Layers {
		data, err := verified(files, layer)
		if err != nil {
			return nil, nil, err
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, nil, err
		}
		if err := eachFile(z, func(h *tar.Header, data []byte) error {
			if !filepath.IsLocal(h.Name) {
				return fmt.Errorf("%q leads out of the image", h.Name)
			}
			path := filepath.Join(root, h.Name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			return os.WriteFile(path, data, h.FileInfo().Mode().Perm())
		}); err != nil {
			return nil, nil, err
		}
	}
	if len(config.Config.Entrypoint) == 0 {
		return nil, nil, errors.New("it has no entry point")
	}
	user, err = credential(config.Config.User)
	return config.Config.Entrypoint, user, err
}

func eachFile(r io.Reader, f func(*tar.Header, []byte) error) error {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(archive)
		if err == nil {
			err = f(h, data)
		}
		if err != nil {
			return err
		}
	}
}

func verified(files map[string][]byte, d descriptor) ([]byte, error) {
	data, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	sum := sha256.Sum256(data)
	if !ok || "sha256:"+hex.EncodeToString(sum[:]) != d.Digest || len(data) != d.Size {
		return nil, fmt.Errorf("blob %s of %d bytes is not there", d.Digest, d.Size)
	}
	return data, nil
}

// credential reads UID:GID; an image that names no user runs as root.
func credential(user string) (*syscall.Credential, error) {
	if user == "" {
		return &syscall.Credential{}, nil
	}
	u, g, _ := strings.Cut(user, ":")
	uid, err := strconv.ParseUint(u, 10, 32)
	gid, gidErr := strconv.ParseUint(g, 10, 32)
	if err := errors.Join(err, gidErr); err != nil {
		return nil, fmt.Errorf("user %q is not UID:GID in numbers: %w", user, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
