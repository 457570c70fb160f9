package localsqs

import "sync"

// operations is the SQS API, by action name. It never changes.
var operations = sync.OnceValue(func() map[string]operation {
	return map[string]operation{
		"AddPermission":                onQueue(addPermission),
		"CancelMessageMoveTask":        locked(cancelMove),
		"ChangeMessageVisibility":      onQueue(changeVisibility),
		"ChangeMessageVisibilityBatch": onQueue(changeVisibilityBatch),
		"CreateQueue":                  locked(createQueue),
		"DeleteMessage":                onQueue(deleteMessage),
		"DeleteMessageBatch":           onQueue(deleteBatch),
		"DeleteQueue":                  onQueue(deleteQueue),
		"GetQueueAttributes":           onQueue(getQueueAttributes),
		"GetQueueUrl":                  locked(getQueueURL),
		"ListDeadLetterSourceQueues":   onQueue(listSources),
		"ListMessageMoveTasks":         locked(listMoves),
		"ListQueues":                   locked(listQueues),
		"ListQueueTags":                onQueue(listTags),
		"PurgeQueue":                   onQueue(purgeQueue),
		"ReceiveMessage":               action(receive),
		"RemovePermission":             onQueue(removePermission),
		"SendMessage":                  onQueue(send),
		"SendMessageBatch":             onQueue(sendBatch),
		"SetQueueAttributes":           onQueue(setQueueAttributes),
		"StartMessageMoveTask":         locked(startMove),
		"TagQueue":                     onQueue(tagQueue),
		"UntagQueue":                   onQueue(untagQueue),
	}
})
