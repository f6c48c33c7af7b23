// Package peers reads the limits in the files of other proxies and writes them as
// rules of ours.
//
// [Nginx] knows limit_req and limit_conn, with the maps and geo blocks that their keys
// are made of; [Traefik] rateLimit and inFlightReq of a dynamic configuration in YAML,
// with the rules of the routers that use them; [Caddy] the rate_limit directive of
// caddy-ratelimit in a Caddyfile. Nothing else is looked at.
//
// What is imported decides as the original does, as far as ours can: where a number
// means something else (the burst of nginx is on top of the first request) it is
// written so that it comes to the same, with a comment. What has no equal is left out
// and named in a [Note], with its line. The text of a [Result] is always one that
// rules.Parse takes.
//
// # How a match is made
//
// The other programs choose one location, router or handler for a request, and ask its
// limits; here every rule that matches applies. So a rule's match is that of each
// place that uses the limit, without what goes to places of higher precedence that do
// not. A worked example:
//
//	location /       { limit_req zone=ip burst=10 nodelay; }
//	location /search { limit_req zone=search burst=2 nodelay; }
//
// makes a rule ip for { path: /**, not: { path: "/search*/**" } } of burst 11, and one
// named search for "/search*/**" of burst 3: a location of nginx is the beginning of a
// text, which /searching has as well.
//
// Matches are kept as any of some clauses, each all of some conditions. They are bounded
// in number: what would become larger has no equal here and is noted.
package peers
