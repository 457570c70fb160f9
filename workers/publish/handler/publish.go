// Package handler collects what a submitter gets: clips, posters, transcript, speakers, summary, a page that
// plays it all, and a manifest that proves what is there.
//
// Everything stands in one folder under the attempt's own key, so a result is complete or absent; the page
// refers to its neighbours by relative paths and works from a disk. What is missing is said on the page. Making
// this version the target's current result is the record's, not this stage's. The worker calls it.
package handler

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

type task = worker.Task[recording.Assembly]

type handler struct {
	mu    sync.Mutex
	tools map[string]string // versions, once a process has asked for them
}

// New makes the stage's handler.
func New(worker.Deps) (worker.Handler[recording.Assembly, recording.Result], error) {
	return &handler{}, nil
}

// Handle implements worker.Handler.
func (h *handler) Handle(ctx context.Context, t task) (recording.Result, error) {
	var transcript recording.Transcript
	if err := t.Objects.ReadJSON(ctx, t.Input.Head.Transcript, &transcript); err != nil {
		return recording.Result{}, err
	}
	tools := media.Runner{Dir: t.Dir, Record: t.Ran}
	m := describe(t, h.versions(ctx, tools))
	c := collector{t: t, tools: tools, manifest: &m}
	if err := c.collect(ctx); err != nil {
		return recording.Result{}, err
	}
	index, err := t.Objects.Write(ctx, "index.html", func(w io.Writer) error { return page.Execute(w, view(m, transcript, len(t.Input.Parts))) })
	if err != nil {
		return recording.Result{}, err
	}
	m.Files = append(m.Files, file("index.html", index))
	manifest, err := t.Objects.WriteJSON(ctx, "manifest.json", m)
	if err != nil {
		return recording.Result{}, fmt.Errorf("write the manifest: %w", err)
	}
	return recording.Result{V: recording.Version, Manifest: manifest, Index: index, Clips: len(m.Clips)}, nil
}

func (h *handler) versions(ctx context.Context, tools media.Runner) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tools) > 0 {
		return h.tools
	}
	found := tools.Versions(ctx)
	if ctx.Err() == nil { // else some were not asked
		h.tools = found
	}
	return found
}

// collector puts files into the result's folder and notes each in the manifest.
type collector struct {
	t        task
	tools    media.Runner
	manifest *Manifest
}

func (c collector) collect(ctx context.Context) error {
	head := c.t.Input.Head
	for i, p := range c.t.Input.Parts {
		if p.Video == nil {
			continue // a gap says so; the others keep the numbers that gaps call them by
		}
		if err := c.clip(ctx, i, p); err != nil {
			return err
		}
	}
	for i, p := range head.Media.Posters {
		if err := c.link(ctx, p, fmt.Sprintf("posters/poster-%02d.jpg", i+1)); err != nil {
			return err
		}
	}
	for _, text := range []struct {
		name string
		obj  recording.Object
	}{{"transcript.json", head.Transcript}, {"transcript.srt", head.SRT}, {"transcript.vtt", head.VTT}} {
		if err := c.link(ctx, text.obj, text.name); err != nil {
			return err
		}
	}
	speakers, err := c.t.Objects.WriteJSON(ctx, "speakers.json", c.manifest.Speakers)
	if err != nil {
		return fmt.Errorf("write speakers.json: %w", err)
	}
	c.manifest.Files = append(c.manifest.Files, file("speakers.json", speakers))
	summary, err := c.t.Objects.Write(ctx, "summary.txt", func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n\n%s\n", head.Title, head.Summary)
		return err
	})
	c.manifest.Files = append(c.manifest.Files, file("summary.txt", summary))
	return err
}

// clip looks at the file once more: the manifest states what is in it, not what was ordered.
func (c collector) clip(ctx context.Context, i int, p recording.Clip) error {
	path, err := c.t.Objects.Path(ctx, *p.Video)
	if err != nil {
		return fmt.Errorf("open clip %d: %w", i+1, err)
	}
	probed, err := c.tools.Probe(ctx, path)
	if err != nil {
		return fmt.Errorf("look at clip %d: %w", i+1, err)
	}
	name := fmt.Sprintf("clips/clip-%02d.mp4", i+1)
	c.manifest.Clips = append(c.manifest.Clips, clipEntry(name, p, probed))
	return c.link(ctx, *p.Video, name)
}

func (c collector) link(ctx context.Context, obj recording.Object, name string) error {
	linked, err := c.t.Objects.Link(ctx, obj, name)
	if err != nil {
		return fmt.Errorf("collect %s: %w", name, err)
	}
	c.manifest.Files = append(c.manifest.Files, file(name, linked))
	return nil
}
