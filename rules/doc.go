// Package rules reads the gateway's configuration file and answers, for each
// request, which rules apply to it and under which keys they count it.
//
// # From text to a list in force
//
//	[Parse]            bytes → [File]  what the file says: plain data with positions
//	[File.ReadGroups]  with the files  what the files of its groups hold
//	[File.Compile]   File → [Set]      what a request needs: immutable
//	[Set.Activate]   the swap          the numbers of the Set become those in force
//
// Parse reports everything that is wrong with a file at once, as an [ErrorList]:
// each with its file:line:column, the line, a caret and what to write instead. A
// file with one error is no File. What can be used but is seldom meant is a
// warning, in File.Warnings.
//
// Compile has no effects. It gets the Set in force and copies pointers from it: a
// rule that means the same as one of that Set has the same [Live], the counters.
// A rule is the same if its name, its algorithm, its key (with `missing` and
// `ipv6_prefix` where these can matter) and, for a window, its period are. All
// else, the numbers above all, may differ: then what clients used stays used.
// The numbers are a [Plan]: the rule's own, and one for each of its tiers, each with
// counters of its own; only requests in progress are counted together.
// A Set that is dropped leaves nothing behind. [Set.Change] says what is
// different, for the log.
//
// # A request
//
// The front door fills in [Facts] and asks a Set, in this order: [Set.Route] (none
// is 404), [Set.Blocked] (403), [Set.Match]. Each [Hit] of Match is a rule that
// applies, with the Plan that the request falls under, what it costs and the
// digest of its key; a hit that is Missing is answered 400. A key in the body is
// Pending until [Facts.SetBody] and [Set.Resolve]; what cannot be told for sure is
// a Doubt of the hit. All these read only, take no memory and may run at the same
// time.
//
// A worked example. In
//
//	rules:
//	  - name: per-ip
//	    limit: 100/m
//	  - name: login
//	    match: POST /login
//	    key: [header.X-User, ip]
//	    limit: 5/15m
//	    algorithm: fixed_window
//
// a GET / from 192.0.2.1 has one hit: per-ip with the key 192.0.2.1. per-ip is a
// bucket of 100 that refills at one each 600 ms: [Rule.Describe] says "100 at once,
// then 1 every 600ms; at most 200 in any minute", and the RateLimit-Policy item is
// "per-ip";q=100;w=60. A POST /login has two hits. Without X-User the second counts
// the address, in counters that no X-User ever shares. If the file is saved with
// 10/m for per-ip, somebody who has used 60 of the 100 has used up the 10 and waits;
// saved with `key: ip/24`, everybody starts afresh, and the reload line says so.
//
// # What the file may hold
//
// The format is that of YAML 1.2, less what lets a limit be read otherwise than it
// looks: a name given twice, nothing for a value, a second document, tags, merge
// keys, 010 or 1e3 or 1.5 for a whole number. Aliases stand for their anchor's
// value; all aliases together may stand for 200,000 values. A file has at most
// 2 MiB, 200,000 values and 32 levels. Settings that the format knows but this
// version does not have are refused, never ignored; the table in settings.go says
// which they are.
//
// In values, never in names, ${NAME} stands for a variable of the environment,
// ${NAME:-default} for the default where it is not set or empty, ${NAME:?message}
// is an error then, and $$ is a $; any other $ is text. That is done once YAML has
// been read, so a variable can hold nothing but a value. Errors quote such a value
// as it is written in the file and do not repeat what the variable holds.
//
// yaml.v3 makes the tree and nothing else; it is imported in decode.go alone. Its
// own messages have lines at best, so its errors are explained by looking at the
// text (syntax.go).
//
// With an `include` a File is made of several files ([Outside].Include). They are read
// as one tree, whose lines are counted on from file to file; a place in it is told as
// that of the file it is in.
//
// # Matching
//
// Everything is matched on normal forms: see [NormalPath], [NormalHost] and
// [ClientAddr]. A [Match] is clauses of which one must take the request; a
// [Pattern] is the short form of a clause. Of the rules and routes of a Set those
// are asked that an index finds for the request's path, host, address, method or
// values; so those that do not apply cost nothing. A [Recipe] makes the key: its parts are
// written with kind and length, so that ("a","bc") is not ("ab","c"), and only a
// keyed digest of them leaves this package. A regular expression is a Pattern whose plain
// beginning is what the index finds it by. With `paths: loose` the patterns of rules
// are compared with [LoosePath] instead, as those of block are, and those of routes and exempt are not.
//
// # Tokens
//
// jwt.<claim> is a claim of the bearer token, which is verified when something asks for
// it: for a match at once, after all else of that; for a key, if Facts.TokenLater says
// so, only in [Set.Resolve], unless the token was verified lately. A key verifies tokens
// of its own kind of signature and of no other. A Set remembers good tokens by their
// SHA-256, a bounded number of them, and the next Set with the same keys has them too.
//
// # Groups
//
// A [Group] is asked about Facts and nothing else: a client is in it if the value
// that its request has of one of the group's attributes is in that attribute's set.
// A set is looked through in the same few steps whatever its size: texts are hashed,
// addresses are sorted ranges. A value is hashed with SHA-256 at most once a
// request, and only if it is compared with hashes. Sets are carried over from the
// Set in force by the hash of what they were read from. Errors in group files show
// no line that could hold a secret.
//
// # What it does not do
//
// It counts nothing and refuses nothing: that is package limit, with the claims
// that hits make. It opens no file (ReadGroups is given what they hold), starts no
// goroutine, knows no clock but to let others run (yield.go), and logs nothing.
package rules
