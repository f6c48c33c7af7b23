package upstream

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"gateway/rules"
)

// maxPEM is the most bytes of a file with certificates or a key.
const maxPEM = 4 << 20

// material is what the files of a pool's tls hold.
type material struct {
	roots *x509.CertPool // nil: the system's
	own   []tls.Certificate
	sum   [sha256.Size]byte // changes with the files
}

// readTLS reads the files of t. The error is a rules.ErrorList.
func readTLS(t *rules.UpstreamTLS) (*material, error) {
	m := &material{}
	var errs rules.ErrorList
	sum := sha256.New()
	read := func(what string, f rules.FilePath) []byte {
		if f.Path == "" {
			return nil
		}
		data, err := readPEM(f.Path)
		if err != nil {
			errs = append(errs, f.Error(fmt.Sprintf("%s %q: %v", what, f.Path, err), ""))
			return nil
		}
		fmt.Fprintf(sum, "%s %d\n", what, len(data))
		sum.Write(data)
		return data
	}
	if data := read("ca", t.CA); data != nil {
		m.roots = x509.NewCertPool()
		if !m.roots.AppendCertsFromPEM(data) {
			errs = append(errs, t.CA.Error(fmt.Sprintf("ca %q: no certificate in it", t.CA.Path), "it must hold certificates in PEM"))
		}
	}
	cert, key := read("cert", t.Cert), read("key", t.Key)
	switch {
	case cert == nil || key == nil:
	case !holdsCertificate(cert):
		errs = append(errs, t.Cert.Error(fmt.Sprintf("cert %q: no certificate in it", t.Cert.Path), "it must hold certificates in PEM"))
	default:
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			cause := strings.TrimPrefix(err.Error(), "tls: ")
			errs = append(errs, t.Key.Error(fmt.Sprintf("key %q: %s", t.Key.Path, cause), "it must be the key of cert, in PEM"))
		}
		m.own = []tls.Certificate{pair}
	}
	sum.Sum(m.sum[:0])
	return m, errs.Err()
}

// readPEM reads a file that is not too large to be one. The error does not repeat
// the path.
func readPEM(path string) ([]byte, error) {
	bare := func(err error) error {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			return p.Err
		}
		return err
	}
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
	if len(data) > maxPEM {
		return nil, fmt.Errorf("more than %d MiB", maxPEM>>20)
	}
	if err == nil && len(data) == 0 {
		err = errors.New("the file is empty")
	}
	return data, bare(err)
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

// config returns how s, an https server, is spoken to. The name is given always,
// because requests go to addresses.
func (m *material) config(t *rules.UpstreamTLS, s *Server) *tls.Config {
	name := t.ServerName
	if name == "" {
		name = s.URL.Hostname()
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: m.roots, Certificates: m.own,
		ServerName: name, InsecureSkipVerify: t.Insecure,
	}
}
