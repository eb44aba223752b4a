// print_module FILE [--rename] [--no-metadata] [--operand-shapes] [--cost]:
// canonical text on stdout. With --rename every instruction gets a new name
// first, so that no stored text can survive.
#include <cstdio>
#include <string_view>

#include "data/hlo/cost_analysis.h"
#include "data/hlo/hlo.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto module = reprise::parse_hlo_file(argv[1]);
  if (!module) {
    std::fprintf(stderr, "%s\n", module.error().message.c_str());
    return 3;
  }
  reprise::PrintOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--no-metadata") options.metadata = false;
    if (flag == "--operand-shapes") options.operand_shapes = true;
    if (flag == "--cost") {
      // One trip a loop, as XLA counts.
      const auto cost =
          reprise::CostAnalysis(*module).computation(module->entry);
      std::printf("%.17g %.17g %.17g\n", cost.flops, cost.transcendentals,
                  cost.bytes);
      return 0;
    }
    if (flag != "--rename") continue;
    int count = 0;
    for (auto& computation : module->computations) {
      for (auto& instruction : computation.instructions) {
        instruction.name = fmt::format("r.{}", count++);
      }
    }
  }
  const std::string text = reprise::print_hlo(*module, options);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}
