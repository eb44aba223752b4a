// Small files in every dialect of PyTorch's profiler since 2020, written after
// the real ones, and what each must become.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "data/formats/kineto/kineto_reader.h"
#include "data/result.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

struct Imported {
  FileReport report;
  Trace trace;

  const Event& named(std::string_view name) const {
    for (const Event& event : trace.events) {
      if (trace.text(event.name) == name) return event;
    }
    ADD_FAILURE() << "no event " << name;
    static const Event none;
    return none;
  }
  const StreamInfo& stream_of(const Event& event) const {
    return trace.streams[event.stream];
  }
  const CollectiveInfo& collective_of(const Event& event) const {
    static const CollectiveInfo none;
    EXPECT_GE(event.detail, 0);
    return event.detail < 0
               ? none
               : trace.collectives[static_cast<size_t>(event.detail)];
  }
  std::string attributes_of(const Event& event) const {
    return event.attributes < 0
               ? ""
               : trace.strings[static_cast<size_t>(event.attributes)];
  }
};

Imported import_text(std::string text, KinetoOptions options = {}) {
  ReadInput input = read_input(KinetoReader(options), std::move(text));
  EXPECT_TRUE(input.recognized);
  EXPECT_TRUE(input.status.has_value()) << input.status.error().message;
  Imported result{input.report, {}};
  if (input.status) result.trace = input.gather();
  return result;
}

// Of libraries whose kernels have names of their own (HCCL's hcom).
TEST(Kineto, AKernelThatPyTorchCallsACollectiveIsOne) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "hcom_allReduce__503_0_1", "pid": 0,
     "tid": 7, "ts": 10, "dur": 5, "args": {"device": 0, "stream": 7,
     "correlation": 1, "Collective name": "allreduce", "In msg nelems": 4,
     "Out msg nelems": 4, "Group size": 2, "dtype": "Float",
     "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}},
    {"ph": "X", "cat": "kernel", "name": "wait_kernel", "pid": 0, "tid": 7,
     "ts": 20, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 2,
     "Collective name": "wait"}}]})json");
  const Event& kernel = file.named("hcom_allReduce__503_0_1");
  EXPECT_EQ(kernel.kind, EventKind::kCollective);
  EXPECT_EQ(file.collective_of(kernel).kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(file.collective_of(kernel).group, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(file.named("wait_kernel").kind, EventKind::kCompute);
}

// An engine's own all-reduce: ranks wait for each other in it.
TEST(Kineto, AKernelThatRanksMeetInIsACollective) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "_C_custom_ar::all_reduce", "pid": 9,
     "tid": 9, "ts": 1, "dur": 2, "args": {"External id": 1}},
    {"ph": "X", "cat": "kernel",
     "name": "void vllm::cross_device_reduce_1stage<half, 2>(int)", "pid": 0,
     "tid": 7, "ts": 10, "dur": 5, "args": {"device": 0, "stream": 7,
     "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "cross_entropy", "pid": 0, "tid": 7,
     "ts": 20, "dur": 5, "args": {"device": 0, "stream": 7,
     "correlation": 2}}]})json");
  const Event& kernel =
      file.named("void vllm::cross_device_reduce_1stage<half, 2>(int)");
  EXPECT_EQ(kernel.kind, EventKind::kCollective);
  EXPECT_EQ(file.collective_of(kernel).kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(file.named("cross_entropy").kind, EventKind::kCompute);
}

TEST(Kineto, ReadsTheBareArrayOf2020) {
  const Imported file = import_text(R"json([

  {
    "ph": "X", "cat": "Operator", 
    "name": "aten::empty", "pid": 67844, "tid": "4093687616",
    "ts": 1606910596297023, "dur": 13,
    "args": {
       "Input dims": [[], []], "Device": 0, "External id": 2, "Extra arguments": [],
       "Trace name": "PyTorch Profiler", "Trace iteration": 0
    }
  },
  {
    "ph": "X", "cat": "Runtime", 
    "name": "cudaLaunchKernel", "pid": 67844, "tid": "4093687616",
    "ts": 1606910596297030, "dur": 5,
    "args": {
      "cbid": 211, "correlation": 60032,
      "external id": 2, "external ts": 1606910596297023
    }
  },
  {
    "ph": "f", "id": 60032, "pid": 0, "tid": "stream 7", "ts": 1606910596297040,
    "cat": "async", "name": "launch", "bp": "e"
  },
  {
    "ph": "X", "cat": "Kernel", 
    "name": "void wgrad(int, float const*)", "pid": 0, "tid": "stream 7",
    "ts": 1606910596297040, "dur": 379,
    "args": {
  "queued" : 0, "device" : 0, "context" : 1, "stream" : 7,
      "correlation" : 60032, "external id" : 2, "grid" : [ 4, 8, 32 ]
    }
  },
  {
    "name": "thread_name", "ph": "M", "ts": 1606910596288053, "pid": 0, "tid": "stream 7",
    "args": {
      "name": "stream 7"
    }
  },
  {
    "name": "thread_name", "ph": "M", "ts": 1606910596288053, "pid": 67844, "tid": "4093687616",
    "args": {
      "name": "thread 1 (python)"
    }
  },
  {
    "ph": "X", "cat": "Trace", "ts": 1606910596288053, "dur": 1292265,
    "pid": "Traces", "tid": "PyTorch Profiler",
    "name": "PyTorch Profiler (0)",
    "args": {
      "Op count": 0
    }
  }
]
)json");
  EXPECT_EQ(file.report.dialect, "2020 cuda");
  EXPECT_EQ(file.report.events, 3);
  EXPECT_EQ(file.report.kernels, 1);
  EXPECT_EQ(file.report.ignored.at("flow arrow"), 1);
  EXPECT_EQ(file.report.ignored.at("metadata row"), 2);
  EXPECT_EQ(file.report.ignored.at("profiler's span"), 1);
  EXPECT_TRUE(file.report.dropped.empty());
  EXPECT_TRUE(file.report.repaired.empty());
  const Event& op = file.named("aten::empty");
  EXPECT_EQ(op.kind, EventKind::kHostOp);
  EXPECT_EQ(op.start_ns, 1606910596297023000);
  EXPECT_EQ(op.end_ns, 1606910596297036000);
  EXPECT_EQ(op.external_id, 2);
  EXPECT_EQ(op.attributes, -1);
  EXPECT_EQ(file.stream_of(op).kind, StreamKind::kHostThread);
  EXPECT_EQ(file.stream_of(op).process, 67844);
  EXPECT_EQ(file.stream_of(op).number, 4093687616);
  EXPECT_EQ(file.stream_of(op).name, "thread 1 (python)");
  const Event& launch = file.named("cudaLaunchKernel");
  EXPECT_EQ(launch.kind, EventKind::kRuntime);
  EXPECT_EQ(launch.correlation, 60032);
  EXPECT_EQ(launch.stream, op.stream);
  const Event& kernel = file.named("void wgrad(int, float const*)");
  EXPECT_EQ(kernel.kind, EventKind::kCompute);
  EXPECT_EQ(kernel.correlation, 60032);
  EXPECT_EQ(kernel.external_id, 2);
  EXPECT_EQ(file.stream_of(kernel).kind, StreamKind::kDeviceStream);
  EXPECT_EQ(file.stream_of(kernel).device, 0);
  EXPECT_EQ(file.stream_of(kernel).number, 7);
  EXPECT_EQ(file.trace.ranks[0].clock_domain, "epoch");
  EXPECT_EQ(file.trace.ranks[0].process, 67844);
}

TEST(Kineto, AKernelsExternalIdThatRepeatsItsCorrelationIsNone) {
  const Imported file = import_text(R"json({
  "schemaVersion": 1,
  "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
  "traceEvents": [
  {
    "ph": "X", "cat": "kernel", "name": "k", "pid": 1, "tid": 7,
    "ts": 1669783687570192, "dur": 10,
    "args": {
      "External id": 153197,
      "queued": 0, "device": 1, "context": 1,
      "stream": 7, "correlation": 153197
    }
  }
  ],
  "traceName": "x.json"
})json");
  const Event& kernel = file.named("k");
  EXPECT_EQ(kernel.correlation, 153197);
  EXPECT_EQ(kernel.external_id, -1);
  EXPECT_EQ(kernel.rank, 1U);
  EXPECT_EQ(file.trace.environment.at("world_size"), "2");
}

TEST(Kineto, TheTimeBaseMayStandAtTheEnd) {
  const Imported file = import_text(R"json({
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA A100"}, {"id": 1, "name": "other"}
  ],
  "traceEvents": [
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9,
    "ts": 4458676522879.660, "dur": 79.682,
    "args": {
      "External id": 2054,"Record function id": 1914, "Ev Idx": 5
    }
  },
  {
    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
    "ts": 4458676522900.001, "dur": 0.5,
    "args": {
      "External id": 2054, "device": 0, "stream": 7, "correlation": 77, "graph id": 3, "graph node id": 12
    }
  }
  ],
  "baseTimeNanoseconds": 1711964646000000000
}
)json");
  EXPECT_EQ(file.report.dialect, "2024-05+ cuda");
  // 1711964646000000000 + 4458676522879660.
  EXPECT_EQ(file.named("aten::mm").start_ns, 1716423322522879660);
  EXPECT_EQ(file.named("aten::mm").end_ns, 1716423322522959342);
  EXPECT_EQ(file.named("gemm").external_id, 2054);
  EXPECT_EQ(file.named("gemm").graph_node, 12);
  EXPECT_EQ(file.trace.ranks[0].clock_domain, "epoch");
  EXPECT_EQ(file.trace.ranks[0].device, "NVIDIA A100");
}

TEST(Kineto, AbsoluteNanosecondsOf2024KeepTheirThreeDecimals) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
  {
    "ph": "X", "cat": "cpu_op", "name": "a", "pid": 9, "tid": 9,
    "ts": 1712195495505583.123, "dur": 3.279,
    "args": {
      "External id": 174, "Ev Idx": 12173
    }
  }
  ], "displayTimeUnit": "ns"})json");
  EXPECT_EQ(file.report.dialect, "2024-04 cpu");
  EXPECT_EQ(file.named("a").start_ns, 1712195495505583123);
  EXPECT_EQ(file.named("a").end_ns, 1712195495505586402);
}

constexpr std::string_view kSteps = R"json({"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 1, "tid": 1, "ts": 100, "dur": 50, "args": {}},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#5", "pid": 0, "tid": 7, "ts": 140, "dur": 90, "args": {}},
  {"ph": "X", "cat": "cpu_op", "name": "ProfilerStep#5", "pid": 1, "tid": 1, "ts": 150, "dur": 60, "args": {}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 1, "tid": 1, "ts": 900, "dur": 60, "args": {}},
  {"ph": "X", "cat": "Operator", "name": "ProfilerStep#6", "pid": 1, "tid": 1, "ts": 210, "dur": 1, "args": {}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#99999999999", "pid": 1, "tid": 1, "ts": 300, "dur": 1, "args": {}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#x", "pid": 1, "tid": 1, "ts": 300, "dur": 1, "args": {}}
]})json";

TEST(Kineto, AStepIsItsFirstHostAnnotation) {
  const Imported file = import_text(std::string(kSteps));
  ASSERT_EQ(file.trace.steps.size(), 3U);
  EXPECT_EQ(file.report.steps, 3);
  EXPECT_EQ(file.trace.steps[0],
            (StepMark{.step = 4, .start_ns = 100000, .end_ns = 150000}));
  EXPECT_EQ(file.trace.steps[1],
            (StepMark{.step = 5, .start_ns = 150000, .end_ns = 210000}));
  EXPECT_EQ(file.trace.steps[2].step, 6);
  EXPECT_EQ(file.report.ignored.at("device copy of an annotation"), 1);
}

TEST(Kineto, RangesOfTheUserNumberStepsWhereTheProfilersDoNot) {
  const auto range = [](const char* name, int start) {
    return fmt::format(
        R"json({{"ph": "X", "cat": "user_annotation", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": 40}},)json",
        name, start);
  };
  const std::string own = range("train_step 7", 100) +
                          range("eval_batch 1", 150) +
                          range("train_step 8", 200);
  const auto steps_of = [](const std::string& rows) {
    std::vector<int32_t> numbers;
    for (
        const StepMark& mark :
        import_text(
            R"json({"schemaVersion": 1, "traceEvents": [)json" + rows +
            R"json({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]})json")
            .trace.steps)
      numbers.push_back(mark.step);
    return numbers;
  };
  EXPECT_EQ(steps_of(own), (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(steps_of(own + range("ProfilerStep#3", 90)),
            std::vector<int32_t>{3});
}

TEST(Kineto, ListedGroupsAreKeptForCallsThatNameNone) {
  constexpr std::string_view kText = R"json({"schemaVersion": 1,
"distributedInfo": {"backend": "gloo", "rank": 2, "world_size": 4, "pg_config": [
  {"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "3", "pg_desc": "mesh_tp", "ranks": [2, 3]}]},
"traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 10, "dur": 5, "args": {"Input Dims": [[8]], "Input type": ["float"]}}
]})json";
  const Imported file = import_text(std::string(kText));
  std::map<std::string, std::vector<uint32_t>> groups;
  for (const CollectiveInfo& info : file.trace.collectives) {
    if (!info.group.empty()) groups[info.communicator] = info.group;
  }
  EXPECT_EQ(groups, (std::map<std::string, std::vector<uint32_t>>{
                        {"0", {0, 1, 2, 3}}, {"3", {2, 3}}}));
}

constexpr std::string_view kCollectives = R"json({"schemaVersion": 1,
"distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 8, "pg_config": [{"pg_name": "5", "pg_desc": "tp", "ranks": [6, 2]}]},
"traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 40, "ts": 10, "dur": 5, "args": {"External id": 9, "device": 0, "stream": 40, "correlation": 60047, "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 200, "Group size": 2, "dtype": "BFloat16", "In split size": "[]", "Process Group Name": "5", "Process Group Ranks": "[2, 6]", "Seq": 31}},
  {"ph": "X", "cat": "kernel", "name": "void RCCLGeneric()", "pid": 0, "tid": 40, "ts": 20, "dur": 5, "args": {"device": 0, "stream": 40, "correlation": 60048}},
  {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "pid": 0, "tid": 40, "ts": 30, "dur": 5, "args": {"device": 0, "stream": 40, "correlation": 60049}},
  {"ph": "X", "cat": "kernel", "name": "my_ncclish_kernel", "pid": 0, "tid": 7, "ts": 30, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 60050}},
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 40, "dur": 5, "args": {"External id": 1, "Collective name": "wait", "dtype": "Byte", "Group size": 1, "Process Group Ranks": "[]"}},
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 50, "dur": 5, "args": {"External id": 2, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10, "Group size": 4, "Process Group Ranks": "[0, 2, ..., 6]", "Global rank start": 0, "Global rank stride": 2, "Process Group Name": "7"}},
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 60, "dur": 5, "args": {"External id": 3, "Collective name": "broadcast", "Group size": 2, "Process Group Ranks": "[2, ...]", "Process Group Name": "5", "dtype": "Long", "In msg nelems": 3, "Out msg nelems": 3}},
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 70, "dur": 5, "args": {"External id": 4, "Concrete Inputs": ["", "85", "3", "0", "reduce_scatter", "[]", "[]", "8"], "Input type": ["float"], "Input Dims": [[[4, 2048], [2]], [], [], [], [], [], [], []]}},
  {"ph": "X", "cat": "user_annotation", "name": "nccl:all_to_all", "pid": 1, "tid": 1, "ts": 80, "dur": 5, "args": {"External id": 5, "Input Dims": [[6144]], "Input type": ["c10::Half"]}},
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 90, "dur": 5, "args": {"External id": 6, "Collective name": "send", "Dst Rank": 6, "Group size": 2, "Process Group Ranks": "[2, 6]", "dtype": "Int", "In msg nelems": 8, "Out msg nelems": 8, "Process Group Name": "5"}}
]})json";

TEST(Kineto, CollectivesSayWhoDidWhatWithHowMuch) {
  const Imported file = import_text(std::string(kCollectives));
  EXPECT_EQ(file.report.kernels, 4);
  EXPECT_EQ(file.report.collectives, 3);
  const Event& gathered = file.named(
      "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
  EXPECT_EQ(gathered.kind, EventKind::kCollective);
  EXPECT_EQ(gathered.bytes, 400);  // 200 bf16, the larger buffer.
  EXPECT_EQ(gathered.sequence, 31);
  EXPECT_EQ(file.collective_of(gathered),
            (CollectiveInfo{.kind = CollectiveKind::kAllGather,
                            .communicator = "5",
                            .type = PrimitiveType::kBF16,
                            .group = {2, 6},
                            .group_size = 2,
                            .input_elements = 100,
                            .output_elements = 200}));
  const Event& generic = file.named("void RCCLGeneric()");
  EXPECT_EQ(generic.kind, EventKind::kCollective);
  EXPECT_EQ(generic.detail, -1);
  EXPECT_EQ(
      file.collective_of(file.named("ncclKernel_AllReduce_RING_LL_Sum_float("
                                    "ncclWorkElem)"))
          .kind,
      CollectiveKind::kAllReduce);
  EXPECT_EQ(file.named("my_ncclish_kernel").kind, EventKind::kCompute);
}

TEST(Kineto, HostRecordsOfCollectivesAreReadInEveryForm) {
  const Imported file = import_text(std::string(kCollectives));
  const auto record = [&](int64_t id) -> const Event& {
    return *std::find_if(file.trace.events.begin(), file.trace.events.end(),
                         [&](const Event& event) {
                           return event.external_id == id &&
                                  event.kind != EventKind::kCollective;
                         });
  };
  EXPECT_EQ(record(1).kind, EventKind::kHostOp);
  EXPECT_EQ(record(1).detail, -1);  // A wait is no collective.
  // An abbreviated list of ranks: 4 from 0 by 2.
  EXPECT_EQ(file.collective_of(record(2)).group,
            (std::vector<uint32_t>{0, 2, 4, 6}));
  // Or by the group's name.
  EXPECT_EQ(file.collective_of(record(3)).group, (std::vector<uint32_t>{2, 6}));
  EXPECT_EQ(file.collective_of(record(3)).type, PrimitiveType::kS64);
  const CollectiveInfo& scattered = file.collective_of(record(4));
  EXPECT_EQ(scattered.kind, CollectiveKind::kReduceScatter);
  EXPECT_EQ(scattered.communicator, "3");
  EXPECT_EQ(scattered.group_size, 8);
  EXPECT_EQ(scattered.input_elements, 4 * 2048 + 2);
  EXPECT_EQ(record(4).sequence, 85);
  EXPECT_EQ(file.collective_of(record(5)).kind, CollectiveKind::kAllToAll);
  EXPECT_EQ(record(5).kind, EventKind::kAnnotation);
  EXPECT_EQ(record(5).bytes, 6144 * 2);
  // Rank 1 of the group {2, 6}.
  EXPECT_EQ(file.collective_of(record(6)).peer, 6);
}

TEST(Kineto, AProcessGroupThatIsAnAddressNamesNobody) {
  // PyTorch 1.12 to 2.1 with record_shapes.
  const Imported file = import_text(R"json({"schemaVersion": 1,
"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
"traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 10, "dur": 5, "args": {"External id": 1, "Concrete Inputs": ["", "7", "94187305713168", "3", "allreduce", "[]", "[]", "8"], "Input type": ["float"], "Input Dims": [[4096], [], [], [], [], [], [], []]}},
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 20, "dur": 5, "args": {"External id": 2, "Concrete Inputs": ["", "8", "3", "3", "allreduce", "[]", "[]", "8"], "Input type": ["float"], "Input Dims": [[4096], [], [], [], [], [], [], []]}}
]})json");
  EXPECT_EQ(file.trace.collectives[0],
            (CollectiveInfo{.kind = CollectiveKind::kAllReduce,
                            .type = PrimitiveType::kF32,
                            .group_size = 8,
                            .input_elements = 4096}));
  EXPECT_EQ(file.trace.collectives[1].communicator, "3");
  EXPECT_EQ(file.report.repaired,
            (std::map<std::string, int64_t>{
                {"process group told by an address, which no other rank knows: "
                 "its collectives meet by operation, size, type, group size "
                 "and order",
                 1}}));
}

TEST(Kineto, AnAddressInPlaceOfAGroupsNameNamesNobodyEither) {
  const Imported file = import_text(R"json({"schemaVersion": 1,
"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
"traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20, "ts": 10, "dur": 5, "args": {"device": 0, "stream": 20, "correlation": 1, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 2, "Process Group Name": "0x55a9d3f2b8d0", "Process Group Ranks": "[0, 1]"}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20, "ts": 20, "dur": 5, "args": {"device": 0, "stream": 20, "correlation": 2, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 2, "Process Group Name": "0x1f", "Process Group Ranks": "[0, 1]"}}
]})json");
  EXPECT_EQ(file.trace.collectives[0].communicator, "");
  EXPECT_EQ(file.trace.collectives[0].group, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(file.trace.collectives[1].communicator, "0x1f");
}

TEST(Kineto, AGlooCollectiveIsWorkOfItsHostThread) {
  const Imported file = import_text(R"json({"schemaVersion": 1,
"distributedInfo": {"backend": "gloo", "rank": 34, "world_size": 300},
"traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1074, "tid": 3553, "ts": 10, "dur": 173209.713, "args": {"External id": 1025, "Concrete Inputs": [""], "Input type": ["float"], "Input Dims": [[321271]], "Ev Idx": 0}},
  {"ph": "X", "cat": "cpu_op", "name": "torch::autograd::AccumulateGrad", "pid": 1074, "tid": 1074, "ts": 5, "dur": 2, "args": {"External id": 647, "Concrete Inputs": [""], "Input type": ["float"], "Input Dims": [ [1, 703] ], "Fwd thread id": 1, "Sequence number": 7, "Ev Idx": 651}}
], "baseTimeNanoseconds": 1719853884000000000})json");
  const Event& reduced = file.named("gloo:all_reduce");
  EXPECT_EQ(reduced.kind, EventKind::kCollective);
  EXPECT_EQ(file.stream_of(reduced).kind, StreamKind::kHostThread);
  EXPECT_EQ(file.stream_of(reduced).number, 3553);
  EXPECT_EQ(reduced.bytes, 321271 * 4);
  EXPECT_EQ(file.collective_of(reduced).kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(file.collective_of(reduced).type, PrimitiveType::kF32);
  EXPECT_EQ(file.report.collectives, 1);
  EXPECT_EQ(file.report.kernels, 0);
  EXPECT_EQ(file.report.dialect, "2024-05+ cpu");
  ASSERT_EQ(file.report.missing.size(), 1U);
  EXPECT_EQ(file.trace.ranks[0].rank, 34U);
  EXPECT_EQ(file.trace.ranks[0].device, "cpu");
  EXPECT_EQ(file.attributes_of(file.named("torch::autograd::AccumulateGrad")),
            R"({"input_dims":[[1,703]],"input_types":["float"],)"
            R"("concrete_inputs":[""],"sequence_number":7,)"
            R"("forward_thread_id":1})");
}

TEST(Kineto, KernelsOfOneCclAreCollectives) {
  const Imported file = import_text(R"json({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "void oneccl_allreduce_kernel<float>",
     "pid": 0, "tid": 3, "ts": 10, "dur": 5,
     "args": {"device": 0, "stream": 3, "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "gemm_kernel",
     "pid": 0, "tid": 3, "ts": 20, "dur": 5,
     "args": {"device": 0, "stream": 3, "correlation": 2}}
  ]})json");
  EXPECT_EQ(file.named("void oneccl_allreduce_kernel<float>").kind,
            EventKind::kCollective);
  EXPECT_EQ(file.named("gemm_kernel").kind, EventKind::kCompute);
}

// oneCCL runs several kernels a call, all with the call's arguments.
TEST(Kineto, OneOfOneCclsKernelsMovesWhatTheCallDoes) {
  const std::string arguments =
      R"("Collective name": "allreduce", "In msg nelems": 10,
         "Out msg nelems": 10, "Group size": 2, "dtype": "Float",
         "Process Group Name": "3", "Process Group Ranks": "[0, 1]", "Seq": 7)";
  std::string events;
  int64_t start = 10;
  for (const char* name :
       {"oneccl_invoke_barrier", "oneccl_reduce_base<float, 2, 16>",
        "oneccl_reduce_average<float, 8, 32>"}) {
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": 3,
        "ts": {}, "dur": 5, "args": {{"device": 0, "sycl queue": 3,
        "correlation": {}, {}}}}})",
        events.empty() ? "" : ", ", name, start, start, arguments);
    start += 10;
  }
  const Imported file = import_text(R"({"traceEvents": [)" + events + "]}");
  const Event& barrier = file.named("oneccl_invoke_barrier");
  EXPECT_EQ(file.collective_of(barrier).kind, CollectiveKind::kBarrier);
  EXPECT_EQ(file.collective_of(barrier).communicator, "3");
  EXPECT_EQ(barrier.bytes, 0);
  EXPECT_EQ(barrier.sequence, -1);
  const Event& transfer = file.named("oneccl_reduce_base<float, 2, 16>");
  EXPECT_EQ(file.collective_of(transfer).kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(transfer.bytes, 40);
  EXPECT_EQ(transfer.sequence, 7);
  EXPECT_EQ(file.named("oneccl_reduce_average<float, 8, 32>").kind,
            EventKind::kCompute);
}

// Kineto of 2026 puts them beside the calls, on rows of no thread.
TEST(Kineto, RecordsOfEventsAndWaitsAreNoWorkOfAHost) {
  const Imported file = import_text(R"json({"traceEvents": [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 900,
     "tid": 901, "ts": 10, "dur": 2, "args": {"correlation": 5}},
    {"ph": "X", "cat": "cuda_event", "name": "cudaEventRecord", "pid": 0,
     "tid": 7, "ts": 40, "dur": 0.001,
     "args": {"event_id": 3, "stream": 7, "correlation": 5, "device": 0}},
    {"ph": "X", "cat": "xpu_sync", "name": "zeEventHostSynchronize", "pid": -1,
     "tid": 901, "ts": 50, "dur": 9, "args": {"correlation": 6}}
  ]})json");
  EXPECT_EQ(file.report.events, 1);
  EXPECT_EQ(file.report.ignored.at("record of what a call did"), 2);
  ASSERT_EQ(file.trace.streams.size(), 1U);
}

TEST(Kineto, SynchronizationsNameWhatTheyWaitFor) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 20, "ts": 1695835585751488, "dur": 3, "args": {"External id": 5170, "cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 5169, "wait_on_cuda_event_id": 1, "stream": 20, "correlation": 5170, "device": 0, "context": 1}},
  {"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": 0, "ts": 1695835585751490, "dur": 3, "args": {"cuda_sync_kind": "Context Sync", "stream": 4294967295, "correlation": 5171, "device": 0, "context": 1}}
]})json");
  const Event& wait = file.named("Stream Wait Event");
  EXPECT_EQ(wait.kind, EventKind::kSynchronization);
  EXPECT_EQ(wait.correlation, 5170);
  EXPECT_EQ(file.stream_of(wait).number, 20);
  ASSERT_EQ(file.trace.synchronizations.size(), 2U);
  EXPECT_EQ(file.trace.synchronizations[static_cast<size_t>(wait.detail)],
            (SynchronizationInfo{.kind = SynchronizationKind::kStreamWait,
                                 .stream = 20,
                                 .waited_stream = 7,
                                 .waited_correlation = 5169}));
  const Event& device = file.named("Context Sync");
  EXPECT_EQ(file.trace.synchronizations[static_cast<size_t>(device.detail)],
            (SynchronizationInfo{.kind = SynchronizationKind::kDevice}));
  EXPECT_EQ(file.stream_of(device).number, -1);
}

TEST(Kineto, RocmIsToldByItsRuntime) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "cuda_runtime", "name": "hipMemcpyWithStream", "pid": 1, "tid": 1, "ts": 1.5, "dur": 60.204, "args": {"External id": 8, "stream": "0x0", "cid": 153, "correlation": 117, "src": "0x55", "size": "2560", "kind": "1"}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Host -> Device)", "pid": 2, "tid": 0, "ts": 2.5, "dur": 22.441, "args": {"External id": 8, "device": 2, "stream": 0, "correlation": 117, "kind": "HtoD", "bytes": 2560}},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset", "pid": 2, "tid": 0, "ts": 30, "dur": 1, "args": {"device": 2, "stream": 0, "correlation": 118, "bytes": -5}}
], "roctracer_version": 4.1, "baseTimeNanoseconds": 1000})json");
  EXPECT_EQ(file.report.dialect, "2024-05+ rocm");
  const Event& copy = file.named("Memcpy HtoD (Host -> Device)");
  EXPECT_EQ(copy.kind, EventKind::kCopy);
  EXPECT_EQ(copy.bytes, 2560);
  EXPECT_EQ(copy.external_id, 8);
  EXPECT_EQ(file.stream_of(copy).device, 2);
  EXPECT_EQ(file.stream_of(copy).number, 0);
  EXPECT_EQ(file.named("hipMemcpyWithStream").external_id, 8);
  EXPECT_EQ(file.named("Memset").kind, EventKind::kMemset);
  EXPECT_EQ(file.named("Memset").bytes, 0);
}

TEST(Kineto, PythonFunctionsAreKeptUnlessAskedOtherwise) {
  const std::string text = R"json({"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 1, "tid": 1, "ts": 1, "dur": 9, "args": {"Python id": 4}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 2, "dur": 5, "args": {"External id": 1}}
]})json";
  EXPECT_EQ(import_text(text).named("nn.Module: Linear_0").kind,
            EventKind::kAnnotation);
  const Imported without = import_text(
      text,
      {.keep_python_functions = false, .keep_shapes = false, .events = {}});
  EXPECT_EQ(without.report.events, 1);
  EXPECT_EQ(without.report.ignored.at("Python function"), 1);
}

TEST(Kineto, AnMtiaTraceKeepsItsHostSideAndSaysSo) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "mtia_ccp_events", "name": "pe_exe", "pid": 17, "tid": 3910, "ts": 1, "dur": 6900.41, "args": {"stream": 112}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 2, "dur": 5, "args": {"External id": 1}}
]})json");
  EXPECT_EQ(file.report.dropped.at("event of an MTIA accelerator"), 1);
  ASSERT_EQ(file.report.missing.size(), 1U);
  EXPECT_NE(file.report.missing[0].find("MTIA"), std::string::npos);
  EXPECT_EQ(file.report.events, 1);
}

// torch_npu's trace_view.json: what its device did stands under a process of
// that name, without categories.
TEST(Kineto, AnAscendTraceKeepsItsHostSideAndSaysSo) {
  const Imported file = import_text(R"json([
  {"name": "process_name", "pid": 9, "tid": 0, "ph": "M", "args": {"name": "Ascend Hardware"}},
  {"name": "MatMulV2", "pid": 9, "tid": 2, "ts": "1712000000000001.120", "dur": 12.5, "args": {"Task Type": "AI_CORE", "connection_id": 3}, "ph": "X"},
  {"name": "aten::linear", "pid": 7, "tid": 1, "ts": "1712000000000000.120", "dur": 5, "ph": "X", "cat": "cpu_op", "args": {}}
])json");
  EXPECT_EQ(file.report.dropped.at("event of an Ascend NPU"), 1);
  ASSERT_EQ(file.report.missing.size(), 1U);
  EXPECT_NE(file.report.missing[0].find("Ascend NPU is not understood"),
            std::string::npos);
  EXPECT_EQ(file.report.events, 1);
}

TEST(Kineto, OtherChromeJsonIsReadAsFarAsItsEventsAreComplete) {
  const Imported file = import_text(R"json([
{"name": "Task", "cat": "toplevel", "ph": "X", "ts": 5, "dur": 7, "pid": "browser", "tid": "main"},
{"name": "Apart", "ph": "b", "ts": 5, "pid": 1, "tid": 1, "id": 1},
{"name": "Apart", "ph": "e", "ts": 6, "pid": 1, "tid": 1, "id": 1},
{"name": "Value", "ph": "C", "ts": 6, "pid": 1, "tid": 1, "args": {"v": 1}}
])json");
  EXPECT_EQ(file.report.dialect, "chrome");
  const Event& task = file.named("Task");
  EXPECT_EQ(task.kind, EventKind::kOther);
  EXPECT_EQ(file.stream_of(task).name, "main");
  EXPECT_EQ(file.report.dropped.at("part of an asynchronous event"), 2);
  EXPECT_EQ(file.report.ignored.at("counter"), 1);
}

// Thread 1: outer from 5 to 9 us with inner from 6 to 7.5; thread 2: an event
// from 6 to 20 that has its arguments at its begin.
TEST(Kineto, BeginsAndEndsAreOneEvent) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
{"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 1, "ts": 5},
{"ph": "B", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 6, "args": {"Input Dims": [[3]], "Input type": ["float"]}},
{"ph": "B", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 6, "args": {"External id": 4}},
{"ph": "E", "pid": 1, "tid": 1, "ts": 7.5},
{"ph": "E", "pid": 1, "tid": 1, "ts": 9},
{"ph": "E", "pid": 1, "tid": 1, "ts": 10},
{"ph": "B", "cat": "cpu_op", "name": "lasting", "pid": 1, "tid": 1, "ts": 11},
{"ph": "E", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 20}
]})json");
  EXPECT_EQ(file.report.events, 3);
  const Event& outer = file.named("outer");
  EXPECT_EQ(outer.kind, EventKind::kHostOp);
  EXPECT_EQ(outer.end_ns - outer.start_ns, 4000);
  const Event& inner = file.named("inner");
  EXPECT_EQ(inner.end_ns - inner.start_ns, 1500);
  EXPECT_EQ(inner.external_id, 4);
  const Event& reduction = file.named("gloo:all_reduce");
  EXPECT_EQ(reduction.end_ns - reduction.start_ns, 14'000);
  EXPECT_EQ(reduction.bytes, 12);
  EXPECT_EQ(file.report.dropped.at("end of an event that did not begin"), 1);
  EXPECT_EQ(file.report.dropped.at("event that did not end"), 1);
  EXPECT_EQ(file.report.ignored.at("end of an event"), 3);
}

// Kineto itself writes the operators of one process.
TEST(Kineto, AFileOfSeveralRanksIsDoubted) {
  const Imported merged =
      import_text(R"json({"schemaVersion": 1, "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": "[TP-00] 51", "tid": 51, "ts": 1, "dur": 2},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": "[TP-01] 52", "tid": 52, "ts": 1, "dur": 2},
{"ph": "X", "cat": "user_annotation", "name": "mine", "pid": 53, "tid": 53, "ts": 1, "dur": 2}
]})json");
  ASSERT_EQ(merged.report.doubts.size(), 1U);
  EXPECT_TRUE(merged.report.doubts[0].starts_with(
      "2 processes of a job are in this one file ([TP-00] 51, [TP-01] 52)"))
      << merged.report.doubts[0];
  const Imported exported = import_text(R"json({"traceEvents": [
{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "rank 0"}},
{"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "rank 1"}},
{"ph": "X", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
]})json");
  EXPECT_EQ(exported.report.doubts.size(), 1U);
  const Imported one = import_text(R"json({"schemaVersion": 1, "traceEvents": [
{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "rank 0"}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 51, "tid": 51, "ts": 1, "dur": 2},
{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
]})json");
  EXPECT_TRUE(one.report.doubts.empty());
}

TEST(Kineto, AScalarIsOneElement) {
  const Imported file = import_text(R"json({"schemaVersion": 1, "traceEvents": [
{"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 6, "dur": 1, "args": {"Input Dims": [[]], "Input type": ["float"]}},
{"ph": "X", "cat": "user_annotation", "name": "gloo:broadcast", "pid": 1, "tid": 2, "ts": 8, "dur": 1, "args": {"Input Dims": [[]], "Input type": [""]}}
]})json");
  EXPECT_EQ(file.named("gloo:all_reduce").bytes, 4);
  EXPECT_EQ(file.named("gloo:broadcast").bytes, 0);
}

TEST(Kineto, TheOldAutogradProfilersRowsAreOperatorsAndKernels) {
  const Imported file = import_text(R"json([
{"name": "aten::addmm", "ph": "X", "ts": 1.5, "dur": 9, "tid": 1, "pid": "CPU functions", "args": {}},
{"name": "aten::addmm", "ph": "s", "ts": 1.5, "tid": 1, "pid": "CPU functions", "id": 7, "cat": "cpu_to_cuda", "args": {}},
{"name": "sgemm", "ph": "X", "ts": 4, "dur": 5, "tid": 0, "pid": "CUDA functions", "args": {}}
])json");
  EXPECT_EQ(file.report.dialect, "autograd profiler cuda");
  EXPECT_EQ(file.named("aten::addmm").kind, EventKind::kHostOp);
  EXPECT_EQ(file.named("sgemm").kind, EventKind::kCompute);
  ASSERT_FALSE(file.report.missing.empty());
  EXPECT_NE(file.report.missing[0].find("torch.profiler.profile("),
            std::string::npos);
}

TEST(Kineto, LeavesOtherFormatsToTheirReaders) {
  const auto recognizes = [](std::string text) {
    return read_input(kineto_reader(), std::move(text)).recognized;
  };
  EXPECT_FALSE(recognizes(""));
  EXPECT_FALSE(recognizes("  "));
  EXPECT_FALSE(recognizes("SQLite format 3"));
  EXPECT_FALSE(recognizes(R"({"schema": "1.0.1", "nodes": []})"));
  EXPECT_FALSE(recognizes(
      R"([{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad"}},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "pid": 1}, {"ph": "X", "dur": 0}])"));
  EXPECT_FALSE(recognizes(
      R"({"traceEvents": [{"ph": "X", "name": "Comm.byteps.gradient_0", "dur": 1}]})"));
  EXPECT_FALSE(
      recognizes(R"([{"ph": "b", "args": {"datatype": ncclFloat32}}])"));
  EXPECT_TRUE(recognizes("\xEF\xBB\xBF {\"traceEvents\": []}"));
  EXPECT_TRUE(recognizes(R"({"schemaVersion": 1, "deviceProperties": [)" +
                         std::string(70000, ' ')));
}

TEST(Kineto, WithoutEventsItIsRefusedWithAReason) {
  for (const char* text :
       {R"({"schemaVersion": 1, "deviceProperties": []})",
        R"({"traceEvents": []})",
        R"({"traceEvents": [{"ph": "M", "name": "process_name"}]})"}) {
    const ReadInput input = read_input(kineto_reader(), text);
    EXPECT_TRUE(input.status.has_value());
    EXPECT_FALSE(input.report.refused.empty()) << text;
  }
  EXPECT_EQ(read_input(kineto_reader(), "hello").status.error().kind,
            ErrorKind::kParse);
}

}  // namespace
}  // namespace reprise
