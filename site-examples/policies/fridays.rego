# Nothing is torn down on a Friday: who would look after it on the weekend?
package trueup.fridays

import rego.v1

input_version := 1

taken_down := {"destroy", "redeploy"}

day := time.weekday(time.parse_ns("2006-01-02", input.options.as_of))

deny contains message if {
	day == "Friday"
	some change in input.changes
	change.kind in taken_down
	change.blocked == null
	not change.excluded
	message := sprintf("%s would be torn down on a Friday", [change.node])
}
