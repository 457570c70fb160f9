package infra

// Judge is Check but for the size of templates, which takes the most time.
var Judge = judge

// Held are the rows of the checklist by their number: how each is met, and what holds it.
func Held() map[int]struct {
	How string
	By  []string
} {
	all := map[int]struct {
		How string
		By  []string
	}{}
	for _, s := range checklist {
		for _, i := range s.Items {
			all[i.N] = struct {
				How string
				By  []string
			}{i.How, i.By}
		}
	}
	return all
}
