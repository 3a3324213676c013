# The machines that one plan tears down stand in one rack, so that a mistake takes no more than that.
package trueup.racks

import rego.v1

input_version := 1

torn_down contains change if {
	some change in input.changes
	change.destructive
	change.blocked == null
	not change.excluded
	not change.shown_only
	change.kind != "create"
}

racks := {change.rack | some change in torn_down}

deny contains message if {
	count(racks) > 1
	message := concat("", ["machines of several racks are torn down: ", concat(", ", sort(racks))])
}

warn contains message if {
	some change in torn_down
	not change.rack
	message := sprintf("%s stands in no rack", [change.node])
}
