"""
Run Frameworks: groups of task roles that start, retry and finish together.

A request:  api.app > api.middleware > api.resources.resource_handler > api.resources.writes > api.validation.frameworks
            > core.manifest (bytes > core.parsing > core.validation > core.defaults) > Store.create
A change:   Store.watch > store.informer > store.work_queue > controller.framework_controller
            > controller.framework_state > core.planning.planner > Store.update_status > controller.pod_control
            > Store.create (pods), Store.delete (pods)
A pod:      node.scheduler > Store.patch (nodeName) > node.agent.agent > node.agent.pod_worker
            > node.pods.pod_lifecycle > node.runtime.process_runtime > node.shim (a process of its own)
            > the container's program > node.shim > node.runtime.process_runtime > node.pods.pod_status
            > Store.update_status
On Kubernetes a request passes api.proxy > core.manifest > kube-apiserver > api.webhook. A change takes the same path as
in local mode, through store.kubernetes, on the replica that controller.leader_election elects. The cluster runs the
pods.

Inside core.planning: planner (the Framework) > attempt_state (its tasks and pods) > task_transitions (the next step of
one task), with start_order, completion_policy, retry, rescale and core.failures for the rules, core.status for the
record, core.pods.pod_template for pods, and core.serialization for what users read.

``cli`` uses the HTTP API like any client; ``settings`` reads flags, environment and config file; ``wiring`` composes
the components.

Read ``core.planning.planner`` first; the rest feeds it or carries out what it returns.
"""
