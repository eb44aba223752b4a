// Each reader adds its line here: the more certain its magic, the earlier.
#include "data/formats/byteps_reader.h"
#include "data/formats/bytescheduler_reader.h"
#include "data/formats/chakra_reader.h"
#include "data/formats/dpro_reader.h"
#include "data/formats/hlo_proto_reader.h"
#include "data/formats/horovod_reader.h"
#include "data/formats/kineto_reader.h"
#include "data/formats/nccl_inspector_reader.h"
#include "data/formats/nccl_profiler_reader.h"
#include "data/formats/nccl_tests_reader.h"
#include "data/formats/nsys_jax_reader.h"
#include "data/formats/nsys_reader.h"
#include "data/formats/process_shard_reader.h"
#include "data/formats/pytorch_et_reader.h"
#include "data/formats/reader.h"
#include "data/formats/xplane_reader.h"

namespace reprise {

const std::vector<const TraceReader*>& trace_readers() {
  static const std::vector<const TraceReader*> readers = {
      &process_shard_reader(),  &nsys_reader(),
      &xplane_reader(),         &hlo_proto_reader(),
      &nsys_jax_reader(),       &chakra_reader(),
      &pytorch_et_reader(),     &nccl_profiler_reader(),
      &nccl_inspector_reader(), &nccl_tests_reader(),
      &horovod_reader(),        &bytescheduler_reader(),
      &byteps_reader(),         &kineto_reader(),
  };
  return readers;
}

const std::vector<const DirectoryReader*>& directory_readers() {
  static const std::vector<const DirectoryReader*> readers = {
      &process_shards_reader(),
      &dpro_reader(),
  };
  return readers;
}

}  // namespace reprise
