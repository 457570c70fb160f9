package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// input is one thing that a person may hand in by mistake or on purpose.
type input struct {
	make  func(t *testing.T, r drawnRecording, path string)
	name  string // of the file
	state job.State
	clips int // at least so many; none when 0
}

var inputs = map[string]input{
	"an empty file":              {write(""), "empty.mp4", job.Rejected, 0},
	"text":                       {write("Dear fleet,\nplease make clips of this letter.\n"), "letter.mp4", job.Rejected, 0},
	"random bytes":               {write(noise(200_000)), "noise.mp4", job.Rejected, 0},
	"cut before its index":       {cutBeforeIndex, "late-index.mp4", job.Rejected, 0},
	"cut in the middle":          {cutInTheMiddle, "half.mp4", job.CompletedWithGaps, 0},
	"a picture without sound":    {ffmpeg("-i", "IN", "-an", "-c:v", "copy"), "silent-film.mp4", job.CompletedWithGaps, 0},
	"sound without a picture":    {ffmpeg("-i", "IN", "-vn", "-c:a", "copy", "-t", "17"), "radio.m4a", job.Completed, 1},
	"ten minutes of silence":     {ffmpeg("-f", "lavfi", "-i", "color=size=160x90:rate=5", "-f", "lavfi", "-i", "anullsrc=r=16000:cl=mono", "-t", "600"), "silence.mp4", job.Completed, 0},
	"a playlist of other files":  {playlist("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile://SECRET\n#EXT-X-ENDLIST\n"), "local.m3u8", job.Rejected, 0},
	"a playlist of addresses":    {playlist("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://TRAP/a.ts\n#EXT-X-ENDLIST\n"), "remote.m3u8", job.Rejected, 0},
	"a list to be joined":        {playlist("ffconcat version 1.0\nfile SECRET\n"), "list.ffconcat", job.Rejected, 0},
	"a playlist named as a film": {playlist("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://TRAP/a.ts\n#EXT-X-ENDLIST\n"), "film.mp4", job.Rejected, 0},
}

func write(text string) func(*testing.T, drawnRecording, string) {
	return func(t *testing.T, _ drawnRecording, path string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func noise(n int) string {
	dice := rand.NewChaCha8([32]byte{})
	text := make([]byte, n)
	_, _ = dice.Read(text)
	return string(text)
}

// ffmpeg makes a file from the recording, whose name stands in for IN.
func ffmpeg(args ...string) func(*testing.T, drawnRecording, string) {
	return func(t *testing.T, r drawnRecording, path string) {
		full := []string{"-nostdin", "-v", "error", "-y"}
		for _, arg := range args {
			full = append(full, strings.ReplaceAll(arg, "IN", r.file))
		}
		if text, err := exec.Command("ffmpeg", append(full, path)...).CombinedOutput(); err != nil {
			t.Fatalf("ffmpeg: %v\n%s", err, text)
		}
	}
}

// cutInTheMiddle keeps the first half of the recording, whose index comes first.
func cutInTheMiddle(t *testing.T, r drawnRecording, path string) {
	keepHalf(t, r.file, path)
}

// cutBeforeIndex keeps the first half of the same recording with its index at the end.
func cutBeforeIndex(t *testing.T, r drawnRecording, path string) {
	ffmpeg("-i", "IN", "-c", "copy")(t, r, path)
	keepHalf(t, path, path)
}

func keepHalf(t *testing.T, from, to string) {
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text[:len(text)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// trap counts connections to an address that playlists name.
var trap struct {
	addr string
	hits atomic.Int64
}

// playlist writes a text in which SECRET is a film that was not handed in and TRAP an address that must not be called.
func playlist(text string) func(*testing.T, drawnRecording, string) {
	return func(t *testing.T, r drawnRecording, path string) {
		write(strings.NewReplacer("SECRET", r.file, "TRAP", trap.addr).Replace(text))(t, r, path)
	}
}

func setTrap(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	trap.addr = listener.Addr().String()
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			trap.hits.Add(1)
			caller.Close()
		}
	}()
}

// All inputs go through one fleet at once: whatever one does to a worker, the others must end well too.
func TestEveryInputEndsHonestly(t *testing.T) {
	r := drawn(t)
	setTrap(t)
	f := up(t, t.TempDir(), "--workers", "ingest=2")
	dir := t.TempDir()
	jobs := map[string]string{}
	for what, in := range inputs {
		path := filepath.Join(dir, in.name)
		in.make(t, r, path)
		jobs[what] = f.submit(path).ID
	}
	for what, in := range inputs {
		t.Run(what, func(t *testing.T) {
			j := f.ended(jobs[what])
			if j.State != in.state {
				t.Fatalf("it ended %s, want %s\n%s", j.State, in.state, describe(j))
			}
			if err := honest(j); err != nil {
				t.Errorf("%v\n%s", err, describe(j))
			}
			if j.State == job.Rejected {
				t.Logf("%s", j.Reason.Sentence)
				return
			}
			if m := result(t, j); len(m.Clips) < in.clips || (in.clips == 0 && in.state == job.Completed && len(m.Clips) != 0) {
				t.Errorf("%d clips, want %d", len(m.Clips), in.clips)
			}
		})
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("the network was touched %d times", n)
	}
	f.deadLetters()
}

// honest checks that the submitter is told, in a sentence, why there is nothing or what is missing.
func honest(j job.Job) error {
	var sentences []string
	switch j.State {
	case job.Rejected:
		if j.Reason != nil {
			sentences = append(sentences, j.Reason.Sentence)
		}
	case job.CompletedWithGaps:
		for _, g := range j.Gaps {
			sentences = append(sentences, g.Sentence)
		}
	default:
		return nil
	}
	if len(sentences) == 0 {
		return fmt.Errorf("%s without a reason", j.State)
	}
	for _, s := range sentences {
		if !strings.HasSuffix(s, ".") || strings.Contains(s, "/") || strings.ContainsRune(s, '\n') {
			return fmt.Errorf("%q is not a sentence for people", s)
		}
	}
	return nil
}
