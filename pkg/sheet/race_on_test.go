//go:build race

package sheet_test

// raceShare shrinks bombs and the bounds that they break under the race detector, which takes twenty times as long to make them.
const raceShare = 16
