package doctor_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// query answers IAM and STS.
func (a *live) query(w http.ResponseWriter, form url.Values) {
	w.Header().Set("Content-Type", "text/xml")
	if form.Get("Action") == "GetCallerIdentity" {
		fmt.Fprintf(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:sts::%s:assumed-role/admin/me</Arn><UserId>x</UserId><Account>%s</Account></GetCallerIdentityResult></GetCallerIdentityResponse>", account, account)
		return
	}
	if action := form.Get("Action"); strings.HasPrefix(action, "Put") || strings.HasPrefix(action, "Update") {
		if !a.writeIAM(form) {
			fault(w, "Query.", http.StatusNotFound, "NoSuchEntity")
			return
		}
		fmt.Fprintf(w, "<%sResponse></%sResponse>", action, action)
		return
	}
	if form.Get("Action") == "ListAttachedRolePolicies" {
		fmt.Fprint(w, "<ListAttachedRolePoliciesResponse><ListAttachedRolePoliciesResult><IsTruncated>false</IsTruncated></ListAttachedRolePoliciesResult></ListAttachedRolePoliciesResponse>")
		return
	}
	if form.Get("Action") == "ListRoles" {
		a.listRoles(w, form.Get("PathPrefix"))
		return
	}
	var out strings.Builder
	out.WriteString("<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><IsTruncated>false</IsTruncated><EvaluationResults>")
	for _, action := range members(form, "ActionNames") {
		fmt.Fprintf(&out, "<member><EvalActionName>%s</EvalActionName><EvalResourceName>*</EvalResourceName><EvalDecision>implicitDeny</EvalDecision><ResourceSpecificResults>", action)
		for _, on := range members(form, "ResourceArns") {
			decision := "implicitDeny"
			if a.allows(form.Get("PolicySourceArn"), action, on) {
				decision = "allowed"
			}
			fmt.Fprintf(&out, "<member><EvalResourceName>%s</EvalResourceName><EvalResourceDecision>%s</EvalResourceDecision></member>", on, decision)
		}
		out.WriteString("</ResourceSpecificResults></member>")
	}
	out.WriteString("</EvaluationResults></SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>")
	_, _ = io.WriteString(w, out.String())
}

func (a *live) listRoles(w io.Writer, prefix string) {
	fmt.Fprint(w, "<ListRolesResponse><ListRolesResult><IsTruncated>false</IsTruncated><Roles>")
	for _, r := range a.of("AWS::IAM::Role") {
		if path := r.properties["Path"].(string); strings.HasPrefix(path, prefix) {
			fmt.Fprintf(w, "<member><Path>%s</Path><RoleName>%s</RoleName><RoleId>AROA</RoleId><Arn>%s</Arn><CreateDate>2026-11-01T00:00:00Z</CreateDate><AssumeRolePolicyDocument>%s</AssumeRolePolicyDocument></member>",
				path, roleName(r), roleARN(r), url.QueryEscape(text(r.properties["AssumeRolePolicyDocument"])))
		}
	}
	fmt.Fprint(w, "</Roles></ListRolesResult></ListRolesResponse>")
}

func members(form url.Values, name string) []string {
	var all []string
	for i := 1; form.Has(fmt.Sprintf("%s.member.%d", name, i)); i++ {
		all = append(all, form.Get(fmt.Sprintf("%s.member.%d", name, i)))
	}
	return all
}

// allows evaluates the deployed role's policies.
func (a *live) allows(arn, action, on string) bool {
	for _, r := range a.of("AWS::IAM::Role") {
		if roleARN(r) != arn {
			continue
		}
		for _, p := range r.properties["Policies"].([]any) {
			for _, s := range p.(map[string]any)["PolicyDocument"].(map[string]any)["Statement"].([]any) {
				statement := s.(map[string]any)
				if anyMatches(statement["Action"].([]any), action) && anyMatches(statement["Resource"].([]any), on) {
					return true
				}
			}
		}
	}
	return false
}

func anyMatches(patterns []any, s string) bool {
	return slices.ContainsFunc(patterns, func(p any) bool {
		re, _ := expressions.LoadOrStore(p, sync.OnceValue(func() *regexp.Regexp {
			return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(p.(string)), `\*`, ".*") + "$")
		}))
		return re.(func() *regexp.Regexp)().MatchString(s)
	})
}

// expressions are the patterns of policies, compiled once.
var expressions sync.Map

// s3 answers what is asked of the bucket.
func (a *live) s3(w http.ResponseWriter, query string) {
	buckets := a.of("AWS::S3::Bucket")
	if len(buckets) == 0 {
		fault(w, "GET ", http.StatusNotFound, "NoSuchBucket")
		return
	}
	b := buckets[0].properties
	get := func(path ...string) any {
		var v any = b
		for _, name := range path {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		return v
	}
	what, _, _ := strings.Cut(query, "&")
	switch strings.TrimSuffix(what, "=") {
	case "encryption":
		rules(w, "ServerSideEncryptionConfiguration", get("BucketEncryption", "ServerSideEncryptionConfiguration"), map[string]string{"ServerSideEncryptionByDefault": "ApplyServerSideEncryptionByDefault"})
	case "publicAccessBlock":
		fmt.Fprint(w, "<PublicAccessBlockConfiguration>"+inXML(get("PublicAccessBlockConfiguration"), nil)+"</PublicAccessBlockConfiguration>")
	case "ownershipControls":
		rules(w, "OwnershipControls", get("OwnershipControls", "Rules"), nil)
	case "lifecycle":
		rules(w, "LifecycleConfiguration", get("LifecycleConfiguration", "Rules"), map[string]string{"Id": "ID"})
	case "policy":
		fmt.Fprint(w, text(a.of("AWS::S3::BucketPolicy")[0].properties["PolicyDocument"]))
	default:
		fault(w, "GET ", http.StatusNotImplemented, "NotImplemented")
	}
}

func rules(w io.Writer, root string, list any, names map[string]string) {
	var out strings.Builder
	items, _ := list.([]any)
	for _, rule := range items {
		out.WriteString("<Rule>" + inXML(rule, names) + "</Rule>")
	}
	fmt.Fprintf(w, "<%s>%s</%s>", root, out.String(), root)
}

func inXML(v any, names map[string]string) string {
	m, ok := v.(map[string]any)
	if !ok {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(fmt.Sprint(v)))
		return b.String()
	}
	var out strings.Builder
	for name, value := range m {
		if other, renamed := names[name]; renamed {
			name = other
		}
		fmt.Fprintf(&out, "<%s>%s</%s>", name, inXML(value, names), name)
	}
	return out.String()
}
