//go:build !race

// What is sent and answered goes through programs: the race detector does not see that one waits for the other.

package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// The recipes for services over HTTP and for object storage, sent by curl. The server knows who asks by the first part
// of the path, and freezes a request of the older writer, or loses its answer.

func needCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		absent(t, "curl (scripts/setup installs it)")
	}
}

// A hold is what befalls the n-th request of the older writer: it is kept back, or its answer is lost.
type hold struct {
	mu     sync.Mutex
	seen   int
	freeze int // 0: none
	lose   int
	there  chan struct{}
	goOn   chan struct{}
}

func newHold(freeze, lose int) *hold {
	return &hold{freeze: freeze, lose: lose, there: make(chan struct{}), goOn: make(chan struct{})}
}

// pass lets a request through, or keeps it back. It says whether its answer is lost.
func (h *hold) pass(who string) (lost bool) {
	if who != "old" {
		return false
	}
	h.mu.Lock()
	h.seen++
	n := h.seen
	h.mu.Unlock()
	if n == h.freeze {
		close(h.there)
		<-h.goOn
	}
	return n == h.lose
}

// A service does a thing once for a key, and gives the first answer again. Without a key it does it each time.
type service struct {
	mu      sync.Mutex
	hold    *hold
	slow    chan struct{} // what the older's request waits for within the work, if it is there
	working chan struct{} // closed when it does
	answers map[string]string
	effects int
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, _, _ := strings.Cut(r.URL.Path[1:], "/")
	lost := s.hold.pass(who)
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	answer, known := s.answers[key]
	if key != "" && !known {
		s.answers[key] = ""
	}
	s.mu.Unlock()
	switch {
	case key == "" || !known:
		if s.slow != nil && who == "old" {
			close(s.working)
			<-s.slow
		}
		s.mu.Lock()
		s.effects++
		s.answers[key] = "done: " + string(body)
		answer = s.answers[key]
		s.mu.Unlock()
	case answer == "":
		http.Error(w, "at work", http.StatusConflict)
		return
	case answer != "done: "+string(body):
		http.Error(w, "another body", http.StatusUnprocessableEntity)
		return
	}
	if lost {
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, answer)
}

// TestFencingKey: whoever asks, and however often, with one key there is one effect; without it there are more.
//
//	0: both at once                         1: the older's request arrives when the newer is done
//	2: the older's answer is lost           3: the newer asks while the older's request is at work: 409, later again
func TestFencingKey(t *testing.T) {
	t.Parallel()
	needCurl(t)
	right := fencingText(t, "idempotent")
	wrong := changed(t, right, `--header "Idempotency-Key: $ONCEONLY_KEY/payout/1" \`+"\n", "\\\n")
	for name, text := range map[string]string{"as shown": right, "wrong: no key": wrong} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *service
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
			defer server.Close()
			dir := t.TempDir()
			scripts := map[string]string{}
			for _, who := range []string{"old", "new"} {
				scripts[who] = newScript(t, dir, who, text, "https://bank.internal", server.URL+"/"+who)
			}
			doubled, conflicts := 0, 0
			for i := range roundsOf(text == wrong) {
				a, b := meet(i)
				s = &service{hold: newHold(map[int]int{1: 1}[i%4], map[int]int{2: 1}[i%4]), answers: map[string]string{}}
				if i%4 == 3 {
					s.slow, s.working = make(chan struct{}), make(chan struct{})
				}
				older := publish(t, exec.Command(scripts["old"]), a.env())
				switch i % 4 {
				case 1:
					<-s.hold.there
				case 2:
					<-older.ended
				case 3:
					<-s.working
				}
				ask := func() int { return publish(t, exec.Command(scripts["new"]), b.env()).status() }
				status := ask()
				if status == 22 { // 409: later again
					conflicts++
					if s.slow != nil {
						close(s.slow)
					}
					<-older.ended
					status = ask()
				} else if s.slow != nil {
					close(s.slow)
				}
				if s.hold.freeze > 0 {
					close(s.hold.goOn)
				}
				if <-older.ended; status != 0 || i%4 == 2 && older.status() != 52 {
					t.Errorf("round %d: the newer %d, the older %d: %s", i, status, older.status(), older.said.String())
				}
				if s.effects != 1 {
					doubled++
				}
			}
			t.Logf("%d rounds: %d conflicts, %d doubled effects", roundsOf(text == wrong), conflicts, doubled)
			if (text == wrong) != (doubled > 0) || text == right && conflicts == 0 {
				t.Errorf("doubled %d, conflicts %d", doubled, conflicts)
			}
		})
	}
}

// A store is an object storage with conditions. Its ETag is a hash of the content; at times it is too busy to decide.
type store struct {
	mu      sync.Mutex
	objects map[string]string
	hold    *hold
	busy    bool
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, name, _ := strings.Cut(r.URL.Path[1:], "/")
	lost := s.hold.pass(who)
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	object, there := s.objects[name]
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(object)))
	ifMatch, ifNoneMatch := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case r.Method == http.MethodGet && !there:
		http.NotFound(w, r)
		return
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", tag)
		io.WriteString(w, object)
		return
	case ifMatch != "" && (!there || ifMatch != tag) || ifNoneMatch == "*" && there:
		http.Error(w, "precondition", http.StatusPreconditionFailed)
		return
	case s.busy && who == "new" && ifMatch+ifNoneMatch != "":
		s.busy = false
		http.Error(w, "conflict", http.StatusConflict)
		return
	}
	s.objects[name] = string(body)
	if lost {
		panic(http.ErrAbortHandler)
	}
}

// newStore is a store, and what a writer publishes with: a file of its own, whose content is its token.
func newStore(t *testing.T, text string) (s *store, start func(who string, w writer) *publishing) {
	t.Helper()
	needCurl(t)
	s = &store{objects: map[string]string{}, hold: newHold(0, 0)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for _, who := range []string{"old", "new"} {
		newScript(t, dir, who, text, "https://store.internal", server.URL+"/"+who)
	}
	return s, func(who string, w writer) *publishing {
		file := dir + "/" + w.run
		if err := os.WriteFile(file, []byte(fmt.Sprint(w.token)), 0o600); err != nil {
			t.Fatal(err)
		}
		return publish(t, exec.Command(dir+"/"+who, file), w.env())
	}
}

// current is what a reader finds who follows the pointer.
func (s *store) current(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	const at = "report/2026-11-29/"
	fields := strings.Fields(s.objects[at+"CURRENT"])
	if len(fields) != 3 {
		t.Fatalf("CURRENT is %q", s.objects[at+"CURRENT"])
	}
	return s.objects[at+fields[2]]
}

// TestFencingPointerAsShown: one writer after the other.
func TestFencingPointerAsShown(t *testing.T) {
	t.Parallel()
	s, start := newStore(t, fencingText(t, "pointer"))
	a, b := meet(0)
	for i, w := range []writer{a, a, b, a, {b.token, a.run}, b} {
		start("new", w).want(t, []int{0, 0, 0, 1, 1, 0}[i])
	}
	if got := s.current(t); got != fmt.Sprint(b.token) {
		t.Errorf("published %s", got)
	}
}

// TestFencingPointer: a reader never finds the older's after the newer's; without the condition it does. The older is
// frozen before each of its requests in turn, or the answer to its last one is lost and it repeats all.
func TestFencingPointer(t *testing.T) {
	t.Parallel()
	right := fencingText(t, "pointer")
	wrong := changed(t, right, ` --header "$only"`, "")
	for name, text := range map[string]string{"as shown": right, "wrong: no condition": wrong} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, start := newStore(t, text)
			refused, stale := 0, 0
			for i := range roundsOf(text == wrong) {
				a, b := meet(i)
				freeze, lose := i%5, 0
				if freeze == 4 {
					freeze, lose = 0, 3
				}
				s.mu.Lock()
				s.hold, s.busy = newHold(freeze, lose), i%3 == 0
				if i%7 == 0 {
					s.objects = map[string]string{}
				}
				s.mu.Unlock()
				older := start("old", a)
				if lose > 0 {
					if older.status() == 0 {
						t.Error("an answer was lost, and the script ended with 0")
					}
					older = start("old", a)
					older.want(t, 0)
				}
				if freeze > 0 {
					<-s.hold.there
				}
				start("new", b).want(t, 0)
				if freeze > 0 {
					close(s.hold.goOn)
				}
				if older.status() > 0 {
					refused++
					older.want(t, 1)
				}
				if s.current(t) != fmt.Sprint(b.token) {
					stale++
				}
			}
			t.Logf("%d rounds: the older was refused %d times, stood in the newer one's place %d times", roundsOf(text == wrong), refused, stale)
			if (text == wrong) != (stale > 0) || refused == 0 {
				t.Errorf("refused %d, stale %d", refused, stale)
			}
		})
	}
}
