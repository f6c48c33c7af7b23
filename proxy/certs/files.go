package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"gateway/rules"
)

// maxPEM is the most bytes of a file with certificates or a key.
const maxPEM = 4 << 20

// readFile reads a file that is not too large to be one of ours. The error does not
// repeat the path.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, bare(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	switch {
	case err != nil:
		return nil, bare(err)
	case len(data) > maxPEM:
		return nil, fmt.Errorf("more than %d MiB", maxPEM>>20)
	case len(data) == 0:
		return nil, errors.New("the file is empty")
	}
	return data, nil
}

// pair is what the files of one certificate hold.
type pair struct {
	files rules.CertificateFiles
	cert  tls.Certificate // with its Leaf
	sum   [sha256.Size]byte
}

// readPair reads a certificate and its key. The sum is that of what was read, also
// when it is no pair; the error is a rules.ErrorList.
func readPair(files rules.CertificateFiles) (*pair, error) {
	p := &pair{files: files}
	var errs rules.ErrorList
	sum := sha256.New()
	read := func(what string, f rules.FilePath) []byte {
		data, err := readFile(f.Path)
		if err != nil {
			errs = append(errs, f.Error(fmt.Sprintf("%s %q: %v", what, f.Path, err), ""))
			fmt.Fprintf(sum, "%s %v\n", what, err)
			return nil
		}
		fmt.Fprintf(sum, "%s %d\n", what, len(data))
		sum.Write(data)
		return data
	}
	cert, key := read("cert", files.Cert), read("key", files.Key)
	sum.Sum(p.sum[:0])
	switch {
	case cert == nil || key == nil:
	case !holdsCertificate(cert):
		errs = append(errs, files.Cert.Error(fmt.Sprintf("cert %q: no certificate in it", files.Cert.Path), "it must hold certificates in PEM, the server's own first"))
	default:
		var err error
		if p.cert, err = tls.X509KeyPair(cert, key); err != nil {
			cause := strings.TrimPrefix(err.Error(), "tls: ")
			errs = append(errs, files.Key.Error(fmt.Sprintf("key %q: %s", files.Key.Path, cause), "it must be the key of cert, in PEM and without a passphrase"))
		}
	}
	return p, errs.Err()
}

func holdsCertificate(data []byte) bool {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return false
		}
		if block.Type == "CERTIFICATE" {
			return true
		}
	}
}

// doubts returns what is odd about a pair that can be used.
func (p *pair) doubts(now time.Time) []*rules.Error {
	warn := func(hint, format string, args ...any) *rules.Error {
		e := p.files.Cert.Error(fmt.Sprintf("cert %q ", p.files.Cert.Path)+fmt.Sprintf(format, args...), hint)
		e.Warning = true
		return e
	}
	leaf := p.cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return []*rules.Error{warn("put a new one in its place", "has expired on %s", leaf.NotAfter.Format(time.DateTime))}
	case now.Before(leaf.NotBefore):
		return []*rules.Error{warn("is the clock right?", "is not valid before %s", leaf.NotBefore.Format(time.DateTime))}
	case leaf.IsCA && len(names(leaf)) == 0:
		return []*rules.Error{warn("the server's own certificate stands first", "is that of an authority")}
	}
	return nil
}

// names returns what a certificate is for: host names in lower case, also with a
// wildcard, and IP addresses.
func names(leaf *x509.Certificate) []string {
	var list []string
	for _, name := range leaf.DNSNames {
		list = append(list, strings.ToLower(name))
	}
	for _, ip := range leaf.IPAddresses {
		list = append(list, ip.String())
	}
	if len(list) == 0 && strings.Contains(leaf.Subject.CommonName, ".") {
		list = append(list, strings.ToLower(leaf.Subject.CommonName)) // as it was done before 2000
	}
	return list
}

// readPool reads authorities. The error is a rules.ErrorList.
func readPool(what string, f rules.FilePath) (*x509.CertPool, [sha256.Size]byte, error) {
	var none [sha256.Size]byte
	if f.Path == "" {
		return nil, none, nil
	}
	data, err := readFile(f.Path)
	if err != nil {
		return nil, none, rules.ErrorList{f.Error(fmt.Sprintf("%s %q: %v", what, f.Path, err), "")}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, none, rules.ErrorList{f.Error(fmt.Sprintf("%s %q: no certificate in it", what, f.Path), "it must hold certificates in PEM")}
	}
	return pool, sha256.Sum256(data), nil
}
