// Package certs is the gateway's HTTPS: which certificate a handshake gets, and
// where it comes from.
//
// A [Manager] follows the setting `tls`. As everywhere a change is prepared first,
// which reads files and may fail ([Manager.Prepare]), and then put in force, which
// cannot ([Manager.Commit]). What is in force is an edition: immutable settings, the
// tls.Config made of them, and the certificates of files.
//
// # Where certificates come from
//
// Domains are ordered from a CA by ACME (certmagic): HTTP-01 on the plain address,
// TLS-ALPN-01 on the secure ones. What a storage folder holds already is served at
// once and never ordered again, so ten starts are one order. certmagic renews in the
// last third of a certificate's life, or when the CA says. Nothing is ever ordered
// because of a handshake: a name that is not in the file has no certificate.
//
// Files are pairs of certificate and key. They are looked at every few seconds; a new
// pair takes the place of the old one when it fits, and until then the old one stays.
//
// # Which one a handshake gets
//
// The name that the client asks for decides: a domain has the certificate of its CA;
// any other name, and a domain as long as it has none, that of a file with the name,
// the name itself before a wildcard. A client that names nothing gets the certificate
// of the address it came to, else the first. If there is none the handshake fails.
//
// # What a CA must not be asked for
//
// CAs count what fails, and refuse for days. An attempt that the CA saw fail is kept
// in the storage folder, so that a restart does not forget it: two in an hour at most
// (each tries both challenges), with gaps that grow to six hours. A CA that cannot be
// reached is tried again within seconds, at most every ten minutes. And no order is
// made unless the folder can be written, so that a full disk costs no certificates.
//
// An example. The domain's DNS still leads elsewhere, and the gateway starts at 12:00:
//
//	12:00  attempt; the CA's validation fails; next at 12:05
//	12:05  attempt; fails; the next is at 13:05, an hour after the last
//	12:10  the gateway is restarted: two failures in this hour, so still 13:00
//	13:00  attempt; by now DNS leads here; the certificate is served at once
//
// # What it does not do
//
// It listens nowhere: package proxy does, with the tls.Config it gets. No wildcards
// from a CA, which need DNS-01. It does not reload client_ca and ca_root by itself;
// they are read anew with the next reload that is asked for.
package certs
