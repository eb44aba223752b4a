// Parts of an HLO proto as HLO text: shapes, literals, strings, shardings and
// the attributes of instructions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/hlo/proto/hlo_proto_values.h"
#include "data/result.h"

namespace reprise {

/// Appends a ShapeProto. Errors: kUnsupported (element type), kParse (tuples
/// nested too deep, damaged).
Status append_shape_text(std::string_view proto, bool with_layout,
                         std::string& out);

/// Appends a LiteralProto's values as they stand in `constant(…)`; `{...}` for
/// more elements than `max_elements` and for types of fewer than 8 bits.
Status append_literal_text(std::string_view proto, int64_t max_elements,
                           std::string& out);

/// A name with what text cannot hold in one replaced by '_', as XLA does.
std::string hlo_name(std::string_view name);

/// In double quotes, escaped as XLA does.
std::string quoted(std::string_view text);

/// What XLA writes before an element of a long list: ", ", a comment with its
/// place before every fifth, nothing before the first.
std::string separator(size_t place);

/// `{devices=[2,1]0,1}` of an OpSharding; empty when it has no text.
std::string sharding_text(std::string_view proto);

/// `{a="b",c="d"}` of FrontendAttributes, by key; empty without any.
std::string frontend_attributes_text(std::string_view proto);

/// Appends all of an instruction's `, name=value`, in XLA's order. Errors:
/// kParse, kUnsupported.
Status append_attributes(const HloProtoInstruction& instruction,
                         std::string& out);

}  // namespace reprise
