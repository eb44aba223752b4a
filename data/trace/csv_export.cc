#include "data/trace/csv_export.h"

#include <fmt/format.h>

#include <iterator>
#include <map>

#include "data/io/printable_text.h"

namespace reprise {
std::string csv_of(const Trace& trace) {
  std::map<uint32_t, std::string> hosts;
  for (const RankInfo& rank : trace.ranks)
    hosts[rank.rank] = csv_field(rank.host);
  std::vector<std::string> names, streams;
  for (const std::string& text : trace.strings)
    names.push_back(csv_field(text));
  for (const StreamInfo& stream : trace.streams)
    streams.push_back(csv_field(stream.name));
  const std::string none;
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(
      out,
      "rank,host,stream,kind,step,unit,name,enqueue_ns,start_ns,end_ns,bytes,"
      "correlation,external_id,graph_node,sequence,detail,attributes\n");
  for (const Event& event : trace.events) {
    fmt::format_to(
        out, "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", event.rank,
        hosts[event.rank], streams[event.stream], name_of(event.kind),
        event.step, event.unit, names[index_of(event.name)], event.enqueue_ns,
        event.start_ns, event.end_ns, event.bytes, event.correlation,
        event.external_id, event.graph_node, event.sequence, event.detail,
        event.attributes < 0 ? none
                             : names[static_cast<size_t>(event.attributes)]);
  }
  return fmt::to_string(text);
}

}  // namespace reprise
