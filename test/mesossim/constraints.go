// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// offerConstraints are the offer constraints of Mesos 1.11. The generated types do not know them, so they are read from
// JSON calls only.
type offerConstraints struct {
	RoleConstraints map[string]struct {
		Groups []struct {
			AttributeConstraints []attributeConstraint `json:"attribute_constraints"`
		} `json:"groups"`
	} `json:"role_constraints"`
}

type attributeConstraint struct {
	Selector  selector `json:"selector"`
	Predicate struct {
		Exists         *struct{}  `json:"exists"`
		NotExists      *struct{}  `json:"not_exists"`
		TextEquals     *textValue `json:"text_equals"`
		TextNotEquals  *textValue `json:"text_not_equals"`
		TextMatches    *textRegex `json:"text_matches"`
		TextNotMatches *textRegex `json:"text_not_matches"`
	} `json:"predicate"`

	regex *regexp.Regexp
}

type selector struct {
	AttributeName       *string `json:"attribute_name"`
	PseudoattributeType *string `json:"pseudoattribute_type"`
}

// textValue is a predicate's value, either plain or in a message of its own.
type textValue struct{ Value string }

func (t *textValue) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &t.Value)
	}
	var o struct {
		Value string `json:"value"`
	}
	err := json.Unmarshal(b, &o)
	t.Value = o.Value
	return err
}

type textRegex struct {
	Regex string `json:"regex"`
}

// readSchedulerCall reads a call together with its offer constraints.
func readSchedulerCall(r *http.Request, call *schedulerCall) (hasType bool, constraints *offerConstraints, herr *httpError) {
	var raw json.RawMessage
	hasType, body, herr := readCallBody(r, &call.Call)
	if herr != nil || r.Header.Get("Content-Type") != mediaJSON {
		return hasType, nil, herr
	}
	var parts struct {
		Subscribe struct {
			OfferConstraints *json.RawMessage `json:"offer_constraints"`
		} `json:"subscribe"`
		UpdateFramework struct {
			OfferConstraints *json.RawMessage `json:"offer_constraints"`
		} `json:"update_framework"`
	}
	if err := json.Unmarshal(body, &parts); err != nil {
		return hasType, nil, nil // of no known form: the call itself was read
	}
	switch {
	case parts.Subscribe.OfferConstraints != nil:
		raw = *parts.Subscribe.OfferConstraints
	case parts.UpdateFramework.OfferConstraints != nil:
		raw = *parts.UpdateFramework.OfferConstraints
	default:
		return hasType, nil, nil
	}
	constraints = &offerConstraints{}
	if err := json.Unmarshal(raw, constraints); err != nil {
		return false, nil, refuse(http.StatusBadRequest, "Failed to convert JSON into Call protobuf: %v", err)
	}
	return hasType, constraints, nil
}

func (o *offerConstraints) validate(roles []string) string {
	if o == nil {
		return ""
	}
	for _, role := range sortedKeys(o.RoleConstraints) {
		if !slices.Contains(roles, role) {
			return fmt.Sprintf("Offer constraints specify `role_constraints` for a role '%s'not contained in the set of roles", role)
		}
	}
	for _, role := range sortedKeys(o.RoleConstraints) {
		for _, group := range o.RoleConstraints[role].Groups {
			for i := range group.AttributeConstraints {
				if text := group.AttributeConstraints[i].validate(); text != "" {
					return fmt.Sprintf("Offer constraints are not valid: A role %s has an invalid 'AttributeConstraint': %s", role, text)
				}
			}
		}
	}
	return ""
}

func (a *attributeConstraint) validate() string {
	if (a.Selector.AttributeName == nil) == (a.Selector.PseudoattributeType == nil) {
		return "Exactly one of 'AttributeConstraint::Selector::name' or 'AttributeConstraint::Selector::pseudoattribute_type' must be set"
	}
	if t := a.Selector.PseudoattributeType; t != nil && !slices.Contains([]string{"HOSTNAME", "REGION", "ZONE"}, *t) {
		return "Unknown pseudoattribute type"
	}
	p := &a.Predicate
	pattern := p.TextMatches
	if pattern == nil {
		pattern = p.TextNotMatches
	}
	if pattern != nil {
		re, err := regexp.Compile("^(?:" + pattern.Regex + ")$")
		if _, plain := syntax.Parse(pattern.Regex, syntax.Perl); plain != nil {
			err = plain
		}
		if err != nil {
			return fmt.Sprintf("Failed to construct regex from pattern '%s': %s", pattern.Regex, regexReason(err))
		}
		a.regex = re
		return ""
	}
	if p.Exists == nil && p.NotExists == nil && p.TextEquals == nil && p.TextNotEquals == nil {
		return "Unknown predicate type"
	}
	return ""
}

// regexReason gives an error of Go's parser the words of RE2.
func regexReason(err error) string {
	e, ok := err.(*syntax.Error)
	if !ok {
		return err.Error()
	}
	code := strings.TrimPrefix(string(e.Code), "missing closing ")
	if e.Code == syntax.ErrMissingParen {
		code = "missing )"
	}
	return code + ": " + e.Expr
}

// allow says whether the agent may be offered to the role.
func (o *offerConstraints) allow(role string, info *mesos.AgentInfo) bool {
	if o == nil {
		return true
	}
	constraints, ok := o.RoleConstraints[role]
	if !ok || len(constraints.Groups) == 0 {
		return true
	}
	for _, group := range constraints.Groups {
		all := true
		for i := range group.AttributeConstraints {
			if !group.AttributeConstraints[i].allow(info) {
				all = false
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}

func (a *attributeConstraint) allow(info *mesos.AgentInfo) bool {
	text, isText, exists := a.Selector.value(info)
	p := &a.Predicate
	switch {
	case p.Exists != nil:
		return exists
	case p.NotExists != nil:
		return !exists
	case p.TextEquals != nil:
		return exists && (!isText || text == p.TextEquals.Value)
	case p.TextNotEquals != nil:
		return !exists || !isText || text != p.TextNotEquals.Value
	case p.TextMatches != nil:
		return exists && (!isText || a.regex.MatchString(text))
	default:
		return !exists || !isText || !a.regex.MatchString(text)
	}
}

// value looks up the attribute that the selector names.
func (s *selector) value(info *mesos.AgentInfo) (text string, isText, exists bool) {
	if s.PseudoattributeType != nil {
		domain := info.GetDomain().GetFaultDomain()
		switch {
		case *s.PseudoattributeType == "HOSTNAME":
			return info.Hostname, true, true
		case domain == nil:
			return "", false, false
		case *s.PseudoattributeType == "REGION":
			return domain.Region.Name, true, true
		default:
			return domain.Zone.Name, true, true
		}
	}
	for i := range info.Attributes {
		if a := &info.Attributes[i]; a.Name == *s.AttributeName {
			return a.GetText().GetValue(), a.Type == mesos.TEXT, true
		}
	}
	return "", false, false
}
