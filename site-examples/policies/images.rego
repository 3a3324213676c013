# Only images of this list are deployed.
package trueup.images

import rego.v1

input_version := 1

approved := {"ubuntu-22.04", "ubuntu-24.04"}

deny contains message if {
	some step in input.steps
	image := step.parameters.image
	not image in approved
	message := sprintf("%s would be deployed with the image %s, which is not approved", [step.node, image])
}
