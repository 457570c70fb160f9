//go:build race

package job_test

// raceShare shrinks what is repeated at random under the race detector, which makes the pure Go SQLite ten times slower.
const raceShare = 5
