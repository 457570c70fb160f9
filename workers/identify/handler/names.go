package handler

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordSet makes a set of the words of a text.
func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// roles are words of offices and headings; a line with one of them is no name.
var roles = wordSet(`administrator advisor agency agent analyst architect artist assistant associate association attorney author
	board bureau captain chair chairman chairperson chairwoman chief city clerk coach commission commissioner committee company consultant
	coordinator correspondent council councillor county curator dean department deputy designer developer director division doctor driver
	economist editor engineer engineering executive expert farmer finance founder general governor group head host inc instructor
	journalist judge lawyer lead leader lecturer librarian lieutenant ltd manager mayor member minister moderator musician national nurse
	office officer operations operator owner painter partner physician pilot planner planning president principal producer professor
	programmer project professional public reporter representative research researcher scientist secretary senator senior sergeant service
	services singer software specialist spokesman spokesperson spokeswoman student supervisor support surgeon teacher team technician
	technology treasurer trainer university vice volunteer welcome worker writer`)

// plain are frequent words that begin sentences, not names.
var plain = wordSet(`a about after again all also always am an and another any are as at back be because been before being both but by
	can come could day did do does doing done each even every everyone few first for from get glad go going good great had happy has have
	he hello her here hi him his how i i'll i'm i've if in into is it it's its just know last like little long look made make many may
	me more most much my name never new next no not now of off on once one only or other our out over own part people please proud ready
	really right said same say see she should so some sorry still such sure take thank thanks that that's the their them then there these
	they thing think this those three time to today too two under up us very want was way we well went were what when where which while who
	why will with would yes yet you your`)

// honorifics may stand before a name.
var honorifics = wordSet("dr dr. prof prof. mr mr. mrs mrs. ms ms. sir dame rev rev.")

// givenNames are frequent given names in English (compare the U.S. Social Security Administration's "Popular Baby Names"). A
// spoken "I am ..." or "this is ..." counts as an introduction only before one of them.
var givenNames = wordSet(`aaron abigail adam adrian alan albert alex alexander alexis alfred alice allison amanda amber amy andrea andrew
	angela ann anna anne anthony antonio arthur ashley audrey austin barbara benjamin bernard beth betty beverly bob bobby bonnie bradley
	brandon brenda brian brittany bruce bryan caleb cameron carl carla carlos carol caroline carolyn catherine charles charlotte cheryl
	chloe chris christian christina christine christopher cindy claire clara clarence claudia connor craig crystal curtis cynthia dale
	daniel danielle david dean deborah dennis derek diana diane donald donna dorothy douglas dylan earl edith edward elaine eleanor
	elizabeth ellen emily emma eric erica ernest ethan eugene eva evan evelyn faith florence frances francis frank fred gabriel gary gavin
	george gerald gina gladys glenn gloria grace grant greg gregory hannah harold harry hazel heather helen henry howard hugh ian irene
	isaac isabel jack jackson jacob jacqueline james jamie jane janet janice jason jean jeff jeffrey jennifer jenny jeremy jerry jesse
	jessica jim jimmy joan joe joel john johnny jonathan jordan jose joseph joshua joyce juan judith judy julia julian julie justin karen
	karl kate katherine kathleen kathryn keith kelly kenneth kevin kim kimberly kyle larry laura lauren lawrence leo leon leonard leslie
	lewis liam lillian linda lisa logan lois louis louise lucas lucy luke lynn madison marcus margaret maria marie marilyn mark martha
	martin marvin mary mason matthew maureen max may megan melissa michael michelle miguel mike mildred molly monica nancy natalie nathan
	neil nicholas nicole nina noah nora norma norman oliver olivia oscar owen pamela patricia patrick paul paula peggy peter philip
	phillip phyllis rachel ralph randy raymond rebecca richard rita robert robin rodney roger ronald rosa rose roy ruby russell ruth ryan
	sally sam samantha samuel sandra sara sarah scott sean sharon shirley simon sophia sophie stanley stella stephanie stephen steve steven
	stuart susan sylvia tammy tara taylor teresa terry theodore theresa thomas tiffany tim timothy tina todd tom tony tracy travis tyler
	vanessa vera victor victoria vincent virginia walter wanda warren wayne wendy wesley will william zachary zoe`)

// nameScore says how much a line on screen looks like a person's name; 0 or less is none. A name has two to four
// capitalised words, perhaps after an honorific, and does not begin as a sentence does. A known given name
// speaks for it and may stand alone or in capitals; the word of an office or a heading speaks against it, not
// more, since some people are called Driver.
func nameScore(line string) int {
	words := strings.Fields(line)
	for len(words) > 0 && honorifics[strings.ToLower(words[0])] {
		words = words[1:]
	}
	if len(words) == 0 || len(words) > 4 {
		return 0
	}
	known := givenNames[strings.ToLower(words[0])]
	capitals := line == strings.ToUpper(line)
	switch {
	case slices.ContainsFunc(words, func(w string) bool { return !isNameWord(w, capitals) }):
		return 0
	case !known && (capitals || len(words) == 1):
		return 0
	case !known && slices.ContainsFunc(words[:len(words)-1], func(w string) bool { return plain[strings.ToLower(w)] }):
		return 0
	}
	score := 1
	if known {
		score += 2
	}
	if slices.ContainsFunc(words, func(w string) bool { return roles[strings.ToLower(w)] }) {
		score -= 2
	}
	return score
}

// isNameWord accepts "Mary", "O'Neil", "Smith-Jones" and initials such as "J."; it refuses "2nd", "Director," and "of",
// and "PLANNING" unless all is in capitals.
func isNameWord(w string, capitals bool) bool {
	first, size := utf8.DecodeRuneInString(w)
	if !unicode.IsUpper(first) {
		return false
	}
	rest := w[size:]
	if rest == "." {
		return true
	}
	letters := 0
	for _, r := range rest {
		switch {
		case unicode.IsLower(r), capitals && unicode.IsUpper(r):
			letters++
		case unicode.IsUpper(r), r == '\'', r == '’', r == '-': // as in McCoy, O'Neil, Smith-Jones
		default:
			return false
		}
	}
	return letters > 0
}

// titled writes spoken words as a name.
func titled(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		first, size := utf8.DecodeRuneInString(w)
		out[i] = string(unicode.ToUpper(first)) + w[size:]
	}
	return strings.Join(out, " ")
}

// alike reports whether two readings are of one name: at most one letter in six differs.
func alike(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return distance([]rune(a), []rune(b))*6 <= max(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
}

// distance is the number of letters to insert, delete or replace to get from a to b.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range b {
			change := diagonal
			if x != y {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
