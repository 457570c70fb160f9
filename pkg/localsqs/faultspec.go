package localsqs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseFaults reads faults from text: rules separated by semicolons, each an effect, optionally followed by a colon and
// settings separated by commas. The settings are action, queue, nth, share, times and delay, as in Fault; a rule seed=N
// sets the seed. For example:
//
//	throttle:action=ReceiveMessage,share=0.1; delay:delay=300ms,queue=jobs; lose:action=DeleteMessageBatch,nth=3; seed=7
func ParseFaults(spec string) (Faults, error) {
	var f Faults
	for part := range strings.SplitSeq(spec, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if seed, ok := strings.CutPrefix(part, "seed="); ok {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return Faults{}, fmt.Errorf("parse fault %q: seed is not a whole number", part)
			}
			f.Seed = n
			continue
		}
		rule, err := parseFault(part)
		if err != nil {
			return Faults{}, fmt.Errorf("parse fault %q: %w", part, err)
		}
		f.Rules = append(f.Rules, rule)
	}
	return f, f.Validate()
}

func parseFault(text string) (Fault, error) {
	effect, rest, _ := strings.Cut(text, ":")
	f := Fault{Effect: Effect(strings.TrimSpace(effect))}
	for setting := range strings.SplitSeq(rest, ",") {
		if setting = strings.TrimSpace(setting); setting == "" {
			continue
		}
		name, value, _ := strings.Cut(setting, "=")
		if err := f.set(name, value); err != nil {
			return Fault{}, fmt.Errorf("setting %q: %w", setting, err)
		}
	}
	return f, nil
}

func (f *Fault) set(name, value string) (err error) {
	switch name {
	case "action":
		f.Action = value
	case "queue":
		f.Queue = value
	case "nth":
		f.Nth, err = strconv.Atoi(value)
	case "times":
		f.Times, err = strconv.Atoi(value)
	case "share":
		f.Share, err = strconv.ParseFloat(value, 64)
	case "delay":
		f.Delay, err = time.ParseDuration(value)
	default:
		err = fmt.Errorf("want action, queue, nth, share, times or delay")
	}
	return err
}
