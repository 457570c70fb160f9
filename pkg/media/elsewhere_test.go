package media

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// visited listens on loopback and returns its address and how often it was connected to.
func visited(t *testing.T) (string, func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	visits, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			visits++
			c.Close()
		}
	}()
	end := func() int { listener.Close(); <-done; return visits }
	t.Cleanup(func() { end() })
	return "http://" + listener.Addr().String() + "/x.ts", end
}

// withNetwork takes the outer wall away, so that only the inner one is tested.
func withNetwork(t *testing.T) {
	before := noIsolation.Swap(true)
	t.Cleanup(func() { noIsolation.Store(before) })
}

func TestTheListenerWouldSeeAConnection(t *testing.T) {
	withNetwork(t)
	address, visits := visited(t)
	_, _ = Runner{}.Run(t.Context(), "ffprobe", "-v", "quiet", "-i", address)
	if visits() == 0 {
		t.Fatal("a tool with a network was not seen")
	}
}

func TestFilesThatNameOthersOpenNothingEvenWithANetwork(t *testing.T) {
	withNetwork(t)
	address, visits := visited(t)
	secret := makeFile(t, "secret.ts", append(picture(2), tone(2)...)...)
	dir := filepath.Dir(secret)
	for name, content := range map[string]string{
		"list.mp4":   "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:2,\n" + address + "\n#EXTINF:2,\nsecret.ts\n#EXT-X-ENDLIST\n",
		"concat.mp4": "ffconcat version 1.0\nfile secret.ts\nfile " + address + "\n",
		"dash.mp4":   `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT2S"><Period><AdaptationSet mimeType="video/mp2t"><Representation id="1" bandwidth="1"><BaseURL>` + address + `</BaseURL></Representation></AdaptationSet></Period></MPD>`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := (Runner{Dir: dir}).Probe(t.Context(), path); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
		for _, demuxer := range []string{"mov", "mpegts"} {
			if d, _, err := (Runner{Dir: dir}).DecodeAudio(t.Context(), path, demuxer, "out.wav"); err == nil && d.Duration > 0 {
				t.Errorf("%s as %s: decoded %v of something", name, demuxer, d.Duration)
			}
		}
	}
	if n := visits(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestTheSecretWouldBeReadWithoutTheWhitelists(t *testing.T) {
	secret := makeFile(t, "secret.ts", slices.Concat(picture(2), tone(2))...)
	list := filepath.Join(filepath.Dir(secret), "list.mp4")
	if err := os.WriteFile(list, []byte("ffconcat version 1.0\nfile secret.ts\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Runner{}).Run(t.Context(), "ffprobe", "-v", "error", "-i", list); err != nil {
		t.Fatalf("the attack does not work at all, so its refusal proves nothing: %v", err)
	}
}
