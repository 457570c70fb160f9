package media

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// make runs ffmpeg on test patterns and returns the file that it wrote.
func makeFile(t *testing.T, name string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := Runner{}.Run(t.Context(), "ffmpeg", append(append([]string{"-nostdin", "-v", "error", "-y"}, args...), path)...)
	if err != nil {
		t.Fatalf("make %s: %v: %s", name, err, out.Stderr)
	}
	return path
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// picture and tone are short sources for ffmpeg.
func picture(seconds int) []string {
	return []string{"-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=320x180:r=10:d=%d", seconds)}
}

func tone(seconds int) []string {
	return []string{"-f", "lavfi", "-i", fmt.Sprintf("sine=440:r=16000:d=%d", seconds)}
}

func TestARecordingIsKnownByItsContentNotItsName(t *testing.T) {
	path := makeFile(t, "film.mkv", append(picture(2), tone(2)...)...)
	renamed := filepath.Join(filepath.Dir(path), "http:--evil.txt")
	if err := os.Rename(path, renamed); err != nil {
		t.Fatal(err)
	}
	d, err := Runner{Dir: t.TempDir()}.Probe(t.Context(), renamed)
	if err != nil || d.Demuxer != "matroska" || d.Video == nil || d.Audio == nil {
		t.Fatalf("got %+v, %v", d, err)
	}
	if d.Video.Width != 320 || d.Video.Height != 180 || d.Duration < 1900*time.Millisecond || d.Duration > 2100*time.Millisecond {
		t.Fatalf("got %+v", *d.Video)
	}
}

func TestARotatedPictureIsDescribedAsItIsShown(t *testing.T) {
	flat := makeFile(t, "flat.mp4", picture(1)...)
	path := makeFile(t, "turned.mp4", "-i", flat, "-c", "copy", "-metadata:s:v", "rotate=90")
	d, err := Runner{}.Probe(t.Context(), path)
	if err != nil || d.Video.Width != 180 || d.Video.Height != 320 || d.Video.Rotation%180 != 90 {
		t.Fatalf("got %+v, %v", d.Video, err)
	}
}

func TestAFileThatIsNoRecordingIsRefused(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(makeFile(t, "a.wav", tone(1)...), link); err != nil {
		t.Fatal(err)
	}
	huge := makeFile(t, "huge.mp4", "-f", "lavfi", "-i", "color=s=4400x2200:r=1:d=1", "-c:v", "libx264", "-preset", "ultrafast")
	for name, c := range map[string]struct {
		path string
		want error
	}{
		"empty":         {writeFile(t, "x.mp4", ""), ErrEmpty},
		"text":          {writeFile(t, "x.mp4", strings.Repeat("Lorem ipsum dolor sit amet.\n", 500)), ErrFormat},
		"terminal art":  {writeFile(t, "x.ans", "\x1b[1mhello\x1b[0m"), ErrFormat},
		"picture":       {makeFile(t, "x.png", "-f", "lavfi", "-i", "color=s=64x64", "-frames:v", "1"), ErrFormat},
		"named pipe":    {fifo, ErrNotRegular},
		"symbolic link": {link, ErrNotRegular},
		"folder":        {dir, ErrNotRegular},
		"large picture": {huge, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := (Runner{}).Probe(t.Context(), c.path); !errors.Is(err, c.want) {
				t.Fatalf("got %+v, %v", d, err)
			}
		})
	}
}

func TestAFileThatIsGoneIsOurProblemAndIsNotNamed(t *testing.T) {
	_, err := Runner{}.Probe(t.Context(), "/nowhere/secret-name.mp4")
	if !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v", err)
	}
}

func TestWhatAHeaderDeclaresIsReadAndBounded(t *testing.T) {
	const good = `{"codec_type":"video","codec_name":"h264","width":640,"height":360,"disposition":{"attached_pic":0}}`
	const cover = `{"codec_type":"video","codec_name":"mjpeg","width":64,"height":64,"disposition":{"attached_pic":1}}`
	const other = `{"codec_type":"video","codec_name":"bink","width":640,"height":360}`
	const noise = `{"codec_type":"audio","codec_name":"wavpack"}`
	const sound = `{"codec_type":"audio","codec_name":"aac","duration":"3.5"}`
	answer := func(format, duration string, score int, streams ...string) string {
		return fmt.Sprintf(`{"streams":[%s],"format":{"format_name":%q,"duration":%q,"probe_score":%d}}`, strings.Join(streams, ","), format, duration, score)
	}
	const mp4 = "mov,mp4,m4a,3gp,3g2,mj2"
	for name, c := range map[string]struct {
		answer       string
		want         error
		video, audio bool
	}{
		"picture and sound":    {answer(mp4, "3.5", 100, good, sound), nil, true, true},
		"cover is no picture":  {answer("mp3", "3.5", 51, cover, sound), nil, false, true},
		"cover before picture": {answer(mp4, "3.5", 100, cover, good), nil, true, false},
		"longest":              {answer(mp4, "14400.0", 100, sound), nil, false, true},
		"longer":               {answer(mp4, "14400.1", 100, sound), ErrTooLong, false, false},
		"says nothing":         {answer("mpegts", "N/A", 50, sound), nil, false, true},
		"a guess":              {answer("mp3", "3.5", 25, sound), ErrFormat, false, false},
		"playlist":             {answer("hls", "3.5", 100, sound), ErrFormat, false, false},
		"only subtitles":       {answer(mp4, "3.5", 100, `{"codec_type":"subtitle","codec_name":"mov_text"}`), ErrNoStreams, false, false},
		"unknown encoding":     {answer(mp4, "3.5", 100, `{"codec_type":"video","codec_name":"bink","width":1,"height":1}`), ErrNoStreams, false, false},
		"too many pixels":      {answer(mp4, "3.5", 100, strings.Replace(good, "640", "640000", 1)), ErrTooLarge, false, false},
		"an unknown picture":   {answer(mp4, "3.5", 100, other, sound), nil, false, true},
		"an unknown one first": {answer(mp4, "3.5", 100, other, good, sound), nil, false, true},
		"an unknown sound":     {answer(mp4, "3.5", 100, good, noise, sound), nil, true, false},
		"not JSON":             {`{`, ErrOutput, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := declared([]byte(c.answer))
			if !errors.Is(err, c.want) || (d.Video != nil) != c.video || (d.Audio != nil) != c.audio {
				t.Fatalf("got %+v, %v", d, err)
			}
			if d.UnreadVideo != (err == nil && strings.Contains(c.answer, "bink")) || d.UnreadAudio != strings.Contains(c.answer, "wavpack") {
				t.Errorf("does not tell of what is not read: %+v", d)
			}
		})
	}
}

func TestTheStreamThatIsDecodedIsTheOneThatWasJudged(t *testing.T) {
	path := makeFile(t, "two.mkv", append(picture(1), append(picture(1), "-map", "0", "-map", "1", "-c:v:0", "ffv1", "-c:v:1", "libx264")...)...)
	if d, err := (Runner{}).Probe(t.Context(), path); !errors.Is(err, ErrNoStreams) {
		t.Errorf("0:V:0 is in an encoding that is not decoded, and yet: %+v, %v", d, err)
	}
}

func TestHighDynamicRangeIsRecognised(t *testing.T) {
	for transfer, want := range map[string]bool{"smpte2084": true, "arib-std-b67": true, "bt709": false, "": false} {
		if got := (probedStream{Type: "video", Transfer: transfer}).video().HDR; got != want {
			t.Errorf("%q: %v", transfer, got)
		}
	}
}

func FuzzDeclared(f *testing.F) {
	f.Add([]byte(`{"streams":[{"codec_type":"video","codec_name":"h264","width":1,"height":1,"side_data_list":[{"rotation":-90}]}],"format":{"format_name":"mov","duration":"1e300","probe_score":100}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		d, err := declared(answer)
		if err != nil {
			return
		}
		if d.Demuxer == "" || d.Duration < 0 || d.Duration > MaxDuration || (d.Video == nil && d.Audio == nil) {
			t.Fatalf("accepted %+v", d)
		}
		if v := d.Video; v != nil && (v.Width*v.Height > MaxPixels || v.Rotation%90 != 0 || v.Rotation < 0 || v.Rotation > 270) {
			t.Fatalf("accepted %+v", *v)
		}
	})
}
