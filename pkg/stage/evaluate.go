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
// which must last, the lowest.
func (a Alarm) Firing(samples []Sample) bool {
	if len(samples) == 0 {
		return false
	}
	now := samples[len(samples)-1].At
	worst := make(map[int]float64, a.Of)
	for _, s := range samples {
		value, seen := s.Values[a.Signal]
		period := int(now.Sub(s.At) / a.Period)
		if !seen || period >= a.Of {
			continue
		}
		before, known := worst[period]
		switch {
		case !known:
			worst[period] = value
		case a.Signal == SignalStalled:
			worst[period] = min(before, value)
		default:
			worst[period] = max(before, value)
		}
	}
	reached := 0
	for _, value := range worst {
		if value >= a.Threshold {
			reached++
		}
	}
	return reached >= a.Points
}

// Firing names the alarms of the stage that ring at the moment of the latest sample: the
// rules in their order, then the composite that pages. A pause suppresses those that it
// explains.
func (s Stage) Firing(samples []Sample) []string {
	paused := s.Paused().Firing(samples)
	var names []string
	for _, a := range s.Alarms() {
		if (a.DuringPause || !paused) && a.Firing(samples) {
			names = append(names, a.Name)
		}
	}
	if s.Broken().among(names) {
		names = append(names, AlarmBroken)
	}
	return names
}

// Horizon is the longest time that a rule of the stage looks back.
func (s Stage) Horizon() time.Duration {
	longest := s.Paused().Window()
	for _, a := range s.Alarms() {
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
