"""
Run Frameworks: groups of task roles that start, retry and finish together.

A request:  api.app > api.guard > api.limits > api.resources > api.writing > api.frameworks
            > core.manifest (bytes > core.reading > core.checking > core.validate > core.defaults) > Store.create
A change:   Store.watch > store.informer > controller.queue > controller.loop > controller.desk > core.plan
            > Store.update_status > controller.hands > Store.create (pods), Store.delete (pods)
A pod:      node.scheduling.scheduler > Store.patch (nodeName) > node.pods.agent > node.pods.worker > node.pods.podlife
            > node.process > node.keeper (a process of its own) > the container's program > node.keeper > node.process
            > node.pods.podstatus > Store.update_status
On a cluster a request goes api.door > core.manifest > kube-apiserver > api.webhook; a change the same way as here, over
store.kube and while controller.leader leads; and pods are the cluster's own matter.

Inside the plan: core.plan (the Framework) > core.board (its tasks and pods) > core.tasks (one task's next step), with
core.order, core.completion, core.retry, core.rescale and core.failures for the rules, core.status for the record,
core.materialize for pods, and core.wire and core.wirestatus for what users see.

``cli`` talks to the API like any client; ``settings`` reads flags, environment and config file; ``wiring`` puts it all
together.

Read ``core.plan`` first; the rest feeds it or carries out what it says.
"""
