"""Training with parameter servers: the ps holds the variable, and each worker adds to it."""

import json
import os

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
cluster = tf.train.ClusterSpec({role: config["cluster"][role] for role in ("ps", "worker")})
server = tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"])
if task["type"] == "ps":
    server.join()

with v1.device(v1.train.replica_device_setter(cluster=cluster)):
    steps = v1.get_variable("steps", [], tf.int32, v1.zeros_initializer())
    add = steps.assign_add(1, use_locking=True)
with v1.train.MonitoredTrainingSession(
    master=server.target, is_chief=task["index"] == 0, save_checkpoint_secs=None, save_summaries_steps=None
) as session:
    for _ in range(5):
        session.run(add)
    print("worker", task["index"], "placed", steps.device, "at step", session.run(steps) >= 5)
