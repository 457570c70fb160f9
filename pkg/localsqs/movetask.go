package localsqs

type moveTask struct{}

func (q *queue) stopTasks() {}
