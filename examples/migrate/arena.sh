#!/bin/sh
# A command line of Arena. arena is a link to launcher, and LAUNCHER_SERVER is its address.
set -e
arena submit tfjob \
    --name=styled \
    --image=busybox:1.36 \
    --workers=2 \
    --ps=1 \
    --role-sequence=ps,worker \
    --clean-task-policy=Running \
    --env=EPOCHS=3 \
    'case "$TF_CONFIG" in *\"type\":\"ps\"*) sleep 1000000 ;; *) echo $EPOCHS epochs ;; esac'
arena get styled
