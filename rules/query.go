package rules

// queryState says what is known of the query of one request.
type queryState struct {
	read bool
	err  error
}

// QueryError reports why the query of the request could not be read, or nil. Only a query that a match or a key asked
// for is read, so call it after them; the answer to an error is 400.
func (f *Facts) QueryError() error { return f.query.err }
