"""Data-parallel training with tf.distribute.MultiWorkerMirroredStrategy; the cluster is that of TF_CONFIG."""

import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weight = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)


def step() -> tf.Tensor:
    """Each replica contributes 1 plus its number; all of them apply the mean of the sum."""

    def replica() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        share = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, share)
        weight.assign_add(total)
        return total

    return strategy.run(replica)


train = tf.function(step)
for _ in range(3):
    train()
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(task["type"], task["index"], "of", strategy.num_replicas_in_sync, "has weight", float(weight.numpy()))
