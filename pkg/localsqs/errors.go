package localsqs

import (
	"errors"
	"fmt"
	"net/http"
)

// apiError is a failure as SQS reports it. code is the shape name that SDKs turn into a type; legacy is the code of the
// older query protocol, which SDKs also expose and which fills the Code of failed batch entries.
type apiError struct {
	code    string
	legacy  string
	status  int
	message string
	expired bool // a receipt handle whose visibility has ended; inside a batch its code differs
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// fault reports whose fault it is, in the words of the X-Amzn-Query-Error header.
func (e *apiError) fault() string {
	if e.status >= http.StatusInternalServerError {
		return "Receiver"
	}
	return "Sender"
}

const legacyPrefix = "AWS.SimpleQueueService."

func badRequest(code, legacy, format string, args ...any) *apiError {
	return &apiError{code: code, legacy: legacy, status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// prefixed makes an error whose legacy code is the same name with the old prefix.
func prefixed(code, format string, args ...any) *apiError {
	return badRequest(code, legacyPrefix+code, format, args...)
}

// Errors without a type of their own in SQS: the SDKs show the legacy code.
func invalidParameter(format string, args ...any) *apiError {
	return badRequest("InvalidParameterValueException", "InvalidParameterValue", format, args...)
}

func invalidValue(name string, value any, reason string) *apiError {
	return invalidParameter("Value %v for parameter %s is invalid. Reason: %s", value, name, reason)
}

func missingParameter(name string) *apiError {
	return badRequest("MissingRequiredParameterException", "MissingParameter", "The request must contain the parameter %s.", name)
}

func errInvalidAttributeName(name string) *apiError {
	return badRequest("InvalidAttributeName", "InvalidAttributeName", "Unknown Attribute %s.", name)
}

func errInvalidAttributeValue(name string, format string, args ...any) *apiError {
	return badRequest("InvalidAttributeValue", "InvalidAttributeValue", "Invalid value for the parameter %s. Reason: %s", name, fmt.Sprintf(format, args...))
}

func errNoQueue() *apiError {
	return badRequest("QueueDoesNotExist", legacyPrefix+"NonExistentQueue", "The specified queue does not exist.")
}

func errNoResource(what string) *apiError {
	e := badRequest("ResourceNotFoundException", "ResourceNotFoundException", "The resource that you specified for the %s parameter doesn't exist.", what)
	e.status = http.StatusNotFound
	return e
}

func errQueueExists(attribute string) *apiError {
	return badRequest("QueueNameExists", "QueueAlreadyExists", "A queue already exists with the same name and a different value for attribute %s", attribute)
}

func errBadHandle(handle string) *apiError {
	e := badRequest("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", clip(handle))
	e.status = http.StatusNotFound
	return e
}

func errExpiredHandle(handle string) *apiError {
	e := invalidValue("ReceiptHandle", clip(handle), "The receipt handle has expired.")
	e.expired = true
	return e
}

func errNotInFlight() *apiError {
	return prefixed("MessageNotInflight", "The message referred to is not in flight.")
}

func errUnsupported(format string, args ...any) *apiError {
	return prefixed("UnsupportedOperation", format, args...)
}

func errOverLimit(limit int) *apiError {
	e := badRequest("OverLimit", "OverLimit", "The queue has %d messages in flight, which is its limit.", limit)
	e.status = http.StatusForbidden
	return e
}

func errThrottled() *apiError {
	e := badRequest("RequestThrottled", "RequestThrottled", "The request was denied due to request throttling.")
	e.status = http.StatusForbidden
	return e
}

func errUnavailable(message string) *apiError {
	return &apiError{code: "ServiceUnavailable", legacy: "ServiceUnavailable", status: http.StatusServiceUnavailable, message: message}
}

func errInternal(message string) *apiError {
	return &apiError{code: "InternalFailure", legacy: "InternalFailure", status: http.StatusInternalServerError, message: message}
}

// errClientGone is counted, but nobody is there to read it.
func errClientGone() *apiError {
	return badRequest("ClientGone", "ClientGone", "The client went away before the reply.")
}

func asAPIError(err error) *apiError {
	var e *apiError
	if !errors.As(err, &e) {
		e = errInternal(err.Error())
	}
	return e
}

// clip keeps a caller's oversized value from filling an error message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
