// Any bytes as the files of one rank of a dPRO trace, parted by lines "----":
// trace, comm, comm_detail, dag.gml, gradient names, metadata.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/formats/dpro/dpro_rank.h"
#include "tests/fuzz/check_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  constexpr std::string_view kBorder = "\n----\n";
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::array<std::string, 6> files;
  for (std::string& file : files) {
    const size_t end = std::min(text.find(kBorder), text.size());
    file = text.substr(0, end);
    text.remove_prefix(std::min(end + kBorder.size(), text.size()));
  }
  const auto gml = parse_gml(files[3]);
  const DproGraph graph = gml ? DproGraph(*gml) : DproGraph();
  DproTensors tensors;
  tensors.learn_names(files[4]);
  tensors.learn_ids(files[4]);
  tensors.learn_sizes(files[5]);
  TraceSpool spool;
  FileReport report;
  RankInfo info;
  info.rank = 0;
  const uint32_t rank = spool.add_rank(info);
  DproOperations operations(spool, report, rank, 0, graph);
  (void)operations.read(*memory_source(files[0]));
  operations.finish();
  DproCommunication communication(spool, report, rank, operations, tensors);
  (void)communication.read_rows(*memory_source(files[1]));
  (void)communication.read_chunks(*memory_source(files[2]));
  communication.finish();
  DproRank(spool, report, rank, 2, graph, tensors)
      .add(operations, communication);
  check_trace(gather_spools(std::span(&spool, 1)).value());
  return 0;
}
