// Each reader adds its line here: the more certain its magic, the earlier.
#include <algorithm>

#include "data/formats/byteps/byteps_reader.h"
#include "data/formats/bytescheduler/bytescheduler_reader.h"
#include "data/formats/chakra/chakra_reader.h"
#include "data/formats/dpro/dpro_reader.h"
#include "data/formats/hlo_proto/hlo_proto_reader.h"
#include "data/formats/horovod/horovod_reader.h"
#include "data/formats/kineto/kineto_reader.h"
#include "data/formats/nccl_inspector/nccl_inspector_reader.h"
#include "data/formats/nccl_profiler/nccl_profiler_reader.h"
#include "data/formats/nccl_tests/nccl_tests_reader.h"
#include "data/formats/nsys/nsys_reader.h"
#include "data/formats/nsys_gpu_trace/nsys_gpu_trace_reader.h"
#include "data/formats/nsys_jax/nsys_jax_reader.h"
#include "data/formats/process_shard/process_shard_reader.h"
#include "data/formats/pytorch_et/pytorch_et_reader.h"
#include "data/formats/reader.h"
#include "data/formats/xplane/xplane_reader.h"

namespace reprise {

const std::vector<const TraceReader*>& trace_readers() {
  static const std::vector<const TraceReader*> readers = {
      &process_shard_reader(),  &nsys_reader(),
      &xplane_reader(),         &hlo_proto_reader(),
      &nsys_gpu_trace_reader(), &nsys_jax_reader(),
      &chakra_reader(),         &pytorch_et_reader(),
      &nccl_profiler_reader(),  &nccl_inspector_reader(),
      &nccl_tests_reader(),     &horovod_reader(),
      &bytescheduler_reader(),  &byteps_reader(),
      &kineto_reader(),
  };
  return readers;
}

std::vector<const TraceReader*> trace_readers_with_shapes() {
  std::vector<const TraceReader*> readers = trace_readers();
  std::replace(readers.begin(), readers.end(), &kineto_reader(),
               &kineto_reader_with_shapes());
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
