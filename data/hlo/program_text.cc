#include "data/hlo/program_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <numeric>
#include <utility>

#include "data/hlo/hlo.h"

namespace reprise {

int64_t product(const ArrayExtents& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1},
                         std::multiplies<>());
}

std::string ProgramText::add(std::string_view type, const ArrayExtents& shape,
                             const std::string& expression) {
  std::string name = fmt::format("v{}", count_++);
  text_ += fmt::format("{} = {}[{}] {}\n", name, type, fmt::join(shape, ","),
                       expression);
  return name;
}

std::string ProgramText::broadcast(std::string_view type,
                                   const ArrayExtents& shape,
                                   const std::string& scalar) {
  return add(type, shape,
             fmt::format("broadcast({}), dimensions={{}}", scalar));
}

std::string ProgramText::reshape(const std::string& array,
                                 const ArrayExtents& shape) {
  return add(shape, fmt::format("reshape({})", array));
}

std::string ProgramText::transpose(const std::string& array,
                                   const ArrayExtents& shape,
                                   const ArrayExtents& order) {
  ArrayExtents turned;
  for (const int64_t d : order) turned.push_back(shape[static_cast<size_t>(d)]);
  return add(turned, fmt::format("transpose({}), dimensions={{{}}}", array,
                                 fmt::join(order, ",")));
}

std::string ProgramText::reverse(const std::string& array,
                                 const ArrayExtents& shape,
                                 const ArrayExtents& dimensions) {
  return add(shape, fmt::format("reverse({}), dimensions={{{}}}", array,
                                fmt::join(dimensions, ",")));
}

std::string ProgramText::concatenate(const std::vector<std::string>& arrays,
                                     const ArrayExtents& shape,
                                     size_t dimension) {
  if (arrays.size() == 1) return arrays.front();
  return add(shape, fmt::format("concatenate({}), dimensions={{{}}}",
                                fmt::join(arrays, ", "), dimension));
}

std::string ProgramText::module(const std::string& result,
                                const ArrayExtents& shape) const {
  return fmt::format(
      "HloModule expanded\nENTRY e {{\n{}ROOT r = ({}[{}]) tuple({})\n}}\n",
      text_, type_, fmt::join(shape, ","), result);
}

InlinedModule read_program(const std::string& text, std::string_view name,
                           Arithmetic arithmetic) {
  const Result<Module> parsed = parse_hlo(text, std::string(name));
  REPRISE_CHECK(parsed);
  Result<InlinedModule> inlined = inline_calls(*parsed, arithmetic);
  REPRISE_CHECK(inlined);
  return *std::move(inlined);
}

}  // namespace reprise
