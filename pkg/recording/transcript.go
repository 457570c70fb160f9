package recording

// Transcript is what was said, for people and programs: the object behind [Captioned].Transcript.
type Transcript struct {
	V          int       `json:"v"`
	Engine     string    `json:"engine"`
	Confidence float64   `json:"confidence"` // mean over the words, 0 to 1; 0 without words
	DurationMs int64     `json:"durationMs"` // of the recording
	Speakers   []Speaker `json:"speakers"`
	Turns      []Said    `json:"turns"` // in order of time
}

// Said is one turn with its words, which keep their own times.
type Said struct {
	Turn
	Text  string `json:"text"`
	Words []Word `json:"words"`
}
