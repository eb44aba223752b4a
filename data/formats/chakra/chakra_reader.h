// Chakra execution traces (MLCommons; ASTRA-sim's workloads): protobuf ".et"
// files of every schema, their JSON print and the JSON of workload generators.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "chakra". Nodes become events on the streams "cpu", "compute" and
/// "communication" (several where nodes tell which follow which), or on the
/// threads and streams that nodes name ("tid"); external_id is the node's id,
/// and control and data dependencies become EventDependencies. Ids that no node
/// has are counted as dropped.
///
/// What counts are durations and dependencies. Where nodes have no start, each
/// starts where the one before it in the file and on its stream, and those that
/// it depends on, ended, from 0 on, and the rank's clock domain is "none". The
/// rank is left to the file's name.
const TraceReader& chakra_reader();

}  // namespace reprise
