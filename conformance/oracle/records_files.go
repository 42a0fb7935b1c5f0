package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// recordsFile is what somebody put into the folder before.
type recordsFile struct {
	// Folder is where, below image_manager.
	Folder string `json:"folder"`
	// Key is what its name is made from, if there is one.
	Key *string `json:"key"`
	// Name follows that, or is the whole name.
	Name string `json:"name"`
	// Content is what stands in it; without it it is a folder.
	Content *text `json:"content"`
}

func (f recordsFile) write(root string) {
	name := f.Name
	if f.Key != nil {
		name = fmt.Sprintf("sha256-%x%s", sha256.Sum256([]byte(*f.Key)), name)
	}
	path := filepath.Join(root, "image_manager", f.Folder, name)
	check(os.MkdirAll(filepath.Dir(path), 0o700))
	// The last of the same name stays.
	check(os.RemoveAll(path))
	if f.Content == nil {
		check(os.Mkdir(path, 0o700))
	} else {
		check(os.WriteFile(path, *f.Content, 0o600))
	}
}

// snapshot is a folder as it was when it was last looked at.
type snapshot struct {
	root  string
	begun time.Time
	files map[string]snapshotFile
}

type snapshotFile struct {
	inode uint64
	// step is in which it was written.
	step int
	text string
}

func newSnapshot(root string) *snapshot {
	return &snapshot{root, time.Now().Truncate(time.Second), map[string]snapshotFile{}}
}

// changes has what is not as it was when it was last asked.
func (s *snapshot) changes(step int) map[string]*string {
	before, changed := s.files, map[string]*string{}
	s.files = map[string]snapshotFile{}
	check(filepath.WalkDir(s.root, func(path string, entry fs.DirEntry, err error) error {
		check(err)
		name := must(filepath.Rel(s.root, path))
		if name == "." {
			return nil
		}
		old, known := before[name]
		info := must(entry.Info())
		now := snapshotFile{inode: info.Sys().(*syscall.Stat_t).Ino, step: step}
		if known && old.inode == now.inode {
			now.step = old.step
		}
		now.text = fmt.Sprintf("%04o ", info.Mode().Perm())
		if entry.IsDir() {
			now.text += "folder"
		} else {
			now.text += s.withoutTime(spelledOut(string(must(os.ReadFile(path)))), now.step)
		}
		if s.files[name] = now; !known || old.text != now.text {
			changed[name] = &now.text
		}
		return nil
	}))
	for name := range before {
		if _, there := s.files[name]; !there {
			changed[name] = nil
		}
	}
	return changed
}

var lastUpdatedTime = regexp.MustCompile(`"lastUpdatedTime":"[^"]*"`)

// withoutTime puts the number of the step in the place of its time: upstream has no other clock than the system's.
func (s *snapshot) withoutTime(content string, step int) string {
	return lastUpdatedTime.ReplaceAllStringFunc(content, func(found string) string {
		at, err := time.Parse(`"lastUpdatedTime":"2006-01-02T15:04:05Z"`, found)
		if err != nil || at.Before(s.begun) || at.After(time.Now()) {
			return found
		}
		return fmt.Sprintf(`"lastUpdatedTime":"step %d"`, step)
	})
}
