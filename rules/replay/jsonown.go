package replay

import (
	"encoding/hex"
	"time"

	"gateway/limit"
)

// parseOwn reads the JSON of this gateway's access log.
func parseOwn(line []byte, r *Record, _ *reading) error {
	c := cursor{b: line}
	o := r.ours()
	o.Answer = -1
	at, status, duration := false, false, []byte(nil)
	c.open('{')
	for first := true; c.more('}', &first); {
		switch key := c.key(); string(key) {
		case "at":
			r.At, at = limit.Instant(c.whole()), true
		case "seq":
			r.more().Seq = uint64(c.whole())
		case "client":
			r.setClient(&c, c.text())
		case "method":
			r.setMethod(c.text())
		case "host":
			r.more().Host = text(c.text())
		case "path":
			r.setTarget(c.text())
		case "path_cut":
			o.PathCut = c.word()
		case "status":
			r.setStatus(c.whole())
			status = true
		case "duration":
			duration = c.number()
		case "route":
			o.Route = text(c.text())
		case "rule":
			o.Rule = text(c.text())
		case "dry_run_rule":
			o.DryRun = text(c.text())
		case "result":
			o.Result = text(c.text())
		case "answer":
			o.Answer = int(c.whole())
		case "client_failed":
			o.ClientFailed = c.word()
		case "rules":
			o.readRules(&c)
		case "count":
			r.more().Count = c.whole()
		default:
			c.skip()
		}
	}
	if err := c.end(); err != nil {
		return err
	}
	switch {
	case !at || !status || o.Result == "":
		return errOther
	case r.At <= 0:
		return errTime
	case !r.Client.IsValid():
		return errClient
	}
	if o.Answer < 0 {
		o.Answer = int(r.Status)
	}
	d, ok := durationIn(duration, time.Second)
	if !ok {
		return errDuration
	}
	r.more().Duration = d
	return nil
}

// readRules reads {"name": {"key": …}, …}.
func (o *Own) readRules(c *cursor) {
	c.open('{')
	for first := true; c.more('}', &first); {
		rule := OwnRule{Name: text(c.key()), Cost: -1, Said: -1}
		c.open('{')
		for one := true; c.more('}', &one); {
			switch key := c.key(); string(key) {
			case "key":
				rule.Key = c.digest()
			case "tier":
				rule.Tier = text(c.text())
			case "cost":
				rule.Cost = c.whole()
			case "said":
				rule.Said = c.whole()
			case "settled_at":
				rule.SettledAt = limit.Instant(c.whole())
			case "settled_seq":
				rule.SettledSeq = uint64(c.whole())
			default:
				c.skip()
			}
		}
		o.Rules = append(o.Rules, rule)
	}
}

// digest reads the id of a key: "id:" and 32 hexadecimal digits.
func (c *cursor) digest() (d limit.Digest) {
	id := c.text()
	var b [16]byte
	if c.err != nil || len(id) != 35 || string(id[:3]) != "id:" {
		c.fail(errJSON)
		return d
	}
	if _, err := hex.Decode(b[:], id[3:]); err != nil {
		c.fail(errJSON)
	}
	for i, x := range b {
		if i < 8 {
			d.Hi = d.Hi<<8 | uint64(x)
		} else {
			d.Lo = d.Lo<<8 | uint64(x)
		}
	}
	return d
}

// rule returns what the line says of a rule, or nil.
func (o *Own) rule(name string) *OwnRule {
	if o == nil {
		return nil
	}
	for i := range o.Rules {
		if o.Rules[i].Name == name {
			return &o.Rules[i]
		}
	}
	return nil
}
