package sqldb

import "context"

// Fault is what goes wrong with a commit: an error when it is not yet committed undoes the transaction, one when it is stands for
// an answer that was lost.
type Fault func(write, committed bool) error

// Inject lets commits fail, for tests: no database does so when asked. It must be called before any other use.
func (db *DB) Inject(f Fault) { db.backend = faulty{db.backend, f} }

type faulty struct {
	backend
	fault Fault
}

func (b faulty) begin(ctx context.Context, m mode) (session, error) {
	s, err := b.backend.begin(ctx, m)
	if err != nil {
		return nil, err
	}
	return faultySession{s, func(committed bool) error { return b.fault(m != readOnly, committed) }}, nil
}

type faultySession struct {
	session
	fault func(committed bool) error
}

func (s faultySession) commit(ctx context.Context, last []Statement) error {
	if err := s.fault(false); err != nil {
		return err
	}
	if err := s.session.commit(ctx, last); err != nil {
		return err
	}
	return s.fault(true)
}
