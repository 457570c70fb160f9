package localsqs_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

// FuzzRequest sends any body to any action: the server answers, and never with an internal failure.
func FuzzRequest(f *testing.F) {
	for _, action := range localsqs.Actions() {
		f.Add(action, []byte(`{"QueueUrl":"http://x/000000000000/q","MaxNumberOfMessages":10}`))
	}
	f.Add("SendMessage", []byte(`{"QueueUrl":"/000000000000/q","MessageBody":"\ud83c\udfac \"x\" \u00e9","MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"AA=="}}}`))
	f.Add("SendMessageBatch", []byte(`{"QueueUrl":"/000000000000/q","Entries":[{"Id":"a","MessageBody":"x","DelaySeconds":3},{"Id":"b","MessageBody":""}]}`))
	f.Add("DeleteMessageBatch", []byte(`{"QueueUrl":"/000000000000/q","Entries":[{"Id":"a","ReceiptHandle":"x"}]}`))
	f.Fuzz(func(t *testing.T, action string, body []byte) {
		server := newServer(t, localsqs.Options{})
		post(t, server, "CreateQueue", `{"QueueName":"q"}`)
		w := raw(server, "POST", jsonType, "AmazonSQS."+action, string(body))
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the reply is not JSON: %q", w.Body)
		}
	})
}

// FuzzDirectDecoder compares the one-pass decoder with encoding/json on what both accept.
func FuzzDirectDecoder(f *testing.F) {
	f.Add([]byte(`{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":"\ud83c\udfac\n\/","DelaySeconds":-3,"MessageGroupId":null}],"Other":{"x":[1,2.5e3,true]}}`))
	f.Add([]byte(` { "Entries" : null } `))
	f.Add([]byte(`{"Entries":[{"MessageBody":"\ud83c"},{"MessageBody":"\ud83cx\udfac"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		direct, err := localsqs.DecodeSendBatch(body)
		if err != nil || !utf8.Valid(body) {
			return
		}
		want, err := localsqs.DecodeSendBatchByTheBook(body)
		if err != nil || localsqs.HasFoldedNames(body) {
			return // encoding/json refuses control characters in strings and folds the case of names
		}
		if !reflect.DeepEqual(direct, want) {
			t.Errorf("decoded %+v, encoding/json has %+v", direct, want)
		}
	})
}

// FuzzQuoted checks that what the encoder writes is what encoding/json reads.
func FuzzQuoted(f *testing.F) {
	f.Add("a\"b\\c\n\t\x01 é 🎬 \u2028 <&>")
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		var back string
		if err := json.Unmarshal(localsqs.AppendQuoted(nil, s), &back); err != nil || back != s {
			t.Errorf("%q became %q, %v", s, back, err)
		}
	})
}

// FuzzReplay feeds any payload to the journal's decoder: it fails or not, but never panics.
func FuzzReplay(f *testing.F) {
	log, err := os.ReadFile("testdata/busy.log")
	if err != nil {
		f.Fatal(err)
	}
	for at := 0; at < len(log); {
		size := int(binary.LittleEndian.Uint32(log[at:]))
		f.Add(log[at+localsqs.FrameHeader : at+localsqs.FrameHeader+size])
		at += localsqs.FrameHeader + size
	}
	f.Fuzz(func(t *testing.T, payload []byte) { _ = localsqs.Replay(bytes.Clone(payload)) })
}

// FuzzFaultSpec parses any text.
func FuzzFaultSpec(f *testing.F) {
	f.Add("throttle:action=ReceiveMessage,share=0.1; delay:delay=300ms; seed=7")
	f.Fuzz(func(t *testing.T, spec string) {
		faults, err := localsqs.ParseFaults(spec)
		if err == nil && faults.Validate() != nil {
			t.Error("parsed faults that are not valid")
		}
	})
}
