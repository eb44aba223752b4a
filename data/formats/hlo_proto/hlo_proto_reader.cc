#include "data/formats/hlo_proto/hlo_proto_reader.h"

#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/hlo/proto/hlo_proto.h"

namespace reprise {
namespace {

/// Protocol Buffers know no larger message.
constexpr int64_t kLargestBytes = int64_t{2} << 30;

/// "a.zip:dump/module_1.jit_f.hlo.pb.xz" -> "module_1.jit_f".
std::string module_name(std::string_view input) {
  const size_t start = input.find_last_of("/:");
  if (start != input.npos) input.remove_prefix(start + 1);
  for (const std::string_view ending : {".xz", ".gz", ".pb", ".hlo"}) {
    if (input.ends_with(ending)) input.remove_suffix(ending.size());
  }
  return std::string(input);
}

class HloProtoReader : public TraceReader {
 public:
  std::string_view kind() const override { return "hlo-proto"; }

  bool recognizes(const InputFile& input) const override {
    return starts_like_hlo_proto(input.head);
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    const auto bytes = read_all(*input.source, kLargestBytes);
    if (!bytes) return pass(bytes.error());
    const auto module = parse_hlo_proto(*bytes, input.name);
    if (!module) {
      report.refused = "damaged HLO proto: " + module.error().message;
      return {};
    }
    report.dialect = module->name;
    spool.add_module(module_name(input.name), print_hlo(*module));
    return {};
  }
};

}  // namespace

const TraceReader& hlo_proto_reader() {
  static const HloProtoReader reader;
  return reader;
}

}  // namespace reprise
