// Package infra writes everything that a fleet needs in an AWS account from its manifest: CloudFormation templates, the same
// alarms as Prometheus rules, a runbook for each alarm, and the page that explains them.
//
// Promised: the same manifest and environment give the same bytes; what Generate returns has passed Check; numbers come from
// the manifest and nowhere else. It reads no clock, no network and no file. Command fleet writes the files, package doctor
// compares a live account with the templates.
package infra
