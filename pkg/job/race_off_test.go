//go:build !race

package job_test

const raceShare = 1
