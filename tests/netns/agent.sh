#!/bin/bash
# Stands in for ssh under mpirun (plm_rsh_agent): "agent.sh [-option...] ADDRESS COMMAND..." runs COMMAND on that
# emulated host. A host name of its own keeps Open MPI from taking two hosts for one and sharing memory.
while [[ $1 == -* ]]; do shift; done
address=$1
shift
name=reprise-host$((${address##*.} - 10))
exec ip netns exec "$name" unshare --uts bash -c "hostname $name; $*"
