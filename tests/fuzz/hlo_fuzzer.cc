// Any bytes: an error or a module, and then everything that reads modules.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/draw/hlo_graph.h"
#include "data/hlo/hlo.h"
#include "data/hlo/hlo_verifier.h"
#include "data/hlo/module_summary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  const auto module = parse_hlo({reinterpret_cast<const char*>(data), size});
  if (!module) return 0;
  const std::string text = print_hlo(*module);
  const auto again = parse_hlo(text);
  if (!again || print_hlo(*again) != text || !verify(*module)) std::abort();
  summarize(*module);
  summarize_instructions(*module, module->entry);
  const auto inlined = inline_calls(*module);
  if (inlined && !verify(*inlined)) std::abort();
  const auto around = graph_around(
      *module, module->entry_computation().instructions[0].name, 3);
  if (around) graph_svg(*around);
  const auto callee =
      graph_of_computation(*module, module->computations[0].name);
  if (callee) graph_dot(*callee);
  return 0;
}
