package stage

import (
	"slices"
	"time"
)

// Sample is what was seen of a stage at one moment. A signal that is not among the values
// was not looked at, which never counts as reaching a threshold.
type Sample struct {
	At     time.Time
	Values map[Signal]float64
}

// Firing tells whether the rule rings at the moment of the latest sample. The samples are
// in the order of their times. Of several within a period the highest counts; of stalled,
// which must last, the lowest; what was counted is added up.
func (a Alarm) Firing(samples []Sample) bool {
	if len(samples) == 0 {
		return false
	}
	now := samples[len(samples)-1].At
	periods := make(map[int]float64, a.Of)
	for _, s := range samples {
		value, seen := s.Values[a.Signal]
		period := int(now.Sub(s.At) / a.Period)
		if !seen || period >= a.Of {
			continue
		}
		if before, known := periods[period]; known {
			value = a.Signal.join(before, value)
		}
		periods[period] = value
	}
	reached := 0
	for _, value := range periods {
		if value >= a.Threshold {
			reached++
		}
	}
	return reached >= a.Points
}

// join makes one value of two of the same period.
func (s Signal) join(a, b float64) float64 {
	switch {
	case OwnMetrics[s].Counter:
		return a + b
	case s == SignalStalled:
		return min(a, b)
	}
	return max(a, b)
}

// Firing names the alarms of the stage that ring at the moment of the latest sample: the
// rules in their order, then the composite that pages. A pause suppresses those that it
// explains.
func (s Stage) Firing(samples []Sample) []string {
	return firing(s.Alarms(), s.Broken(), s.Paused().Firing(samples), samples)
}

// ServerFiring names the alarms of the server that ring, as Stage.Firing does.
func ServerFiring(samples []Sample) []string {
	return firing(ServerAlarms(), ServerBroken(), false, samples)
}

func firing(rules []Alarm, page Composite, paused bool, samples []Sample) []string {
	var names []string
	for _, a := range rules {
		if (a.DuringPause || !paused) && a.Firing(samples) {
			names = append(names, a.Name)
		}
	}
	if page.among(names) {
		names = append(names, page.Name)
	}
	return names
}

// Horizon is the longest time that a rule of the stage looks back.
func (s Stage) Horizon() time.Duration { return horizon(append(s.Alarms(), s.Paused())) }

// ServerHorizon is the longest time that a rule of the server looks back.
func ServerHorizon() time.Duration { return horizon(ServerAlarms()) }

func horizon(rules []Alarm) time.Duration {
	var longest time.Duration
	for _, a := range rules {
		longest = max(longest, a.Window())
	}
	return longest
}

// among tells whether one of the composite's terms rings wholly.
func (c Composite) among(names []string) bool {
	return slices.ContainsFunc(c.Any, func(t Term) bool {
		return !slices.ContainsFunc(t, func(name string) bool { return !slices.Contains(names, name) })
	})
}
