package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
)

// The codes by which services say that somebody may not look. There is no list of them; these are those of the services
// that are asked.
var (
	denied = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "NotAuthorized"}
	wrong  = []string{"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "AuthFailure", "MissingAuthenticationToken"}
)

// sentence says in one line why something could not be seen, and what to do.
func sentence(err error) string {
	var operation string
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		operation = op.Service() + " " + op.Operation()
	}
	_, throttled := retry.DefaultThrottleErrorCodes[code(err)]
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "stopped before it was looked at"
	case slices.Contains(denied, code(err)):
		return fmt.Sprintf("not allowed to call %s: grant it to these credentials (%s)", operation, oneLine(message(err)))
	case slices.Contains(wrong, code(err)):
		return fmt.Sprintf("AWS does not accept the credentials (%s): renew them, for example with aws sso login", code(err))
	case throttled:
		return fmt.Sprintf("%s was throttled, also when asked again (%s): look again in a minute", operation, code(err))
	case code(err) != "":
		return fmt.Sprintf("%s failed: %s: %s", operation, code(err), oneLine(message(err)))
	case operation != "" && isCredentials(err):
		return "no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	case operation != "" && errors.As(err, new(*net.OpError)), errors.As(err, new(*net.DNSError)):
		return fmt.Sprintf("%s does not answer: is there a way to AWS from here, and is the region right? (%s)", operation, oneLine(root(err).Error()))
	}
	return oneLine(err.Error())
}

// isCredentials says whether the request was never sent for want of credentials. The SDK has no type for that.
func isCredentials(err error) bool {
	text := err.Error()
	return strings.Contains(text, "get identity") || strings.Contains(text, "get credentials") || strings.Contains(text, "failed to refresh cached credentials")
}

func message(err error) string {
	api, _ := errors.AsType[smithy.APIError](err)
	return api.ErrorMessage()
}

func root(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
