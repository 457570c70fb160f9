package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// hole is a name in a path of the document.
var hole = regexp.MustCompile(`\{(\w+)\}`)

// nobodys stands in a path where nothing is known by that name.
const nobodys = "0000000000zzzzzzzzzzzzzzzz"

// sent is the body of an operation that needs one to get as far as the question whose thing it is about.
var sent = map[string]string{
	"put /v1/uploads/{upload}": "x",
	"post /v1/jobs":            `{"upload":"` + nobodys + `"}`,
	"post /v1/quotes":          `{}`,
}

// request asks for an operation on one of the things, by the beginning of its path, or on one that nobody has.
func (h *house) request(key string, op operation, things map[string]string) answer {
	h.t.Helper()
	path := op.path
	for beginning, id := range things {
		if strings.HasPrefix(path, beginning) {
			path = hole.ReplaceAllString(beginning, id) + path[len(beginning):]
		}
	}
	path = hole.ReplaceAllString(strings.ReplaceAll(path, "{file}", "index.html"), nobodys)
	if len(op.media) == 0 {
		return h.ask(key, strings.ToUpper(op.method), path, nil)
	}
	media := op.media[0]
	body := sent[op.name()]
	if body == "" {
		body = "{}"
	}
	return h.ask(key, strings.ToUpper(op.method), path, strings.NewReader(body), "Content-Type", media)
}

// The sweep goes over whatever is in the document: an operation that is added is swept too.
func TestEveryOperationWantsAKeyOfItsScopeAndKeepsItsPace(t *testing.T) {
	h := newHouse(t, "sqlite")
	keys := map[job.Scope]string{}
	for _, scope := range job.AllScopes() {
		keys[scope] = h.key("acme", 100_000, scope)
	}
	for _, op := range operations() {
		if op.scope == "" {
			if a := h.request("", op, nil); a.status >= 400 && op.method == "get" {
				t.Errorf("%s is for anybody and answers %d", op.name(), a.status)
			}
			continue
		}
		for name, key := range map[string]string{"no key": "", "a key of another fleet": "fleet_" + nobodys + "_" + strings.Repeat("a", 52), "nonsense": "x"} {
			if a := h.request(key, op, nil); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s with %s = %d", op.name(), name, a.status)
			}
		}
		for scope, key := range keys {
			a := h.request(key, op, nil)
			if forbidden := a.status == http.StatusForbidden; forbidden != (string(scope) != op.scope) || a.status == http.StatusUnauthorized {
				t.Errorf("%s, which needs %s, with scope %s = %d", op.name(), op.scope, scope, a.status)
			}
		}
		slow := h.key("acme", 1, job.Scope(op.scope))
		h.request(slow, op, nil)
		a := h.request(slow, op, nil)
		if a.status != http.StatusTooManyRequests || a.body["code"] != "rate" || a.header.Get("Retry-After") == "" || a.body["reset_at"] == nil {
			t.Errorf("%s asked twice with one request a minute = %d %v", op.name(), a.status, a.body)
		}
	}
}

func TestWhatIsNotYoursIsAnsweredAsWhatIsNotThere(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		owner := h.key("acme", 100_000, job.AllScopes()...)
		stranger := h.key("other", 100_000, job.ScopeSubmit, job.ScopeView)
		submitted := h.submit(owner, "talk", "bytes")
		if submitted.status != http.StatusAccepted {
			t.Fatalf("submit = %d %s", submitted.status, submitted.text)
		}
		h.complete(map[string]string{"index.html": "<p>"})
		begun := h.json(owner, "POST", "/v1/uploads", `{"name":"a","size":1}`)
		contentType, sheet := form(t, field{"file", "sheet.csv", "target,source\na,b\n"})
		imported := h.ask(owner, "POST", "/v1/imports", sheet, "Content-Type", contentType)
		// What there is of the owner's, by the beginning of the path that leads to it.
		things := map[string]string{
			"/v1/jobs/{id}": submitted.body["id"].(string), "/v1/uploads/{upload}": begun.body["id"].(string), "/v1/imports/{id}": imported.body["id"].(string),
		}
		swept := 0
		for _, op := range operations() {
			if op.scope == "" || op.scope == string(job.ScopeOperate) || !strings.Contains(op.path, "{") || strings.HasSuffix(op.path, "/events") {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(things)), func(beginning string) bool { return strings.HasPrefix(op.path, beginning) }) {
				t.Fatalf("%s: the owner has no such thing; make one above", op.name())
			}
			swept++
			theirs, none := h.request(stranger, op, things), h.request(stranger, op, nil)
			if theirs.status != http.StatusNotFound {
				t.Errorf("%s of another's = %d", op.name(), theirs.status)
			}
			same(t, op.name(), things, theirs, none)
			if mine := h.request(owner, op, things); mine.status == http.StatusNotFound {
				t.Errorf("%s is not there for its owner: the sweep proves nothing", op.name())
			}
		}
		events := operation{method: "get", path: "/v1/jobs/{id}/events"}
		same(t, events.name(), things, h.request(stranger, events, things), h.request(stranger, events, nil))
		if swept < 8 {
			t.Errorf("only %d operations were swept", swept)
		}
		if list := h.json(stranger, "GET", "/v1/jobs", ""); list.status != 200 || len(list.body["jobs"].([]any)) != 0 {
			t.Errorf("another's list = %s", list.text)
		}
		// Objects and uploads that a submission names.
		key := "../../uploads/acme/" + things["/v1/uploads/{upload}"] + "/source"
		for _, order := range []string{`{"upload":%q}`, `{"object":%q}`} {
			theirs := h.json(stranger, "POST", "/v1/jobs", fmt.Sprintf(order, map[bool]string{true: things["/v1/uploads/{upload}"], false: key}[strings.Contains(order, "upload")]))
			none := h.json(stranger, "POST", "/v1/jobs", fmt.Sprintf(order, nobodys))
			same(t, order, things, theirs, none)
		}
	})
}

// same holds two answers to be alike but for the name that was asked for and the moment.
func same(t *testing.T, what string, things map[string]string, a, b answer) {
	t.Helper()
	blank := func(answer answer) (string, http.Header) {
		text, header := answer.text, answer.header.Clone()
		for _, name := range things {
			text = strings.ReplaceAll(text, name, "-")
		}
		header.Del("Date")
		header.Del("Content-Length")
		return strings.ReplaceAll(text, nobodys, "-"), header
	}
	aText, aHeader := blank(a)
	bText, bHeader := blank(b)
	if a.status != b.status || aText != bText || fmt.Sprint(aHeader) != fmt.Sprint(bHeader) {
		t.Errorf("%s tells them apart:\n%d %v %s\n%d %v %s", what, a.status, aHeader, aText, b.status, bHeader, bText)
	}
}

func TestFiftySubmissionsAtOnceGetTheThreePlacesThatThereAre(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		key := h.key("acme", 100_000, job.ScopeSubmit, job.ScopeView)
		limit, limited := int64(3), false
		if err := h.store.ChangeLimits(t.Context(), "acme", job.Limits{MaxInFlight: &limit, Unlimited: &limited}, "test"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.store.Grant(t.Context(), "acme", "g1", 1000, "test"); err != nil {
			t.Fatal(err)
		}
		const submissions = 50
		answers := make([]answer, submissions)
		var together sync.WaitGroup
		for i := range submissions {
			together.Go(func() { answers[i] = h.submit(key, fmt.Sprint("talk ", i), "bytes") })
		}
		together.Wait()
		count := map[int]int{}
		for _, a := range answers {
			count[a.status]++
			if a.status == http.StatusAccepted && a.header.Get("Location") != "/v1/jobs/"+a.body["id"].(string) {
				t.Errorf("Location %q", a.header.Get("Location"))
			}
			if a.status == http.StatusTooManyRequests && (a.header.Get("Retry-After") == "" || a.body["reset_at"] == nil || a.body["code"] != "in_flight_limit") {
				t.Errorf("refusal: %v %s", a.header, a.text)
			}
		}
		if count[http.StatusAccepted] != 3 || count[http.StatusTooManyRequests] != 47 {
			t.Errorf("statuses = %v", count)
		}
		account := h.json(key, "GET", "/v1/account", "")
		entries := h.json(key, "GET", "/v1/account/entries", "")
		sum := 0.0
		for _, e := range entries.body["entries"].([]any) {
			sum += e.(map[string]any)["amount"].(float64)
		}
		if account.body["balance"] != 1000.0-3*housePrice || sum != 1000-3*housePrice || account.body["in_flight"] != 3.0 {
			t.Errorf("account %v, entries sum to %v", account.body, sum)
		}
		t.Logf("%v, balance %v", count, account.body["balance"])
	})
}

func TestAKeyIsShownOnceEndsAtOnceAndRotatesWithAnOverlap(t *testing.T) {
	h := newHouse(t, "sqlite")
	if a := h.json("", "GET", "/v1/accounts", ""); a.status != 200 {
		t.Fatalf("without keys, the local operator = %d", a.status)
	}
	operator := h.key("local", 100_000, job.AllScopes()...)
	h.json(operator, "POST", "/v1/accounts", `{"tenant":"acme","unlimited":true}`)
	if a := h.json(operator, "POST", "/v1/accounts", `{"tenant":"acme"}`); a.status != http.StatusConflict {
		t.Errorf("a second account = %d", a.status)
	}
	made := h.json(operator, "POST", "/v1/keys", `{"tenant":"acme","name":"ci","scopes":["view"],"lifetime_seconds":3600}`)
	secret, _ := made.body["secret"].(string)
	id, _ := made.body["id"].(string)
	if made.status != http.StatusCreated || len(secret) < 80 {
		t.Fatalf("create = %d %s", made.status, made.text)
	}
	view := func(secret string) int { return h.json(secret, "GET", "/v1/account", "").status }
	if view(secret) != 200 {
		t.Error("a new key is not valid")
	}
	list := h.json(operator, "GET", "/v1/keys?tenant=acme", "")
	if strings.Contains(list.text, secret[len(secret)-40:]) || !strings.Contains(list.text, "used_at") {
		t.Errorf("list: %s", list.text)
	}
	rotated := h.json(operator, "POST", "/v1/keys/"+id+"/rotate", `{"overlap_seconds":3600}`)
	fresh, _ := rotated.body["secret"].(string)
	if rotated.status != http.StatusCreated || view(secret) != 200 || view(fresh) != 200 {
		t.Errorf("in the overlap: rotate %d, old %d, new %d", rotated.status, view(secret), view(fresh))
	}
	at := h.json(operator, "POST", "/v1/keys/"+id+"/rotate", `{"overlap_seconds":0}`)
	if old := h.json(secret, "GET", "/v1/account", ""); at.status != http.StatusCreated || old.status != 401 || !strings.Contains(old.text, "has expired") {
		t.Errorf("after the overlap: %d %s", old.status, old.text)
	}
	if a := h.json(operator, "POST", "/v1/keys/"+id+"/rotate", `{"overlap_seconds":0}`); a.status != http.StatusConflict {
		t.Errorf("rotating what has expired = %d", a.status)
	}
	if a := h.json(operator, "DELETE", "/v1/keys/"+rotated.body["id"].(string), ""); a.status != http.StatusNoContent || view(fresh) != 401 {
		t.Errorf("revoke = %d, then %d", a.status, view(fresh))
	}
	for path, want := range map[string]int{"/v1/keys/" + nobodys: 404, "/v1/keys/" + nobodys + "/rotate": 404} {
		method, body := "DELETE", ""
		if strings.HasSuffix(path, "rotate") {
			method, body = "POST", `{"overlap_seconds":1}`
		}
		if a := h.json(operator, method, path, body); a.status != want {
			t.Errorf("%s = %d", path, a.status)
		}
	}
}

func TestALifetimeOfLessThanASecondIsNotForEver(t *testing.T) {
	h := newHouse(t, "sqlite")
	h.json("", "POST", "/v1/accounts", `{"tenant":"acme"}`)
	client := api.NewClient(h.url)
	defer client.Close()
	order := job.KeyRequest{Tenant: "acme", Scopes: job.AllScopes(), Lifetime: -time.Millisecond}
	if key, err := client.CreateKey(t.Context(), order); err == nil {
		t.Errorf("below zero: %+v", key.Key)
	}
	order.Lifetime = time.Millisecond
	if key, err := client.CreateKey(t.Context(), order); err != nil || key.ExpiresAt == nil {
		t.Errorf("above zero: %+v, %v", key.Key, err)
	}
}

func TestOperatorsOpenLimitAndCreditAccounts(t *testing.T) {
	h := newHouse(t, "sqlite")
	if a := h.json("", "POST", "/v1/accounts", `{"tenant":"acme","max_in_flight":2}`); a.status != 201 || a.body["max_in_flight"] != 2.0 || a.body["unlimited"] != false {
		t.Errorf("create = %d %s", a.status, a.text)
	}
	if a := h.json("", "PATCH", "/v1/accounts/acme", `{"daily_cap":7}`); a.status != 200 || a.body["max_in_flight"] != 2.0 || a.body["daily_cap"] != 7.0 {
		t.Errorf("limit = %d %s", a.status, a.text)
	}
	for range 2 {
		if a := h.json("", "POST", "/v1/accounts/acme/grants", `{"id":"g1","amount":50}`); a.status != 200 || a.body["balance"] != 50.0 {
			t.Errorf("grant = %d %s", a.status, a.text)
		}
	}
	if a := h.json("", "GET", "/v1/accounts/acme/entries?limit=1", ""); a.status != 200 || !strings.Contains(a.text, `"amount":50`) {
		t.Errorf("entries = %s", a.text)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/accounts/acme", "", 200}, {"GET", "/v1/accounts/nobody", "", 404}, {"POST", "/v1/keys/x/rotate", `{"overlap_seconds":-1}`, 422}, {"PATCH", "/v1/accounts/nobody", `{}`, 404}, {"POST", "/v1/accounts/nobody/grants", `{"id":"g","amount":1}`, 404},
		{"POST", "/v1/keys", `{"tenant":"nobody","scopes":["view"]}`, 404}, {"POST", "/v1/keys", `{"tenant":"acme","scopes":[]}`, 422},
		{"POST", "/v1/accounts", `{"tenant":"a b"}`, 422}, {"PATCH", "/v1/accounts/acme", `{"daily_cap":-1}`, 422}, {"POST", "/v1/accounts/acme/grants", `{"id":"","amount":1}`, 422},
		{"POST", "/v1/accounts/acme/grants", `{"id":"g","amount":9223372036854775807}`, 422}, {"POST", "/v1/accounts/acme/grants", `{"id":"g","amount":-9223372036854775808}`, 422},
		{"GET", "/v1/accounts/acme/entries?limit=x", "", 400}, {"GET", "/v1/accounts/acme/entries?cursor=!", "", 400}, {"GET", "/v1/accounts", "", 200},
		{"GET", "/v1/account", "", 404}, {"GET", "/v1/account/entries?limit=0", "", 400}, {"GET", "/v1/keys?x=1", "", 400},
	} {
		if a := h.json("", c.method, c.path, c.body); a.status != c.status {
			t.Errorf("%s %s %s = %d, want %d: %s", c.method, c.path, c.body, a.status, c.status, a.text)
		}
	}
}

func TestBodiesThatAreNotWhatAnOperationTakesAreToldApart(t *testing.T) {
	h := newHouse(t, "sqlite")
	if a := h.json("", "POST", "/v1/accounts", `{"tenant":"acme"}`); a.status != 201 {
		t.Fatal(a.text)
	}
	for _, op := range operations() {
		if !slices.Contains(op.media, "application/json") {
			continue
		}
		path := hole.ReplaceAllString(op.path, "acme")
		for name, c := range map[string]struct {
			media, body string
			status      int
		}{
			"another media type": {"text/csv", "{}", 415},
			"broken JSON":        {"application/json", `{"`, 400},
			"an unknown field":   {"application/json", `{"no_such_field":1}`, 400},
			"two documents":      {"application/json", `{}{}`, 400},
			"too much":           {"application/json", `{"tenant":"` + strings.Repeat("a", 65<<10) + `"}`, 413},
		} {
			if op.scope == "" && c.status != 415 {
				continue // what is for anybody is signed, and its signature is judged before what it says
			}
			a := h.ask("", strings.ToUpper(op.method), path, strings.NewReader(c.body), "Content-Type", c.media)
			if a.status != c.status || !strings.HasSuffix(fmt.Sprint(a.body["detail"]), ".") || a.body["instance"] != path {
				t.Errorf("%s with %s = %d %s, want %d", op.name(), name, a.status, a.text, c.status)
			}
		}
	}
}

func TestAWatchersStreamEndsWithItsKey(t *testing.T) {
	h := newHouse(t, "sqlite")
	key := h.key("acme", 100_000, job.AllScopes()...)
	submitted := h.submit(key, "talk", "bytes")
	id := strings.Split(strings.TrimPrefix(key, "fleet_"), "_")[0]
	timer := time.AfterFunc(300*time.Millisecond, func() {
		if err := h.store.RevokeKey(t.Context(), id, "test"); err != nil {
			t.Error(err)
		}
	})
	defer timer.Stop()
	a := h.ask(key, "GET", "/v1/jobs/"+submitted.body["id"].(string)+"/events", nil) // returns when the stream ends
	if a.status != 200 || strings.Count(a.text, "event: job") < 1 {
		t.Errorf("= %d %s", a.status, a.text)
	}
}

func TestAKeyOfAnotherFleetIsToldFromAWrongOne(t *testing.T) {
	h := newHouse(t, "sqlite")
	if a := h.ask("fleet_of_another", "GET", "/v1/jobs", nil); a.status != http.StatusUnauthorized || !strings.Contains(a.text, "no keys yet") {
		t.Errorf("without keys = %d %s", a.status, a.text)
	}
	h.json("", "POST", "/v1/accounts", `{"tenant":"acme"}`)
	h.json("", "POST", "/v1/keys", `{"tenant":"acme","scopes":["view"]}`)
	if a := h.ask("fleet_of_another", "GET", "/v1/jobs", nil); a.status != http.StatusUnauthorized || strings.Contains(a.text, "no keys yet") {
		t.Errorf("with keys = %d %s", a.status, a.text)
	}
}
