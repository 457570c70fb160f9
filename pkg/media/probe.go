package media

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a recording that is worked on.
const (
	MaxPixels   = 8847360 // per frame, 4096 x 2160
	MaxDuration = 4 * time.Hour
	MaxStreams  = 32

	probeCPU  = 20 * time.Second // a header that takes more is no honest one
	probeTime = 2 * time.Minute  // a machine that takes longer is busy, or its disk is
	minScore  = 26               // ffprobe's score of a format that was recognised rather than guessed (its retry score is 25)
)

// Refusals of Probe, to match with errors.Is: the file is at fault, and will be again.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrEmpty      = errors.New("file is empty")
	ErrFormat     = errors.New("not a recording in a supported format")
	ErrNoStreams  = errors.New("neither picture nor sound in a supported encoding")
	ErrTooLarge   = errors.New("picture has too many pixels")
	ErrTooLong    = errors.New("recording is too long")
)

// Demuxers are the formats that may be opened, by the name that ffmpeg forces with -f. Everything that can
// name other files or addresses (playlists, concat, DASH, SDP, images by pattern) is missing on purpose.
var Demuxers = []string{"mov", "matroska", "avi", "wav", "mp3", "ogg", "flac", "aac", "mpegts", "mpeg", "flv"}

// codecs are the encodings that are decoded; the PCM family goes by prefix.
var codecs = map[string][]string{
	"video": {"h264", "hevc", "av1", "vp8", "vp9", "mpeg4", "mpeg2video", "mpeg1video", "mjpeg", "prores", "dnxhd", "theora", "flv1", "h263", "wmv1", "wmv2", "msmpeg4v3"},
	"audio": {"aac", "mp3", "mp2", "opus", "vorbis", "flac", "alac", "ac3", "eac3", "speex", "amr_nb", "amr_wb", "wmav2", "adpcm_ms", "adpcm_ima_wav"},
}

// Declared is what the header of a file says about it. Nothing of it is proof.
type Declared struct {
	Demuxer  string
	Duration time.Duration // 0: it does not say
	Video    *VideoStream  // the first that is not a cover picture; nil if there is none, or none that can be read
	Audio    *AudioStream  // the first; nil likewise

	UnreadVideo, UnreadAudio bool // there is one, and its encoding is none of those that are decoded
}

// VideoStream is the picture that is worked on: ffmpeg's "0:V:0".
type VideoStream struct {
	Codec         string
	Width, Height int // as shown, after rotation
	Rotation      int // 0, 90, 180 or 270
	Duration      time.Duration
	HDR           bool
}

// AudioStream is the sound that is worked on: ffmpeg's "0:a:0".
type AudioStream struct {
	Codec    string
	Duration time.Duration
}

// Probe reads the header of a submitted file. Only that file is opened, whatever it contains: formats that
// refer to other files are not tried. A refusal matches one of the Err values above, or ErrLimit.
func (r Runner) Probe(ctx context.Context, path string) (Declared, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return Declared{}, fmt.Errorf("look at the recording: %w", errors.Unwrap(err)) // without its path
	case !info.Mode().IsRegular():
		return Declared{}, ErrNotRegular
	case info.Size() == 0:
		return Declared{}, ErrEmpty
	}
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	r.Limits.CPU = probeCPU
	out, err := r.Run(limited, "ffprobe", "-v", "error", "-protocol_whitelist", "file",
		"-format_whitelist", strings.Join(Demuxers, ","), "-max_streams", strconv.Itoa(MaxStreams),
		"-of", "json", "-show_format", "-show_streams", "-i", r.Local(path))
	if GaveUp(err) {
		return Declared{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return Declared{}, err
	}
	return declared(out.Stdout)
}

type probed struct {
	Streams []probedStream `json:"streams"`
	Format  struct {
		Name     string `json:"format_name"`
		Duration string `json:"duration"`
		Score    int    `json:"probe_score"`
	} `json:"format"`
}

type probedStream struct {
	Type        string         `json:"codec_type"`
	Codec       string         `json:"codec_name"`
	Width       int            `json:"width"`
	Height      int            `json:"height"`
	Duration    string         `json:"duration"`
	Transfer    string         `json:"color_transfer"`
	Disposition map[string]int `json:"disposition"`
	SideData    []struct {
		Rotation float64 `json:"rotation"`
	} `json:"side_data_list"`
}

// declared reads ffprobe's answer and checks it against the bounds.
func declared(answer []byte) (Declared, error) {
	var p probed
	if err := json.Unmarshal(answer, &p); err != nil {
		return Declared{}, fmt.Errorf("%w: ffprobe's JSON", ErrOutput)
	}
	d := Declared{Demuxer: demuxer(p.Format.Name), Duration: seconds(p.Format.Duration)}
	if d.Demuxer == "" || p.Format.Score < minScore {
		return Declared{}, ErrFormat
	}
	d.choose(p.Streams)
	switch {
	case d.Video == nil && d.Audio == nil:
		return Declared{}, ErrNoStreams
	case d.Video != nil && d.Video.Width*d.Video.Height > MaxPixels:
		return Declared{}, ErrTooLarge
	case d.Duration > MaxDuration:
		return Declared{}, ErrTooLong
	}
	return d, nil
}

// choose takes the streams that the tools take: the first of a kind, and not the first that could be decoded. A later one
// would vouch for an encoding that is none of ours.
func (d *Declared) choose(streams []probedStream) {
	for _, s := range streams {
		switch {
		case s.Type == "video" && s.Disposition["attached_pic"] == 0 && d.Video == nil && !d.UnreadVideo:
			if d.UnreadVideo = !s.decodable(); !d.UnreadVideo {
				d.Video = s.video()
			}
		case s.Type == "audio" && d.Audio == nil && !d.UnreadAudio:
			if d.UnreadAudio = !s.decodable(); !d.UnreadAudio {
				d.Audio = &AudioStream{Codec: s.Codec, Duration: seconds(s.Duration)}
			}
		}
	}
}

// demuxer maps ffprobe's list of alias names to the one fixed name that is forced from then on.
func demuxer(names string) string {
	for name := range strings.SplitSeq(names, ",") {
		if slices.Contains(Demuxers, name) {
			return name
		}
	}
	return ""
}

func (s probedStream) decodable() bool {
	if s.Type == "video" && (s.Width <= 0 || s.Height <= 0) {
		return false
	}
	return slices.Contains(codecs[s.Type], s.Codec) || (s.Type == "audio" && strings.HasPrefix(s.Codec, "pcm_"))
}

func (s probedStream) video() *VideoStream {
	v := &VideoStream{Codec: s.Codec, Width: s.Width, Height: s.Height, Duration: seconds(s.Duration),
		HDR: s.Transfer == "smpte2084" || s.Transfer == "arib-std-b67"}
	for _, side := range s.SideData {
		if side.Rotation != 0 {
			v.Rotation = ((int(side.Rotation)%360 + 360) % 360) / 90 * 90
		}
	}
	if v.Rotation%180 == 90 {
		v.Width, v.Height = v.Height, v.Width
	}
	return v
}

// seconds reads ffprobe's decimal seconds; anything that is no usable duration is 0.
func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) || f > 1e9 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}
