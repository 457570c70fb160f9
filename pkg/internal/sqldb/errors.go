package sqldb

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	lite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// ErrUnknown is matched when a commit was asked for and its answer was lost: the transaction may have happened.
var ErrUnknown = errors.New("the outcome of the commit is unknown")

// Transient reports whether running the same transaction again may succeed: the database has undone it because
// of others, or has not heard of it, since the connection had died before. A commit whose answer was lost is not
// among these: its outcome is unknown.
func Transient(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
			return true
		}
		return false
	}
	if l, ok := errors.AsType[*lite.Error](err); ok {
		primary := l.Code() & 0xff
		return primary == lib.SQLITE_BUSY || primary == lib.SQLITE_LOCKED
	}
	return pgconn.SafeToRetry(err) && !errors.Is(err, ErrUnknown)
}

// named gives a full disk the name that the rest of a program knows it by.
func named(err error) error {
	if l, ok := errors.AsType[*lite.Error](err); ok && l.Code()&0xff == lib.SQLITE_FULL {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}
