// Names what stands in an input that is no trace, so that a refusal says what
// was seen and not only what was not.
#pragma once

#include <string>

#include "data/io/byte_source.h"

namespace reprise {

/// Returns words such as "an empty file", "an ELF binary" or "JSON without
/// traceEvents (it has schema, nodes)", with what to do where that is known.
std::string words_for_content(const InputFile& input);

}  // namespace reprise
