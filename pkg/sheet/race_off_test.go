//go:build !race

package sheet_test

const raceShare = 1
