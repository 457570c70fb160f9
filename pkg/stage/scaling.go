package stage

import "math"

// BacklogTarget is the number of messages per running task, waiting, in flight and delayed,
// that scaling keeps to: what its slots work on, and as much again as they finish in half
// of the objective. The other half is for tasks to be asked for and to start.
func (s Stage) BacklogTarget() float64 {
	p := s.WithDefaults().Profile
	waiting := float64(p.Objective) / 2 / float64(p.Typical)
	return math.Round(float64(p.Slots) * (1 + waiting))
}
