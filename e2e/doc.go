// Package e2e holds the end-to-end tests: the built command and the built workers as real processes, on recordings whose
// words are drawn for the run. There is nothing to import here.
package e2e
