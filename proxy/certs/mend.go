package certs

import (
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/certmagic"
)

// unusable is the ending that files get which are moved out of the way.
const unusable = ".unusable"

// setAside moves the files of a domain out of the way that make no certificate, say
// because somebody has copied half of them.
func (ed *edition) setAside(domain string, why error) {
	ca := ed.issuer.IssuerKey()
	keys := certmagic.StorageKeys
	for _, key := range []string{keys.SiteCert(ca, domain), keys.SitePrivateKey(ca, domain), keys.SiteMeta(ca, domain)} {
		path := filepath.Join(ed.storage.dir, filepath.FromSlash(key))
		os.Rename(path, path+unusable)
	}
	ed.m.log.Warn("what storage has of a certificate cannot be used; another one is ordered", "domain", domain, "err", why.Error())
}

// mendAccount moves an account with the CA out of the way whose files cannot be read
// as what they are; another one is made then. The library would fail for ever.
func (ed *edition) mendAccount() {
	users := filepath.Join(ed.storage.dir, "acme", certmagic.StorageKeys.Safe(ed.issuer.IssuerKey()), "users")
	filepath.WalkDir(users, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		base, isJSON := strings.CutSuffix(path, ".json")
		key, isKey := strings.CutSuffix(path, ".key")
		switch block, _ := pem.Decode(data); {
		case isJSON && !json.Valid(data):
		case isKey && block == nil:
			base = key
		default:
			return nil
		}
		for _, ending := range []string{".json", ".key"} {
			os.Rename(base+ending, base+ending+unusable)
		}
		ed.m.log.Warn("the account with the CA cannot be read; another one is made", "file", path)
		return nil
	})
}
