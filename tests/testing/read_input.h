// Reads bytes by one reader, as import does, for tests and fuzz targets.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "data/file.h"
#include "data/formats/reader.h"
#include "data/trace/trace_spool.h"

namespace reprise {

struct ReadInput {
  bool recognized = false;
  Status status;
  FileReport report;
  TraceSpool spool;

  /// The trace of this input alone; ranks that it does not know become 0, 1 …
  Trace gather() {
    for (uint32_t rank = 0; rank < spool.rank_count(); ++rank) {
      if (spool.rank(rank).rank == kUnknownRank) spool.rank(rank).rank = rank;
    }
    return gather_spools(std::span(&spool, 1)).value();
  }
};

/// `path` is for readers that read what lies on disk there.
inline ReadInput read_input(const TraceReader& reader, std::string bytes,
                            std::string name = "input", std::string path = {}) {
  constexpr size_t kHead = 64 << 10;
  InputFile input;
  input.name = std::move(name);
  input.path = std::move(path);
  input.head = bytes.substr(0, std::min(kHead, bytes.size()));
  const std::unique_ptr<ByteSource> source = memory_source(std::move(bytes));
  input.source = source.get();
  ReadInput result;
  result.recognized = reader.recognizes(input);
  result.status = reader.read(input, result.spool, result.report);
  return result;
}

/// The nth event of this name, from 0; null if there are not so many.
inline const Event* find_event(const Trace& trace, std::string_view name,
                               size_t nth = 0) {
  for (const Event& event : trace.events) {
    if (trace.text(event.name) == name && nth-- == 0) return &event;
  }
  return nullptr;
}

/// The first input of a file on disk whose name ends so, decompressed; "" if
/// there is none.
inline std::string bytes_of_member(const std::string& path,
                                   std::string_view ending) {
  std::string bytes;
  const Status visited = visit_inputs(path, [&](InputFile& input) -> Status {
    if (!bytes.empty() || !input.name.ends_with(ending)) return {};
    Result<std::string> all = read_all(*input.source, int64_t{1} << 30);
    if (!all) return tl::unexpected(all.error());
    bytes = std::move(*all);
    return {};
  });
  return visited ? bytes : std::string();
}

}  // namespace reprise
