//go:build !race

package infra_test

const raceEnabled = false
