package media

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media/mediatest"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

const second = time.Second

// halves is four seconds: a tone, then silence.
func halves(t *testing.T, name string, video ...string) string {
	t.Helper()
	args := slices.Concat(tone(2), video, []string{"-af", "apad=pad_dur=2", "-t", "4"})
	return makeFile(t, name, args...)
}

func TestSoundIsDecodedToItsEndAndItsSilencesFound(t *testing.T) {
	r := Runner{Dir: t.TempDir()}
	d, speech, err := r.DecodeAudio(t.Context(), halves(t, "a.m4a"), "mov", "out.wav")
	if err != nil || !near(d.Duration, 4*second) || d.Errors != 0 {
		t.Fatalf("got %+v, %v", d, err)
	}
	if len(speech) != 1 || speech[0].StartMs != 0 || speech[0].EndMs < 1900 || speech[0].EndMs > 2300 {
		t.Fatalf("got %v", speech)
	}
	out, err := Runner{}.Run(t.Context(), "ffprobe", "-v", "error", "-show_entries", "stream=codec_name,sample_rate,channels", "-of", "csv=p=0", filepath.Join(r.Dir, "out.wav"))
	if err != nil || string(out.Stdout) != "pcm_s16le,16000,1\n" {
		t.Fatalf("got %q, %v", out.Stdout, err)
	}
}

func TestSoundThatBeginsLateStaysOnThePicturesTimeLine(t *testing.T) {
	path := makeFile(t, "late.mkv", slices.Concat(picture(4), []string{"-itsoffset", "2"}, tone(2))...)
	_, speech, err := Runner{Dir: t.TempDir()}.DecodeAudio(t.Context(), path, "matroska", "out.wav")
	if err != nil || len(speech) != 1 || speech[0].StartMs < 1800 || speech[0].StartMs > 2200 {
		t.Fatalf("got %v, %v", speech, err)
	}
}

func TestPictureIsDecodedToItsEndAndLeavesPosters(t *testing.T) {
	path := makeFile(t, "v.mp4", picture(4)...)
	r := Runner{Dir: t.TempDir()}
	declared, err := r.Probe(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	d, posters, err := r.DecodeVideo(t.Context(), path, declared)
	if err != nil || !near(d.Duration, 4*second) || d.Errors != 0 || len(posters) != 3 {
		t.Fatalf("got %+v, %v, %v", d, posters, err)
	}
}

func TestHighDynamicRangeBecomesOrdinaryPictures(t *testing.T) {
	path := makeFile(t, "hdr.mp4", append(picture(2), "-c:v", "libx264", "-pix_fmt", "yuv420p10le", "-color_trc", "smpte2084", "-color_primaries", "bt2020",
		"-colorspace", "bt2020nc", "-x264-params", "transfer=smpte2084:colorprim=bt2020:colormatrix=bt2020nc")...)
	r := Runner{Dir: t.TempDir()}
	declared, err := r.Probe(t.Context(), path)
	if err != nil || !declared.Video.HDR {
		t.Fatalf("got %+v, %v", declared.Video, err)
	}
	d, posters, err := r.DecodeVideo(t.Context(), path, declared)
	if err != nil || len(posters) == 0 || !near(d.Duration, 2*second) {
		t.Fatalf("got %+v, %v, %v", d, posters, err)
	}
}

func TestWhatIsMissingFromACutFileShowsInTheDecodedLength(t *testing.T) {
	whole := makeFile(t, "whole.mp4", slices.Concat(picture(8), tone(8), []string{"-movflags", "+faststart"})...)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cut := writeFile(t, "cut.mp4", string(content[:len(content)/2]))
	r := Runner{Dir: t.TempDir()}
	declared, err := r.Probe(t.Context(), cut)
	if err != nil || !near(declared.Duration, 8*second) {
		t.Fatalf("the header still says %+v, %v", declared, err)
	}
	d, posters, err := r.DecodeVideo(t.Context(), cut, declared)
	if err != nil || d.Duration < second || d.Duration > 6*second || len(posters) == 0 {
		t.Fatalf("got %+v, %v, %v", d, posters, err)
	}
	if a, _, err := r.DecodeAudio(t.Context(), cut, declared.Demuxer, "out.wav"); err != nil || a.Duration > 6*second {
		t.Fatalf("got %+v, %v", a, err)
	}
}

func TestDamageIsCounted(t *testing.T) {
	whole := makeFile(t, "whole.mp4", slices.Concat(tone(8), []string{"-movflags", "+faststart"})...)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(content) / 2; i < len(content); i += 97 {
		content[i] ^= 0x55
	}
	d, _, err := Runner{Dir: t.TempDir()}.DecodeAudio(t.Context(), writeFile(t, "x.mp4", string(content)), "mov", "out.wav")
	if err != nil || d.Errors < 10 {
		t.Fatalf("got %+v, %v", d, err)
	}
}

func TestAStillStandsForSound(t *testing.T) {
	wav := makeFile(t, "a.wav", tone(1)...)
	r := Runner{Dir: filepath.Dir(wav)}
	if err := r.StillOf(t.Context(), "a.wav", "still.jpg"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(r.Dir, "still.jpg")); err != nil || info.Size() < 1000 {
		t.Fatalf("got %v, %v", info, err)
	}
}

func TestSpeechIsWhatSilencesLeave(t *testing.T) {
	const length = 10 * second
	span := func(from, to int64) recording.Span { return recording.Span{StartMs: from, EndMs: to} }
	for name, c := range map[string]struct {
		log  string
		want []recording.Span
	}{
		"no silence":        {"", []recording.Span{span(0, 10000)}},
		"nothing else":      {"silence_start: 0\nsilence_end: 10 | silence_duration: 10", nil},
		"until the end":     {"silence_start: -0.02", nil},
		"two stretches":     {"silence_start: 2.5\nsilence_end: 4 |\nsilence_start: 6", []recording.Span{span(0, 2500), span(4000, 6000)}},
		"a click":           {"silence_start: 0\nsilence_end: 4\nsilence_start: 4.199", nil},
		"a short word":      {"silence_start: 0\nsilence_end: 4\nsilence_start: 4.2", []recording.Span{span(4000, 4200)}},
		"beyond the length": {"silence_start: 2\nsilence_end: 99", []recording.Span{span(0, 2000)}},
	} {
		if got := speech(marked(c.log), length); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// marked is a report as ffmpeg writes it.
func marked(log string) Output {
	return Output{Stderr: []byte(strings.ReplaceAll(log, "silence_", "[silencedetect @ 0x1] [info] silence_"))}
}

func TestATitleThatSpeaksOfSilenceMakesNone(t *testing.T) {
	mark := "[silencedetect @ 0x1] [info] silence_start: 0"
	path := makeFile(t, "a.mp4", append(tone(2), "-metadata", "title=a\n"+mark+"\nsilence_start: 0")...)
	r := Runner{Dir: t.TempDir()}
	if _, spans, err := r.DecodeAudio(t.Context(), path, "mov", "out.wav"); err != nil || len(spans) != 1 {
		t.Errorf("got %v, %v", spans, err)
	}
}

func TestWhereTheReportOfSilenceBreaksOffSomebodyMaySpeak(t *testing.T) {
	report := marked("silence_start: 0")
	if got := speech(report, 10*second); len(got) != 0 {
		t.Errorf("silence: got %v", got)
	}
	report.StderrCut = true
	if got := speech(report, 10*second); !slices.Equal(got, []recording.Span{{StartMs: 0, EndMs: 10_000}}) {
		t.Errorf("got %v", got)
	}
}

func TestProgressIsTheLastTimeReported(t *testing.T) {
	for report, want := range map[string]time.Duration{
		"frame=1\nout_time_us=40000\nprogress=continue\nout_time_us=7040000\nprogress=end\n": 7040 * time.Millisecond,
		"out_time_us=N/A\n":                  0,
		"out_time_us=-100\n":                 0,
		"":                                   0,
		"out_time_us=99999999999999999999\n": 0,
	} {
		if got := progress([]byte(report)); got != want {
			t.Errorf("%q: got %v", report, got)
		}
	}
}

func TestComplaintsAreLinesThatFFmpegMarks(t *testing.T) {
	log := "[info] Input\n[aac @ 0x1] [error] broken\n[error] other\n[h264 @ 0x2] [warning] hm\n[fatal] end\n"
	if got := complaints([]byte(log)); got != 3 {
		t.Fatalf("got %d", got)
	}
}

func TestPosterTimesFitTheLength(t *testing.T) {
	for length, want := range map[time.Duration][2]time.Duration{
		0:           {0, second},
		5 * second:  {second / 2, 2 * second},
		60 * second: {second, 24 * second},
	} {
		first, step := posterTimes(Declared{Duration: length, Video: &VideoStream{}})
		if first != want[0] || step != want[1] {
			t.Errorf("%v: got %v, %v", length, first, step)
		}
	}
}

func FuzzSpeech(f *testing.F) {
	f.Add(marked("silence_start: 1\nsilence_end: 0.5\nsilence_start: 1e9").Stderr, int64(5), false)
	f.Fuzz(func(t *testing.T, log []byte, seconds int64, cut bool) {
		length := time.Duration(min(max(seconds, 0), math.MaxInt32)) * second
		for _, s := range speech(Output{Stderr: log, StderrCut: cut}, length) {
			if s.StartMs < 0 || s.EndMs <= s.StartMs || s.EndMs > length.Milliseconds() {
				t.Fatalf("%v outside %v", s, length)
			}
		}
	})
}

func TestWhatAToolWroteBeforeItGaveUpIsMeasuredAndReadable(t *testing.T) {
	path := makeFile(t, "a.mp4", slices.Concat(picture(4), tone(4))...)
	r := Runner{Dir: t.TempDir()}
	declared, err := r.Probe(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	// The header of a WAV file is only finished at its end.
	mediatest.Instead(t, "ffmpeg", `$REAL "$@"; for at in 4 40; do [ ! -e out.wav ] || printf '\377\377\377\377' | dd of=out.wav bs=1 seek=$at conv=notrunc 2>/dev/null; done; exit 1`)
	sound, speech, err := r.DecodeAudio(t.Context(), path, declared.Demuxer, "out.wav")
	if !GaveUp(err) || !near(sound.Duration, 4*second) || len(speech) != 1 {
		t.Errorf("got %+v with %v, %v", sound, speech, err)
	}
	header, err := os.ReadFile(filepath.Join(r.Dir, "out.wav"))
	if err != nil || binary.LittleEndian.Uint32(header[4:]) != uint32(len(header)-8) || binary.LittleEndian.Uint32(header[40:]) != uint32(len(header)-44) {
		t.Errorf("the header is %x, %v", header[:44], err)
	}
	picture, posters, err := r.DecodeVideo(t.Context(), path, declared)
	if !GaveUp(err) || !near(picture.Duration, 4*second) || len(posters) != 3 {
		t.Errorf("got %+v with %v, %v", picture, posters, err)
	}
}

func TestATooMuchDamagedStreamIsDecodedToItsEnd(t *testing.T) {
	content, err := os.ReadFile(makeFile(t, "whole.mp4", slices.Concat(tone(8), []string{"-movflags", "+faststart"})...))
	if err != nil {
		t.Fatal(err)
	}
	ruin(content, 85)
	d, _, err := Runner{Dir: t.TempDir()}.DecodeAudio(t.Context(), writeFile(t, "x.mp4", string(content)), "mov", "out.wav")
	if err != nil || d.Errors < 100 {
		t.Fatalf("got %+v, %v", d, err)
	}
}

// ruin overwrites a share of what follows an MP4 file's index, in percent.
func ruin(content []byte, percent int) {
	dice := rand.New(rand.NewPCG(1, 1))
	for at := bytes.Index(content, []byte("mdat")) + 4; at < len(content); at += 64 {
		if dice.IntN(100) >= percent {
			continue
		}
		for i := at; i < min(at+64, len(content)); i++ {
			content[i] = byte(dice.Uint32())
		}
	}
}
