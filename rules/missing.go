package rules

// Missing says what happens to a request without the key of a rule. The zero
// Missing counts it by its address.
type Missing struct {
	policy missingPolicy
	attr   Attribute
}

type missingPolicy uint8

const (
	missingIP missingPolicy = iota
	missingSkip
	missingReject
	missingAttribute
)

// ParseMissing reads what `missing` says: ip, skip, reject or an attribute.
func ParseMissing(text string) (Missing, *TextError) {
	switch text {
	case "ip":
		return Missing{}, nil
	case "skip":
		return Missing{policy: missingSkip}, nil
	case "reject":
		return Missing{policy: missingReject}, nil
	}
	a, err := ParseAttribute(text)
	if err == nil {
		return Missing{policy: missingAttribute, attr: a}, nil
	}
	if near := nearest(text, []string{"skip", "reject"}); near != "" {
		err.Hint = didYouMean(text, []string{near})
	}
	return Missing{}, err
}

// String returns the policy as one would write it in the file.
func (m Missing) String() string {
	switch m.policy {
	case missingSkip:
		return "skip"
	case missingReject:
		return "reject"
	case missingAttribute:
		return m.attr.String()
	}
	return "ip"
}

// Skips reports whether a request without the key passes the rule by.
func (m Missing) Skips() bool { return m.policy == missingSkip }

// Attribute returns what stands in for a missing key, and whether anything
// does.
func (m Missing) Attribute() (Attribute, bool) {
	switch m.policy {
	case missingIP:
		return Attribute{kind: kindIP}, true
	case missingAttribute:
		return m.attr, true
	}
	return Attribute{}, false
}
