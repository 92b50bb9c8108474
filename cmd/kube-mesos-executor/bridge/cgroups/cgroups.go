// SPDX-License-Identifier: Apache-2.0

// Package cgroups says whether processes of a pod exist on this host, by the cgroups that the kubelet makes for pods:
// `kubepods/.../pod<uid>` with the cgroupfs driver and `kubepods.slice/.../kubepods-...-pod<uid>.slice` (dashes of the
// UID as underscores) with the systemd driver, in cgroup v1 and v2, also below a cgroup root of the kubelet's.
package cgroups

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// State is what the cgroups say of a pod.
type State int

const (
	// Invisible: there is no hierarchy of a kubelet here, or it cannot be read.
	Invisible State = iota
	// Empty: the pod has no cgroup, or no process is in it.
	Empty
	// Populated: processes of the pod exist.
	Populated
)

const (
	// searchDepth is how deep below the root a kubepods directory is looked for: a v1 controller, and a kubelet's
	// --cgroup-root of two levels.
	searchDepth = 4
	// searchBound bounds the directories that one search visits.
	searchBound = 4096
	// searchAgain is the time between searches while nothing is found, searchRefresh otherwise.
	searchAgain   = 2 * time.Second
	searchRefresh = time.Minute
)

// Reader looks at the cgroups below a root. It is not safe for concurrent use.
type Reader struct {
	root     string
	kubepods []string
	searched time.Time
}

// NewReader returns a reader of the hierarchy mounted at root, usually /sys/fs/cgroup.
func NewReader(root string) *Reader { return &Reader{root: root} }

// Look says what the cgroups say of the pod with the given UID.
func (r *Reader) Look(now time.Time, uid string) State {
	if uid == "" || strings.ContainsAny(uid, "/\x00") {
		return Invisible
	}
	wait := searchRefresh
	if len(r.kubepods) == 0 {
		wait = searchAgain
	}
	if r.searched.IsZero() || now.Sub(r.searched) >= wait {
		r.search(now)
	}
	state, known := Empty, false
	for _, base := range r.kubepods {
		if _, err := os.Stat(base); err != nil {
			continue
		}
		known = true
		for _, dir := range candidates(base, uid) {
			switch populated, err := populated(dir); {
			case err != nil:
				return Invisible
			case populated:
				state = Populated
			}
		}
	}
	if !known {
		r.searched = time.Time{}
		return Invisible
	}
	return state
}

// search finds the directories that kubelets keep their pods under. In v1 each controller has one.
func (r *Reader) search(now time.Time) {
	r.searched = now
	r.kubepods = nil
	visited := 0
	level := []string{r.root}
	for depth := 0; depth < searchDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if !e.IsDir() {
					continue
				}
				path := filepath.Join(dir, e.Name())
				if isKubepods(e.Name()) {
					r.kubepods = append(r.kubepods, path)
					continue
				}
				if visited++; visited > searchBound {
					return
				}
				next = append(next, path)
			}
		}
		level = next
	}
	slices.Sort(r.kubepods)
}

func isKubepods(name string) bool {
	return name == "kubepods" || name == "kubepods.slice" || strings.HasSuffix(name, "-kubepods.slice")
}

// candidates are the places where the pod's cgroup can be below a kubepods directory: guaranteed pods at the top, the
// others below their class.
func candidates(base, uid string) []string {
	prefix, systemd := strings.CutSuffix(filepath.Base(base), ".slice")
	if !systemd {
		return []string{
			filepath.Join(base, "pod"+uid),
			filepath.Join(base, "burstable", "pod"+uid),
			filepath.Join(base, "besteffort", "pod"+uid),
		}
	}
	name := "pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	return []string{
		filepath.Join(base, prefix+"-"+name),
		filepath.Join(base, prefix+"-burstable.slice", prefix+"-burstable-"+name),
		filepath.Join(base, prefix+"-besteffort.slice", prefix+"-besteffort-"+name),
	}
}

// populated says whether there is a process in the cgroup at dir or below it. A cgroup that is not there, or goes
// while it is read, has none.
func populated(dir string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if err == nil {
		for field := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(field, "populated "); ok {
				return strings.TrimSpace(value) != "0", nil
			}
		}
	} else if !absent(err) {
		return false, err
	}
	// cgroup v1 has no summary of the subtree.
	found := false
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && absent(err):
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		}
		has, err := hasProcess(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return err
		}
		if has {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}

func hasProcess(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		if absent(err) {
			return false, nil
		}
		return false, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if strings.TrimSpace(s.Text()) != "" {
			return true, nil
		}
	}
	if err := s.Err(); err != nil && !absent(err) {
		return false, err
	}
	return false, nil
}

// absent says whether err means that the cgroup is not there (any more).
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
