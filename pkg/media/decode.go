package media

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// How audio is prepared for recognition, and what counts as silence there (ffmpeg's filters documentation,
// "loudnorm" and "silencedetect").
const (
	AudioRate    = 16000
	silence      = "silencedetect=noise=-35dB:d=0.5"
	minSpeech    = 200 * time.Millisecond // shorter sounds between silences are not speech
	audioHeader  = 44                     // bytes of a plain WAV header
	bytesPerSec  = AudioRate * 2
	posterFormat = "poster%d.jpg"
	posterCount  = 3
)

// ToneMap is the filter chain that turns HDR pictures into ordinary ones; it ends in yuv420p.
const ToneMap = "zscale=t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=hable:desat=0,zscale=t=bt709:m=bt709:r=tv,format=yuv420p"

// Decoded is what really came out of a stream.
type Decoded struct {
	Duration time.Duration // until the end of the last frame
	Errors   int           // complaints of the decoder; sound files have none
}

// input is how every ffmpeg here opens a source: one demuxer, one protocol, bounded pixels and duration. seek
// are further options of the input.
func (r Runner) input(path, demuxer string, seek ...string) []string {
	args := []string{"-nostdin", "-hide_banner", "-nostats", "-y", "-loglevel", "repeat+level+info",
		"-threads", "1", "-filter_threads", "1", "-max_error_rate", "1", "-protocol_whitelist", "file", "-format_whitelist", demuxer,
		"-max_pixels", strconv.Itoa(MaxPixels), "-t", bound(MaxDuration)}
	return append(append(args, seek...), "-f", demuxer, "-i", r.Local(path))
}

// DecodeAudio decodes the sound of a source into the WAV file out: mono, 16 kHz, at an even loudness, on the
// source's own time line (missing parts are silent). It also returns the stretches that are not silent. With an
// error for which GaveUp holds, both describe what had been written until then, and the file can be read.
func (r Runner) DecodeAudio(ctx context.Context, path, demuxer, out string) (Decoded, []recording.Span, error) {
	args := append(r.input(path, demuxer), "-map", "0:a:0", "-vn", "-sn", "-dn", "-map_metadata", "-1", "-t", bound(MaxDuration),
		"-af", "aresample=async=1:first_pts=0,aformat=channel_layouts=mono,loudnorm=I=-16:TP=-1.5:LRA=11,"+silence+",aresample="+strconv.Itoa(AudioRate),
		"-c:a", "pcm_s16le", "-fflags", "+bitexact", "-f", "wav", "file:"+out)
	result, err := r.Run(ctx, "ffmpeg", args...)
	if err != nil && !GaveUp(err) {
		return Decoded{}, nil, err
	}
	written, sealErr := seal(filepath.Join(r.Dir, out))
	if sealErr != nil {
		return Decoded{}, nil, errors.Join(err, sealErr)
	}
	length := time.Duration(written) * time.Second / bytesPerSec
	return Decoded{Duration: length, Errors: complaints(result.Stderr)}, speech(result, length), err
}

// seal writes the true lengths into the header of a WAV file, which is still without them if its writer gave
// up, and returns how many bytes of sound follow it.
func seal(path string) (sound int64, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() <= audioHeader {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the sound: %w", errors.Unwrap(err)) // without its path
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("open the sound: %w", errors.Unwrap(err))
	}
	sound = info.Size() - audioHeader
	_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(info.Size()-8)), 4)
	if err == nil {
		_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(sound)), audioHeader-4)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("finish the sound: %w", err)
	}
	return sound, nil
}

// DecodeVideo decodes every frame of a source and keeps up to three of them as JPEG files in Dir, spread
// over the declared length. With an error for which GaveUp holds, it returns what came until then.
func (r Runner) DecodeVideo(ctx context.Context, path string, d Declared) (Decoded, []string, error) {
	first, step := posterTimes(d)
	args := append(r.input(path, d.Demuxer), "-map", "0:V:0", "-an", "-fps_mode", "passthrough", "-t", bound(MaxDuration), "-f", "null", "-",
		"-map", "0:V:0", "-an", "-fps_mode", "passthrough", "-map_metadata", "-1", "-frames:v", strconv.Itoa(posterCount),
		"-vf", fmt.Sprintf("select='gte(t,%s+selected_n*%s)',%sscale='min(1280,iw)':-2", bound(first), bound(step), d.tone()),
		"-q:v", "4", "-fflags", "+bitexact", "file:"+posterFormat, "-progress", "pipe:1")
	result, err := r.Run(ctx, "ffmpeg", args...)
	if err != nil && !GaveUp(err) {
		return Decoded{}, nil, err
	}
	posters, lookErr := r.made(posterFormat, posterCount)
	if lookErr != nil {
		return Decoded{}, nil, lookErr
	}
	return Decoded{Duration: progress(result.Stdout), Errors: complaints(result.Stderr)}, posters, err
}

func (d Declared) tone() string {
	if d.Video.HDR {
		return ToneMap + ","
	}
	return ""
}

// posterTimes returns the time of the first poster and the distance to the next: a tenth, a half and nine
// tenths of the declared length, or the very beginning when that is unknown.
func posterTimes(d Declared) (first, step time.Duration) {
	length := d.Video.Duration
	if length == 0 {
		length = d.Duration
	}
	return min(length/10, time.Second), max(length*4/10, time.Second)
}

// made returns the numbered files that a run left in Dir, in order.
func (r Runner) made(format string, count int) ([]string, error) {
	var names []string
	for i := 1; i <= count; i++ {
		name := fmt.Sprintf(format, i)
		info, err := os.Stat(filepath.Join(r.Dir, name))
		if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Size() == 0) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("look for a picture: %w", err)
		}
		names = append(names, name)
	}
	return names, nil
}

// StillOf draws the sound of a WAV file in Dir as a JPEG file in Dir: the picture of a recording without one.
func (r Runner) StillOf(ctx context.Context, wav, out string) error {
	_, err := r.Run(ctx, "ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y", "-protocol_whitelist", "file", "-f", "wav", "-i", "file:"+wav,
		"-filter_complex", "color=c=0x14324f:s=1280x720[b];[0:a:0]showwavespic=s=1280x300:colors=0x9fc5e8[w];[b][w]overlay=0:210:format=auto",
		"-frames:v", "1", "-q:v", "4", "-fflags", "+bitexact", "file:"+out)
	if err != nil {
		return err
	}
	return r.exists(out)
}

// Compress writes the sound of a WAV file as Ogg Opus into Dir: a tenth of the size, and as good to a recogniser.
func (r Runner) Compress(ctx context.Context, wav, out string) error {
	_, err := r.Run(ctx, "ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y", "-threads", "1", "-protocol_whitelist", "file", "-f", "wav",
		"-i", r.Local(wav), "-map", "0:a:0", "-map_metadata", "-1", "-c:a", "libopus", "-b:a", "32k", "-f", "ogg", "file:"+out)
	if err != nil {
		return err
	}
	return r.exists(out)
}

// exists reports as ErrOutput that a run which claims success left no file.
func (r Runner) exists(name string) error {
	if info, err := os.Stat(filepath.Join(r.Dir, name)); err != nil || info.Size() == 0 {
		return fmt.Errorf("%w: no file", ErrOutput)
	}
	return nil
}

func bound(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// complaints counts the lines that ffmpeg itself marks as errors.
func complaints(log []byte) int {
	return bytes.Count(log, []byte(" [error] ")) + bytes.Count(log, []byte("\n[error] ")) + bytes.Count(log, []byte("[fatal] "))
}

var (
	// A title that says the same is indented.
	silenceMark = regexp.MustCompile(`(?m)^\[silencedetect @ [^\]]*\] \[info\] silence_(start|end): (-?[0-9.]+)`)
	outTime     = regexp.MustCompile(`(?m)^out_time_us=([0-9]+)$`)
)

// speech returns what lies between the silences that silencedetect reported. Where its report was cut off, for a decoder
// complained too much, somebody may be speaking.
func speech(report Output, length time.Duration) []recording.Span {
	var spans []recording.Span
	from, open := time.Duration(0), true // open: no silence is running
	end := func(to time.Duration) {
		if open && to-from >= minSpeech {
			spans = append(spans, recording.Span{StartMs: from.Milliseconds(), EndMs: to.Milliseconds()})
		}
	}
	for _, mark := range silenceMark.FindAllSubmatch(report.Stderr, -1) {
		at := min(max(0, parseSeconds(mark[2])), length)
		if string(mark[1]) == "start" {
			end(at)
			from, open = at, false
		} else {
			from, open = at, true
		}
	}
	open = open || report.StderrCut
	end(length)
	return spans
}

// progress returns the last time that -progress reported.
func progress(report []byte) time.Duration {
	marks := outTime.FindAllSubmatch(report, -1)
	if len(marks) == 0 {
		return 0
	}
	us, err := strconv.ParseInt(string(marks[len(marks)-1][1]), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

func parseSeconds(b []byte) time.Duration {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}
