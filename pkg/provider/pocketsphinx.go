package provider

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// EnginePocketsphinx names the offline recogniser in what it produces.
const EnginePocketsphinx = "pocketsphinx-en-us"

// speechCPU bounds the recogniser's processor time: it needs about a quarter of the recording's length. It ends before ctx
// does, with media.ErrLimit and not with a time-out that would be tried again.
func speechCPU(ctx context.Context, length time.Duration) time.Duration {
	most := time.Minute + 3*length
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, max(time.Second, time.Until(deadline)/5*4))
	}
	return most
}

// Pocketsphinx is the offline Speech: clear English only, no punctuation, no capitals, numbers as words. It is
// usable for synthetic or studio speech, and not good enough to caption a meeting.
type Pocketsphinx struct{}

// Transcribe implements Speech. The file is heard in one piece, because cutting it costs accuracy.
func (Pocketsphinx) Transcribe(ctx context.Context, r Recording) (_ Transcript, err error) {
	defer timed(ctx, KindSpeech, time.Now(), &err)
	r.Tools.Limits.CPU = speechCPU(ctx, time.Duration(r.DurationMs)*time.Millisecond)
	out, err := r.Tools.Run(ctx, "pocketsphinx_continuous", "-infile", r.Path, "-time", "yes", "-logfn", "/dev/null",
		"-maxhmmpf", "3000", "-ds", "2", "-topn", "2", "-maxwpf", "10", "-pl_window", "10")
	if err != nil {
		return Transcript{}, err
	}
	words, err := parseSphinx(out.Stdout)
	return Transcript{Words: words, Engine: EnginePocketsphinx}, err
}

var variant = regexp.MustCompile(`\([0-9]+\)$`) // of a pronunciation, as in "and(2)"

// parseSphinx reads its answer: each utterance is a line of text and then a line a word, "word start end
// confidence" in seconds, with fillers in angle or square brackets.
func parseSphinx(answer []byte) ([]recording.Word, error) {
	var words []recording.Word
	rows := bufio.NewScanner(bytes.NewReader(answer))
	rows.Buffer(nil, 1<<20)
	for rows.Scan() {
		cells := strings.Fields(rows.Text())
		if len(cells) != 4 || strings.ContainsAny(cells[0], "<>[]+") {
			continue
		}
		start, err1 := strconv.ParseFloat(cells[1], 64)
		end, err2 := strconv.ParseFloat(cells[2], 64)
		confidence, err3 := strconv.ParseFloat(cells[3], 64)
		if err1 != nil || err2 != nil || err3 != nil {
			continue // an utterance of four words
		}
		if w, ok := wordOf(variant.ReplaceAllString(cells[0], ""), start, end, confidence); ok {
			words = append(words, w)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: a line of the recogniser", media.ErrOutput)
	}
	return words, nil
}
