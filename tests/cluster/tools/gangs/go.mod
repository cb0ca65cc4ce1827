module launcher.test/gangs

go 1.26.0

// Nothing is built from these: their kinds are defined in a control plane of a test.
require (
	sigs.k8s.io/kueue v0.15.0
	sigs.k8s.io/scheduler-plugins v0.33.5
	volcano.sh/volcano v1.10.0
)
