package recording

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Every Validate reports the first thing a reader could not rely on: an error matching [ErrVersion], or a
// [*FieldError]. A valid value may still be useless (no words, no segments); that is for its reader to decide.

// Validate implements the rule above.
func (s Source) Validate() error {
	return first(version(s.V), s.Object.check("object"))
}

// Validate implements the rule above.
func (m Media) Validate() error { return first(version(m.V), m.check("")) }

// Validate implements the rule above.
func (t Transcribed) Validate() error { return first(version(t.V), t.check()) }

// Validate implements the rule above.
func (i Identified) Validate() error { return first(version(i.V), i.check()) }

// Validate implements the rule above.
func (h Highlighted) Validate() error { return first(version(h.V), h.check()) }

// Validate implements the rule above.
func (c Captioned) Validate() error { return first(version(c.V), c.check("")) }

// Validate implements the rule above.
func (o ClipOrder) Validate() error {
	err := first(version(o.V), at("index", o.Index >= 0, "0 or more"), o.Source.check("source"),
		at("demuxer", o.Demuxer != "", "set"), o.Facts.check("facts."), span("segment", o.Segment.StartMs, o.Segment.EndMs),
		at("still", !o.Facts.StillImage || o.Still != nil, "set for a recording without a moving picture"))
	if err == nil && o.Still != nil {
		err = o.Still.check("still")
	}
	return first(err, cues(o.Cues))
}

// Validate implements the rule above.
func (c Clip) Validate() error { return first(version(c.V), c.check("")) }

// Validate implements the rule above.
func (a Assembly) Validate() error {
	err := first(version(a.V), version(a.Head.V), a.Head.check("head."))
	for i, p := range a.Parts {
		at := fmt.Sprintf("parts[%d].", i)
		err = first(err, version(p.V), p.check(at))
	}
	return err
}

// Validate implements the rule above.
func (r Result) Validate() error {
	return first(version(r.V), r.Manifest.check("manifest"), r.Index.check("index"), at("clips", r.Clips >= 0, "0 or more"))
}

func (m Media) check(path string) error {
	err := first(m.Source.check(path+"source"), at(path+"demuxer", m.Demuxer != "", "set"), m.Facts.check(path+"facts."))
	if m.Audio != nil {
		err = first(err, m.Audio.check(path+"audio"))
	}
	err = first(err, at(path+"audio", m.Audio != nil || len(m.Speech) == 0, "set when there is speech"))
	for i, p := range m.Posters {
		err = first(err, p.check(fmt.Sprintf("%sposters[%d]", path, i)))
	}
	for i, s := range m.Speech {
		err = first(err, span(fmt.Sprintf("%sspeech[%d]", path, i), s.StartMs, s.EndMs))
	}
	return err
}

func (t Transcribed) check() error {
	return first(version(t.Media.V), t.Media.check("media."), t.Words.check("words"), at("count", t.Count >= 0, "0 or more"),
		at("engine", t.Engine != "", "set"), at("confidence", t.Confidence >= 0 && t.Confidence <= 1, "between 0 and 1"))
}

func (i Identified) check() error {
	err := first(i.Transcribed.check(), i.Turns.check("turns"))
	for n, s := range i.Speakers {
		err = first(err, at(fmt.Sprintf("speakers[%d].id", n), s.ID != "", "set"),
			at(fmt.Sprintf("speakers[%d].evidence", n), s.Evidence != "", "set"),
			at(fmt.Sprintf("speakers[%d].name", n), (s.Name == "") == (s.Evidence == EvidenceUnknown), "empty exactly when the evidence is unknown"))
	}
	for n, b := range i.LowerThirds {
		err = first(err, span(fmt.Sprintf("lowerThirds[%d]", n), b.StartMs, b.EndMs))
	}
	return err
}

func (h Highlighted) check() error {
	err := h.Identified.check()
	for n, s := range h.Segments {
		err = first(err, span(fmt.Sprintf("segments[%d]", n), s.StartMs, s.EndMs))
	}
	return err
}

func (c Captioned) check(path string) error {
	return first(c.Highlighted.check(), c.SRT.check(path+"srt"), c.VTT.check(path+"vtt"), c.Transcript.check(path+"transcript"))
}

func (c Clip) check(path string) error {
	err := first(at(path+"index", c.Index >= 0, "0 or more"), span(path+"segment", c.Segment.StartMs, c.Segment.EndMs),
		at(path+"durationMs", (c.DurationMs > 0) == (c.Video != nil) && c.DurationMs >= 0, "more than 0 for a clip with a video, else 0"))
	if err == nil && c.Video != nil {
		err = c.Video.check(path + "video")
	}
	return first(err, cues(c.Cues))
}

func (f Facts) check(path string) error {
	return first(at(path+"durationMs", f.DurationMs > 0, "more than 0"),
		at(path+"hasVideo", f.HasVideo || f.HasAudio, "true when there is no audio"),
		at(path+"width", !f.HasVideo || (f.Width > 0 && f.Height > 0), "more than 0, like the height, when there is video"),
		at(path+"stillImage", f.StillImage != f.HasVideo, "the opposite of hasVideo"),
		at(path+"rotation", slices.Contains([]int{0, 90, 180, 270}, f.Rotation), "0, 90, 180 or 270"))
}

func (o Object) check(path string) error {
	return first(at(path+".key", o.Key != "", "set"), at(path+".sha256", isDigest(o.SHA256), "64 lower-case hexadecimal digits"),
		at(path+".bytes", o.Bytes >= 0, "0 or more"))
}

func cues(cues []Cue) error {
	for i, c := range cues {
		path := fmt.Sprintf("cues[%d]", i)
		err := first(span(path, c.StartMs, c.EndMs), at(path+".lines", len(c.Lines) > 0 && len(c.Lines) <= CueLines, "one or two"))
		for _, l := range c.Lines {
			err = first(err, at(path+".lines", utf8.RuneCountInString(l) <= CueColumns, fmt.Sprintf("at most %d characters each", CueColumns)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func version(v int) error {
	if v != Version {
		return fmt.Errorf("%w %d, this build reads %d", ErrVersion, v, Version)
	}
	return nil
}

func span(path string, start, end int64) error {
	return first(at(path+".startMs", start >= 0, "0 or more"), at(path+".endMs", end > start, "after startMs"))
}

func at(field string, ok bool, bound string) error {
	if ok {
		return nil
	}
	return &FieldError{Field: field, Bound: bound}
}

func isDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
