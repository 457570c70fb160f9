package recording

// Highlighted adds the stretches worth showing: the output of highlight.
type Highlighted struct {
	V int `json:"v"`
	Identified
	Segments []Segment `json:"segments"` // in order of time; none is a valid answer
}

// Segment is a stretch chosen for a clip.
type Segment struct {
	StartMs int64   `json:"startMs"`
	EndMs   int64   `json:"endMs"`
	Score   float64 `json:"score"`   // larger is better; comparable within one recording only
	Speaker string  `json:"speaker"` // a Speaker's ID; empty when several speak
}

// Captioned adds captions and summary: the head that the fan-out keeps while clips are made.
type Captioned struct {
	V int `json:"v"`
	Highlighted
	Title      string `json:"title"`
	Summary    string `json:"summary"`
	SRT        Object `json:"srt"`
	VTT        Object `json:"vtt"`
	Transcript Object `json:"transcript"` // JSON for people and programs
}

// ClipOrder is all that making one clip needs: the input of compile.
type ClipOrder struct {
	V           int     `json:"v"`
	Index       int     `json:"index"` // 0-based, in order of time
	Source      Object  `json:"source"`
	Demuxer     string  `json:"demuxer"`
	Facts       Facts   `json:"facts"`
	Still       *Object `json:"still,omitempty"` // the picture to show when Facts.StillImage, or where the moving one fails
	Segment     Segment `json:"segment"`
	Title       string  `json:"title"`
	Cues        []Cue   `json:"cues"`
	CaptionsTop bool    `json:"captionsTop"` // something already stands in the lower third
}

// Cue is one caption.
type Cue struct {
	StartMs int64    `json:"startMs"` // from the start of the clip
	EndMs   int64    `json:"endMs"`
	Lines   []string `json:"lines"` // one or two lines of at most CueColumns characters
}

// Bounds of a [Cue].
const (
	CueLines   = 2
	CueColumns = 42
)

// Clip is a finished clip, or the place of one that could not be made: the output of compile.
type Clip struct {
	V          int     `json:"v"`
	Index      int     `json:"index"`
	Title      string  `json:"title"`
	Segment    Segment `json:"segment"`
	Video      *Object `json:"video,omitempty"` // nil: nothing of the segment could be used; a gap says so
	DurationMs int64   `json:"durationMs"`      // as decoded from the finished file; 0 without one
	Cues       []Cue   `json:"cues"`
}

// Assembly joins the head with its finished clips in order: the input of publish.
type Assembly struct {
	V     int       `json:"v"`
	Head  Captioned `json:"head"`
	Parts []Clip    `json:"parts"`
}

// Result is what a submitter is given: the output of publish.
type Result struct {
	V        int    `json:"v"`
	Manifest Object `json:"manifest"`
	Index    Object `json:"index"`
	Clips    int    `json:"clips"`
}
