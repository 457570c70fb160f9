//go:build !race

package intake_test

const raceShare = 1
