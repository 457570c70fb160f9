package doctor

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// alarmPages bounds the listing: a hundred alarms a page.
const alarmPages = 20

// alarmKinds are the types of alarms that the templates make.
var alarmKinds = []string{"AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"}

func (l *look) alarms(ctx context.Context) {
	found, err := l.liveAlarms(ctx)
	if err != nil {
		l.unseen(PartAlarms, "all alarms", err)
		return
	}
	for _, w := range l.resources(alarmKinds...) {
		name := w.text("AlarmName")
		alarm, ok := found[name]
		if !ok || alarm.kind != w.kind {
			l.missing(PartAlarms, w, name, putAlarm(w, nil))
			continue
		}
		l.compare(PartAlarms, w, name, alarm.tree, func(d difference) string { return mendAlarm(w, alarm.tree, d) })
	}
}

type liveAlarm struct {
	kind string
	tree any
}

func (l *look) liveAlarms(ctx context.Context) (map[string]liveAlarm, error) {
	prefix := stackName(l.Env, "")
	in := &cloudwatch.DescribeAlarmsInput{
		AlarmNamePrefix: &prefix, MaxRecords: aws.Int32(100), AlarmTypes: []types.AlarmType{types.AlarmTypeMetricAlarm, types.AlarmTypeCompositeAlarm},
	}
	found := map[string]liveAlarm{}
	for range alarmPages {
		out, err := l.Account.Alarms.DescribeAlarms(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, a := range out.MetricAlarms {
			found[aws.ToString(a.AlarmName)] = liveAlarm{alarmKinds[0], tree(a)}
		}
		for _, a := range out.CompositeAlarms {
			found[aws.ToString(a.AlarmName)] = liveAlarm{alarmKinds[1], tree(a)}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("more than %d alarms begin with %s", 100*alarmPages, prefix)
}
