// HLO protos (HloProto, HloModuleProto, HloSnapshot), as XLA dumps them, keeps
// them in profiles and sends them between processes. A proto is first spelled
// as the text that XLA prints for it and then parsed like any text, so that
// both ways into a Module pass the same checks.
//
// What text has no word for here, and is left out: original values, profile
// info, buffer assignments, shardings of the new named kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

struct HloProtoOptions {
  /// Constants of more elements are elided, `{...}`.
  int64_t max_literal_elements = int64_t{1} << 20;
};

/// Whether a file that starts with `head` holds an HLO proto: a computation
/// whose first instruction has a known opcode.
bool starts_like_hlo_proto(std::string_view head);

/// Spells the proto as HLO text. Errors: kParse (not such a proto, damaged:
/// where); kUnsupported (an element type that text cannot name).
Result<std::string> hlo_proto_text(std::string_view bytes,
                                   std::string_view file = "<proto>",
                                   const HloProtoOptions& options = {});

/// Reads the proto. Errors: as hlo_proto_text and parse_hlo (lines are those of
/// the text).
Result<Module> parse_hlo_proto(std::string_view bytes,
                               std::string_view file = "<proto>",
                               const HloProtoOptions& options = {});

/// Reads a file of HLO text or an HLO proto, told by its content.
Result<Module> read_hlo_file(const std::string& path);

}  // namespace reprise
