package replay

import (
	"net/netip"

	"gateway/limit"
)

// Against says what differs between the rules of two files, request by request.
type Against struct {
	// File is the other one.
	File string `json:"file"`
	// Both and Neither count requests that both let through, and that both refuse.
	Both    int64 `json:"both_let_through"`
	Neither int64 `json:"both_refuse"`
	// OnlyNow are refused by this file alone, OnlyThen by the other alone.
	OnlyNow  int64 `json:"only_this_refuses"`
	OnlyThen int64 `json:"only_other_refuses"`
	// ClientsNow and ClientsThen are addresses that only this file, only the other
	// refuses anything of.
	ClientsNow  int64 `json:"clients_only_this_refuses"`
	ClientsThen int64 `json:"clients_only_other_refuses"`
	// Top are the addresses of which this file refuses most that the other does not.
	Top []TopKey `json:"top"`
	// Rules are those of the other file.
	Rules []RuleReport `json:"rules"`

	now, then keyTable
	secret    limit.Secret
}

// NewAgainst returns an Against for the file of that name, without any request yet.
func NewAgainst(name string) *Against {
	return &Against{File: name, secret: limit.NewSecret(), now: keyTable{most: mostKeys}, then: keyTable{most: mostKeys}, Top: []TopKey{}}
}

// Add notes what became of a request by this file and by the other one.
func (a *Against) Add(rec *Record, now, then Outcome) {
	if !now.Decided && !then.Decided {
		return
	}
	n := rec.weight()
	switch {
	case now.Refused && then.Refused:
		a.Neither += n
	case now.Refused:
		a.OnlyNow += n
	case then.Refused:
		a.OnlyThen += n
	default:
		a.Both += n
	}
	addr := rec.Client.As16()
	key := a.secret.Digest(addr[:])
	note := func(t *keyTable, refused, differs bool) {
		if row := t.find(key, rec.Client); row != nil {
			row.requests += n
			if refused {
				row.most += n
			}
			if differs {
				row.refused += n
			}
		}
	}
	note(&a.now, now.Refused, now.Refused && !then.Refused)
	note(&a.then, then.Refused, then.Refused && !now.Refused)
}

// Finish completes the figures. other is the Run by the other file.
func (a *Against) Finish(other *Report, top int) {
	a.Rules = other.Rules
	for i := range a.now.n {
		n := a.now.row(i)
		if t := a.then.find(n.key, netip.IPv6Unspecified()); t != nil {
			switch {
			case n.most > 0 && t.most == 0:
				a.ClientsNow += 1 << a.now.level
			case n.most == 0 && t.most > 0:
				a.ClientsThen += 1 << a.now.level
			}
		}
	}
	for _, k := range a.now.mostRefused(top) {
		a.Top = append(a.Top, TopKey{Key: netip.AddrFrom16(k.addr).Unmap().String(), Requests: k.requests, Refused: k.refused, Share: share(k.refused, k.requests)})
	}
}
