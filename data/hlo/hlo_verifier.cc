#include "data/hlo/hlo_verifier.h"

namespace reprise {

bool same_dimensions(const Shape& a, const Shape& b) {
  if (a.type != b.type || a.dimensions != b.dimensions) return false;
  if (a.elements.size() != b.elements.size()) return false;
  for (size_t i = 0; i < a.elements.size(); ++i) {
    if (!same_dimensions(a.elements[i], b.elements[i])) return false;
  }
  return true;
}

Status verify_instruction(const Module&, const Computation&,
                          const Instruction&) {
  return {};
}
Status verify_aliases(const Module&) { return {}; }
Status verify(const Module&) { return {}; }

}  // namespace reprise
