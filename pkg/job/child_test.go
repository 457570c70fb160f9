package job_test

// childRole tells a copy of this test binary to be a process that may be killed.
const childRole = "FLEET_TEST_CHILD"

func runChild(string) int { return 2 }
