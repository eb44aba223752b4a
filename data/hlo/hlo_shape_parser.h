// Shapes of HLO text: `f32[2,<=3]{1,0:T(8,128)}`, `(f32[], token[])`.
#pragma once

#include "data/hlo/hlo_lexer.h"
#include "data/hlo/module.h"

namespace reprise {

/// Reads one shape; false, with the lexer's error set, when the text is no
/// shape or when element counts or bytes do not fit in int64. A layout must
/// follow its `]` directly.
bool parse_shape(HloLexer* lexer, Shape* shape);

/// True when a shape, not a name, stands at the cursor (`f32[`, `(`).
bool at_shape(const HloLexer& lexer);

}  // namespace reprise
