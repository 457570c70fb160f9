package handler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

// canary stands for everything a submitter would not want to find in a log.
const canary = "canary-zanzibar"

// film makes a file with ffmpeg and returns its bytes.
func film(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", append(append([]string{"-nostdin", "-v", "error", "-y"}, args...), path)...).CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v: %s", name, err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

var (
	picture = []string{"-f", "lavfi", "-i", "testsrc2=s=320x180:r=10:d=8"}
	speech  = []string{"-f", "lavfi", "-i", "flite=text='good morning everyone and welcome to the meeting about the river':voice=slt"}
	tone    = []string{"-f", "lavfi", "-i", "sine=440:r=16000:d=8"}
	fast    = []string{"-movflags", "+faststart"}
	padded  = []string{"-af", "apad", "-t", "8"} // speech as long as the picture
)

// ingested runs the handler on bytes as a submitted file.
func ingested(t *testing.T, content []byte) (worker.Tried[recording.Media], *workertest.Objects) {
	t.Helper()
	objects := workertest.NewObjects(t)
	source := objects.Put("jobs/j/source", content)
	got := workertest.Handle(t, New, workertest.Case[recording.Source]{
		Objects: objects, Input: recording.Source{V: recording.Version, Object: source, Name: canary + ".mp4"},
	})
	if kept := objects.Get(source); !slices.Equal(kept, content) {
		t.Fatal("the submitted file was changed")
	}
	if err := got.Verdict.Err; err != nil && strings.Contains(err.Error(), canary) {
		t.Fatalf("an error names the submitter's file: %v", err)
	}
	if got.Verdict.Kind == outcome.KindDone {
		if err := got.Output.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	return got, objects
}

func codes(gaps []outcome.Gap) []string {
	var codes []string
	for _, g := range gaps {
		codes = append(codes, g.Code)
	}
	return codes
}

func TestARecordingBecomesSoundPostersAndFacts(t *testing.T) {
	got, objects := ingested(t, film(t, "a.mp4", slices.Concat(picture, speech, padded)...))
	m := got.Output
	if got.Verdict.Kind != outcome.KindDone || len(got.Gaps) != 0 {
		t.Fatalf("ended %+v with %v", got.Verdict, got.Gaps)
	}
	if m.Demuxer != "mov" || m.Name != canary+".mp4" || !m.Facts.HasAudio || !m.Facts.HasVideo || m.Facts.StillImage ||
		m.Facts.Width != 320 || m.Facts.Height != 180 || m.Facts.DurationMs < 7900 || m.Facts.DurationMs > 8200 || m.Facts.VideoCodec != "h264" {
		t.Fatalf("got %+v", m.Facts)
	}
	if len(m.Posters) != 3 || m.Posters[0].Type != "image/jpeg" || len(m.Speech) == 0 || m.Audio.Type != "audio/wav" {
		t.Fatalf("got %+v", m)
	}
	if wav := objects.Get(*m.Audio); string(wav[:4]) != "RIFF" {
		t.Fatalf("the sound begins with %q", wav[:4])
	}
	var tools []string
	for _, run := range got.Tools {
		tools = append(tools, run.Tool)
		if run.CPU <= 0 || !run.End.After(run.Start) {
			t.Errorf("%+v", run)
		}
	}
	if slices.Sort(tools); !slices.Equal(tools, []string{"ffmpeg", "ffmpeg", "ffprobe"}) {
		t.Errorf("ran %v", tools)
	}
}

func TestWhatCannotBeUsedIsRefusedWithOneSentence(t *testing.T) {
	whole := film(t, "a.mp4", slices.Concat(picture, tone)...) // its index is at the end
	noise := make([]byte, 300_000)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise)
	for name, c := range map[string]struct {
		content []byte
		code    string
	}{
		"empty":                {nil, "empty_file"},
		"text":                 {[]byte(strings.Repeat("A text about "+canary+".\n", 300)), "not_a_recording"},
		"random bytes":         {noise, "not_a_recording"},
		"cut before its index": {whole[:len(whole)/2], "not_a_recording"},
		"only a header":        {film(t, "a.wav", slices.Concat(tone, []string{"-t", "0.01"})...)[:44], "not_a_recording"},
		"header, then nothing": {film(t, "b.mp4", slices.Concat(tone, fast)...)[:1500], "nothing_decodable"},
		"a picture":            {film(t, "a.png", "-f", "lavfi", "-i", "color=s=64x64", "-frames:v", "1"), "not_a_recording"},
		"too many pixels":      {film(t, "b.mkv", "-f", "lavfi", "-i", "color=s=4400x2200:r=1:d=1", "-c:v", "libx264", "-preset", "ultrafast"), "too_many_pixels"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := ingested(t, c.content)
			if got.Verdict.Kind != outcome.KindReject || got.Verdict.Reason != c.code {
				t.Fatalf("ended %+v with %v, %+v", got.Verdict, got.Gaps, got.Output.Facts)
			}
			if s := got.Verdict.Sentence; !strings.HasSuffix(s, ".") || strings.Contains(s, canary) {
				t.Errorf("the submitter reads %q", s)
			}
		})
	}
}

func TestListsThatPointElsewhereAreRefusedAndNotFollowed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			connected <- struct{}{}
			c.Close()
		}
	}()
	secret := filepath.Join(t.TempDir(), "secret.ts")
	if err := os.WriteFile(secret, film(t, "s.ts", slices.Concat(picture, tone)...), 0o600); err != nil {
		t.Fatal(err)
	}
	web := "http://" + listener.Addr().String() + "/x.ts"
	for name, content := range map[string]string{
		"HLS to a file":     "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:8,\nfile://" + secret + "\n#EXT-X-ENDLIST\n",
		"HLS to an address": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:8,\n" + web + "\n#EXT-X-ENDLIST\n",
		"HLS by concat":     "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:8,\nconcat:" + secret + "|" + web + "\n#EXT-X-ENDLIST\n",
		"concat list":       "ffconcat version 1.0\nfile '" + secret + "'\n",
		"concat, relative":  "ffconcat version 1.0\nfile secret.ts\n",
		"DASH": `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT8S"><Period><AdaptationSet mimeType="video/mp2t"><Representation id="1" bandwidth="1"><BaseURL>` +
			web + `</BaseURL></Representation></AdaptationSet></Period></MPD>`,
		"SDP":       "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
		"M3U alone": web + "\n" + secret + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := ingested(t, []byte(content))
			if got.Verdict.Kind != outcome.KindReject || got.Verdict.Reason != "not_a_recording" {
				t.Fatalf("ended %+v", got.Verdict)
			}
		})
	}
	listener.Close()
	<-done
	if len(connected) > 0 {
		t.Fatalf("%d connections were made", len(connected))
	}
}

// A playlist inside of a real container: QuickTime can refer to other files for its samples.
func TestARecordingThatKeepsItsSamplesInAnotherFileYieldsNothing(t *testing.T) {
	whole := film(t, "a.mov", slices.Concat(picture, []string{"-an"}, fast)...)
	secret := filepath.Join(t.TempDir(), "secret.mov")
	if err := os.WriteFile(secret, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	// The file's own data reference says "in this file" (flag 1); with 0 the samples are elsewhere.
	at := strings.Index(string(whole), "url \x00\x00\x00\x01")
	if at < 0 {
		at = strings.Index(string(whole), "alis\x00\x00\x00\x01")
	}
	if at < 0 {
		t.Fatal("the film has no data reference")
	}
	end := strings.Index(string(whole), "mdat")
	elsewhere := slices.Clone(whole[:end+4])
	elsewhere[at+7] = 0
	got, _ := ingested(t, elsewhere)
	if got.Verdict.Kind != outcome.KindReject {
		t.Fatalf("ended %+v with %+v", got.Verdict, got.Output.Facts)
	}
}

func TestADecodableBeginningGoesOnWithAGap(t *testing.T) {
	whole := film(t, "a.mp4", slices.Concat(picture, tone, fast)...)
	got, _ := ingested(t, whole[:len(whole)/2])
	if got.Verdict.Kind != outcome.KindDone || !slices.Equal(codes(got.Gaps), []string{"cut_short"}) {
		t.Fatalf("ended %+v with %v", got.Verdict, got.Gaps)
	}
	if d := got.Output.Facts.DurationMs; d < 1000 || d > 6500 {
		t.Fatalf("lasts %d ms", d)
	}
}

func TestDamageGoesOnWithAGap(t *testing.T) {
	whole := film(t, "a.mp4", slices.Concat(picture, tone, fast)...)
	for i := len(whole) / 3; i < len(whole); i += 301 {
		whole[i] ^= 0x55
	}
	got, _ := ingested(t, whole)
	if got.Verdict.Kind != outcome.KindDone || !slices.Contains(codes(got.Gaps), "damaged") && !slices.Contains(codes(got.Gaps), "cut_short") {
		t.Fatalf("ended %+v with %v", got.Verdict, got.Gaps)
	}
}

func TestARecordingWithoutSoundGoesOnWithAGap(t *testing.T) {
	got, _ := ingested(t, film(t, "a.mp4", picture...))
	if got.Verdict.Kind != outcome.KindDone || !slices.Equal(codes(got.Gaps), []string{"no_audio"}) {
		t.Fatalf("ended %+v with %v", got.Verdict, got.Gaps)
	}
	if m := got.Output; m.Audio != nil || len(m.Speech) != 0 || m.Facts.HasAudio || len(m.Posters) == 0 {
		t.Fatalf("got %+v", m)
	}
}

func TestSoundWithoutAPictureGetsAStill(t *testing.T) {
	for _, name := range []string{"a.mp3", "a.m4a", "a.wav", "a.flac", "a.ogg"} {
		t.Run(name, func(t *testing.T) {
			got, objects := ingested(t, film(t, name, speech...))
			m := got.Output
			if got.Verdict.Kind != outcome.KindDone || len(got.Gaps) != 0 || m.Facts.HasVideo || !m.Facts.StillImage || len(m.Posters) != 1 {
				t.Fatalf("ended %+v with %v: %+v", got.Verdict, got.Gaps, m)
			}
			if jpeg := objects.Get(m.Posters[0]); string(jpeg[:2]) != "\xff\xd8" {
				t.Fatalf("the still begins with %q", jpeg[:2])
			}
		})
	}
}

func TestSilenceIsFine(t *testing.T) {
	got, _ := ingested(t, film(t, "a.m4a", "-f", "lavfi", "-i", "anullsrc=r=16000:cl=mono", "-t", "120"))
	if got.Verdict.Kind != outcome.KindDone || len(got.Gaps) != 0 || len(got.Output.Speech) != 0 || got.Output.Facts.DurationMs < 119_000 {
		t.Fatalf("ended %+v with %v: %+v", got.Verdict, got.Gaps, got.Output.Facts)
	}
}

func TestAnInputThatIsNotOursIsQuarantined(t *testing.T) {
	got := workertest.Handle(t, New, workertest.Case[recording.Source]{Input: recording.Source{V: 2}})
	if got.Verdict.Kind != outcome.KindQuarantine || !errors.Is(got.Verdict.Err, recording.ErrVersion) {
		t.Fatalf("ended %+v", got.Verdict)
	}
}

func TestALostObjectIsAFailureNotARefusal(t *testing.T) {
	objects := workertest.NewObjects(t)
	source := objects.Put("jobs/j/source", []byte(canary))
	source.Key = "jobs/j/other"
	got := workertest.Handle(t, New, workertest.Case[recording.Source]{Objects: objects,
		Input: recording.Source{V: recording.Version, Object: source, Name: canary}})
	if got.Verdict.Kind != outcome.KindRetry || strings.Contains(fmt.Sprint(got.Verdict), canary) {
		t.Fatalf("ended %+v", got.Verdict)
	}
}

func TestAPictureThatEndsBeforeTheSoundGoesOnWithAGap(t *testing.T) {
	got, _ := ingested(t, film(t, "a.mp4", slices.Concat([]string{"-f", "lavfi", "-i", "testsrc2=s=320x180:r=10:d=3"}, tone)...))
	if got.Verdict.Kind != outcome.KindDone || !slices.Equal(codes(got.Gaps), []string{"uneven"}) || !strings.Contains(got.Gaps[0].Sentence, "picture could be read for 3s and the sound for 8s;") {
		t.Fatalf("ended %+v with %v", got.Verdict, got.Gaps)
	}
}
