// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"encoding/json"
	"testing"
)

// TestReplayNoticesDifferences changes recordings so that they are no longer true: the replay must fail for each.
func TestReplayNoticesDifferences(t *testing.T) {
	update := func(s *step) obj {
		if u, ok := s.Event["update"].(obj); ok {
			return u["status"].(obj)
		}
		return nil
	}
	offers := func(s *step) bool { return s.Event["type"] == "OFFERS" }
	tests := []struct {
		name, recording string
		change          func(rec *recording) bool
	}{
		{"another text", "O12", each(func(s *step) bool {
			if u := update(s); u != nil && u["state"] == "TASK_ERROR" {
				u["message"] = u["message"].(string) + "."
				return true
			}
			return false
		})},
		{"another state", "U3", each(func(s *step) bool {
			if u := update(s); u != nil && u["state"] == "TASK_FINISHED" {
				u["state"] = "TASK_FAILED"
				return true
			}
			return false
		})},
		{"a uuid where there is none", "U14", each(func(s *step) bool {
			if u := update(s); u != nil {
				u["uuid"] = "${uuid.99}"
				return true
			}
			return false
		})},
		{"a field less", "U1", each(func(s *step) bool {
			if u := update(s); u != nil {
				delete(u, "container_status")
				return true
			}
			return false
		})},
		{"another status code", "C13", each(func(s *step) bool {
			if s.Answer != nil && s.Answer.Status == 400 {
				s.Answer.Status = 403
				return true
			}
			return false
		})},
		{"another offer is named", "O10", each(func(s *step) bool {
			if u := update(s); u != nil && u["state"] == "TASK_DROPPED" {
				u["message"] = "Task launched with invalid offers: Offer ${offer.1} is no longer valid"
				return true
			}
			return false
		})},
		{"an event that did not come", "C14", func(rec *recording) bool {
			rec.steps = append(rec.steps, step{Ms: rec.steps[len(rec.steps)-1].Ms, Who: "F1", Event: obj{"type": "RESCIND", "rescind": obj{"offer_id": obj{"value": "${offer.1}"}}}, index: len(rec.steps) + 1})
			return true
		}},
		{"an event left out", "U2", drop(func(s *step) bool { return s.Ms > 1000 && update(s) != nil })},
		{"an offer left out", "O6", drop(func(s *step) bool { return s.Ms > 1000 && offers(s) })},
		{"a remainder that comes too early", "O2", each(func(s *step) bool {
			if s.Ms > 5000 && offers(s) {
				s.Ms = 1100
				return true
			}
			return false
		})},
		{"a retry that comes too late", "U2", each(func(s *step) bool {
			if s.Ms > 9000 && update(s) != nil {
				s.Ms -= 4000
				return true
			}
			return false
		})},
		{"another header", "C5", each(func(s *step) bool {
			if s.Answer != nil && s.Answer.Headers["Allow"] != "" {
				s.Answer.Headers["Allow"] = "GET"
				return true
			}
			return false
		})},
		{"resources in another amount", "P5", each(func(s *step) bool {
			if !offers(s) || s.Ms < 500 {
				return false
			}
			text, _ := json.Marshal(s.Event)
			changed := obj{}
			_ = json.Unmarshal([]byte(replaceOnce(string(text), `"value":`, `"value":1`)), &changed)
			s.Event = changed
			return true
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec, err := loadRecording("testdata/recordings/" + tt.recording + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			if !tt.change(rec) {
				t.Fatal("the recording has nothing to change in that way")
			}
			for seed := int64(1); seed <= 3; seed++ {
				if failed, _ := replayOnce(t, rec, seed); len(failed) == 0 {
					t.Fatal("the replay did not notice")
				}
			}
		})
	}
}

// each changes the first step for which change returns true.
func each(change func(*step) bool) func(*recording) bool {
	return func(rec *recording) bool {
		for i := range rec.steps {
			if change(&rec.steps[i]) {
				return true
			}
		}
		return false
	}
}

// drop leaves out the first step for which match returns true, as if it had not been recorded.
func drop(match func(*step) bool) func(*recording) bool {
	return func(rec *recording) bool {
		for i := range rec.steps {
			if match(&rec.steps[i]) {
				rec.steps[i].Event, rec.steps[i].Note = nil, ""
				return true
			}
		}
		return false
	}
}

func replaceOnce(text, old, fresh string) string {
	for i := 0; i+len(old) <= len(text); i++ {
		if text[i:i+len(old)] == old {
			return text[:i] + fresh + text[i+len(old):]
		}
	}
	return text
}
