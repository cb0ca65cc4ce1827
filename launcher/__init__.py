"""
Run Frameworks: groups of task roles that start, retry and finish together.

A request:  core.manifest (bytes > core.reading > core.checking > core.validate > core.defaults) > Store.create
A change:   Store.watch > store.informer > controller.queue > controller.loop > controller.desk > core.plan
            > Store.update_status > controller.hands > Store.create (pods), Store.delete (pods)

Inside the plan: core.plan (the Framework) > core.board (its tasks and pods) > core.tasks (one task's next step), with
core.order, core.completion, core.retry, core.rescale and core.failures for the rules, core.status for the record,
core.materialize for pods, and core.wire and core.wirestatus for what users see.

Read ``core.plan`` first; the rest feeds it or carries out what it says.
"""
