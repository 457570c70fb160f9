package recording

// Media is a recording that was probed and accepted: the output of ingest. The source object is the
// submitted file, unchanged.
type Media struct {
	V       int      `json:"v"`
	Source  Object   `json:"source"`
	Name    string   `json:"name"`
	Demuxer string   `json:"demuxer"` // the one demuxer that later stages may open the source with
	Facts   Facts    `json:"facts"`
	Audio   *Object  `json:"audio,omitempty"`   // 16 kHz mono WAV at an even loudness; nil without sound
	Posters []Object `json:"posters,omitempty"` // JPEG frames; for sound without a picture, one generated image
	Speech  []Span   `json:"speech,omitempty"`  // stretches that are not silence, in order; empty: nothing to transcribe
}

// Facts describes a recording by what decodes, not by what its header declares.
type Facts struct {
	DurationMs int64  `json:"durationMs"`
	Width      int    `json:"width"`  // of the picture as shown, after rotation; 0 without video
	Height     int    `json:"height"` // likewise
	Rotation   int    `json:"rotation"`
	HasVideo   bool   `json:"hasVideo"`
	HasAudio   bool   `json:"hasAudio"`
	StillImage bool   `json:"stillImage"` // clips show Posters[0], because the recording has no moving picture
	VideoCodec string `json:"videoCodec,omitempty"`
	AudioCodec string `json:"audioCodec,omitempty"`
	HDR        bool   `json:"hdr"` // the transfer function needs tone mapping before 8-bit output
}

// Transcribed adds what was said: the output of transcribe.
type Transcribed struct {
	V          int     `json:"v"`
	Media      Media   `json:"media"`
	Words      Object  `json:"words"` // JSON array of Word; an empty array when nothing was said
	Count      int     `json:"count"` // number of words
	Engine     string  `json:"engine"`
	Confidence float64 `json:"confidence"` // mean over the words, 0 to 1; 0 without words
}

// Word is one recognised word.
type Word struct {
	Text       string  `json:"text"`
	StartMs    int64   `json:"startMs"`
	EndMs      int64   `json:"endMs"`
	Confidence float64 `json:"confidence"` // 0 to 1, as the engine reports it; not comparable between engines
}

// Identified adds who speaks and what stands in the lower third: the output of identify.
type Identified struct {
	V int `json:"v"`
	Transcribed
	Turns       Object    `json:"turns"` // JSON array of Turn
	Speakers    []Speaker `json:"speakers"`
	LowerThirds []Banner  `json:"lowerThirds"`
}

// Turn is one stretch of speech by one speaker.
type Turn struct {
	StartMs int64  `json:"startMs"`
	EndMs   int64  `json:"endMs"`
	Speaker string `json:"speaker"` // a Speaker's ID
}

// What a speaker's name rests on.
const (
	EvidenceSpoken  = "spoken"  // the speaker said it
	EvidenceScreen  = "screen"  // it was read from the picture while the speaker spoke
	EvidenceBoth    = "both"    // spoken and on screen agree
	EvidenceVision  = "vision"  // a vision model was asked
	EvidenceUnknown = "unknown" // nothing was found; Name is empty
)

// Speaker is one voice. An empty Name with EvidenceUnknown is the honest answer when nobody could be named.
type Speaker struct {
	ID       string `json:"id"` // "s1", "s2", ... in order of appearance
	Name     string `json:"name"`
	Title    string `json:"title"`
	Evidence string `json:"evidence"`
}

// Banner is text that stands in the lower third of the picture, where captions would cover it.
type Banner struct {
	StartMs int64  `json:"startMs"`
	EndMs   int64  `json:"endMs"`
	Text    string `json:"text"`
}
