package stage

import "errors"

// Validate checks every stage and the graph: names once, Next known, one start,
// one end, no cycle, and every fan-out joined. The error joins a *FieldError for
// every fault.
func (p Pipeline) Validate() error {
	c := &checks{}
	c.must(len(p) > 0, "Stages", len(p), "at least 1")
	var errs []error
	seen := map[string]bool{}
	for _, s := range p {
		errs = append(errs, s.Validate())
		c.must(!seen[s.Name], "Name", quoted(s.Name), "used once")
		seen[s.Name] = true
	}
	if len(c.errs) == 0 {
		p.checkGraph(c)
	}
	return errors.Join(append(errs, c.errs...)...)
}

func (p Pipeline) checkGraph(c *checks) {
	before := map[string]string{}
	var ends []string
	for _, s := range p {
		if s.Next == "" {
			ends = append(ends, s.Name)
			continue
		}
		_, known := p.Stage(s.Next)
		c.stage = s.Name
		c.must(known, "Next", quoted(s.Next), "a stage of the manifest")
		c.must(before[s.Next] == "", "Next", quoted(s.Next), "followed by one stage only, and %s leads there too", before[s.Next])
		before[s.Next] = s.Name
	}
	c.stage = ""
	starts := p.starts()
	c.must(len(starts) == 1, "start", starts, "exactly one stage that no other leads to")
	c.must(len(ends) == 1, "end", ends, "exactly one stage without Next")
	if len(c.errs) > 0 {
		return
	}
	chain := p.chain()
	c.must(len(chain) == len(p), "cycle", len(p)-len(chain), "0 stages that lead back to themselves")
	checkFans(c, chain)
}

// checkFans walks the chain: a fan-out is followed by exactly one stage of parts and
// then by its join, because the record joins parts as soon as each has one output.
func checkFans(c *checks, chain []Stage) {
	for i, s := range chain {
		c.stage = s.Name
		if s.FanOut {
			c.must(i+2 < len(chain) && chain[i+2].Join, "FanOut", true, "followed by one stage of parts and then by the stage that joins them")
			c.must(i+1 >= len(chain) || !chain[i+1].FanOut && !chain[i+1].Join, "Next", quoted(s.Next), "a stage of parts, which neither fans out nor joins")
		}
		if s.Join {
			c.must(i >= 2 && chain[i-2].FanOut, "Join", true, "the second stage after one that fans out")
		}
	}
}
