//go:build race

package intake_test

// raceShare shrinks what is large under the race detector, which makes the pure Go SQLite ten times slower.
const raceShare = 20
