// Tables for people, with counts in three digits; JSON and CSV with every
// digit.
#include "cli/hlo_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxCollectiveRows = 25;

std::string count_text(double count) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (count >= 999.5 && unit + 1 < std::size(kUnits)) {
    count /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", count, kUnits[unit]);
}

/// A step's tuple of a thousand arrays would widen every row of a table.
std::string shown_shape(const std::string& shape) {
  constexpr size_t kMost = 60;
  return shape.size() <= kMost ? shape : shape.substr(0, kMost - 1) + "…";
}

Json cost_json(const InstructionCost& cost) {
  return {{"flops", cost.flops},
          {"transcendentals", cost.transcendentals},
          {"bytes", cost.bytes}};
}

Table opcode_table(const ModuleSummary& summary) {
  Table table{
      {"opcode", "count", "flops", "transcendentals", "bytes"}, {}, {0}};
  for (const OpcodeSummary& row : summary.opcodes) {
    table.rows.push_back(
        {row.opcode, std::to_string(row.count), count_text(row.cost.flops),
         count_text(row.cost.transcendentals), bytes_text(row.cost.bytes)});
  }
  return table;
}

/// Collectives that agree in everything but their names share a row; largest
/// total first.
Table collective_table(const ModuleSummary& summary, size_t* rows_left_out) {
  struct Row {
    int64_t count = 0;
    int64_t executions = 0;
    double total_bytes = 0;
  };
  using Key = std::tuple<std::string, std::string, int64_t, std::string,
                         int64_t, int64_t>;
  std::map<Key, Row> rows;
  for (const CollectiveSummary& item : summary.collectives) {
    Row& row = rows[{item.opcode, item.type, item.arrays, item.groups,
                     item.operand_bytes, item.result_bytes}];
    ++row.count;
    row.executions += item.executions;
    row.total_bytes +=
        static_cast<double>(item.operand_bytes) *
        static_cast<double>(std::max<int64_t>(item.executions, 1));
  }
  std::vector<std::pair<Key, Row>> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.total_bytes > b.second.total_bytes;
                   });
  *rows_left_out = sorted.size() - std::min(sorted.size(), kMaxCollectiveRows);
  sorted.resize(sorted.size() - *rows_left_out);
  Table table{{"collective", "type", "groups", "count", "a step", "arrays",
               "in", "out", "total in"},
              {},
              {0, 1, 2}};
  for (const auto& [key, row] : sorted) {
    const auto& [opcode, type, arrays, groups, operand_bytes, result_bytes] =
        key;
    table.rows.push_back({opcode, type, groups, std::to_string(row.count),
                          std::to_string(row.executions),
                          std::to_string(arrays),
                          bytes_text(static_cast<double>(operand_bytes)),
                          bytes_text(static_cast<double>(result_bytes)),
                          bytes_text(row.total_bytes)});
  }
  return table;
}

Json memory_json(const Result<StepMemory>& memory) {
  if (!memory) return nullptr;
  return {{"peak_bytes", memory->peak_bytes},
          {"parameter_bytes", memory->parameter_bytes},
          {"constant_bytes", memory->constant_bytes},
          {"temporary_bytes", memory->temporary_bytes},
          {"output_bytes", memory->output_bytes}};
}

std::string memory_text(const Result<StepMemory>& memory) {
  if (!memory) return "memory not planned: " + memory.error().message;
  const auto text = [](int64_t bytes) {
    return bytes_text(static_cast<double>(bytes));
  };
  return fmt::format(
      "memory: at most {} (parameters {}, constants {}, temporaries {}, "
      "outputs among these {})",
      text(memory->peak_bytes), text(memory->parameter_bytes),
      text(memory->constant_bytes), text(memory->temporary_bytes),
      text(memory->output_bytes));
}

Json summary_json(const ModuleSummary& summary,
                  const Result<StepMemory>& memory, const std::string& file) {
  Json json = {
      {"schema", "reprise.hlo/1"},
      {"file", file},
      {"module", summary.name},
      {"fingerprint", summary.fingerprint},
      {"computations", summary.computations},
      {"instructions", summary.instructions},
      {"parameters",
       {{"count", summary.parameters}, {"bytes", summary.parameter_bytes}}},
      {"outputs", {{"bytes", summary.output_bytes}}},
      {"loops",
       {{"count", summary.loops}, {"unknown", summary.loops_of_unknown_trips}}},
      {"step", cost_json(summary.cost)},
      {"memory", memory_json(memory)},
      {"opcodes", Json::array()},
      {"collectives", Json::array()}};
  for (const OpcodeSummary& row : summary.opcodes) {
    Json item = {{"opcode", row.opcode}, {"count", row.count}};
    item.update(cost_json(row.cost));
    json["opcodes"].push_back(std::move(item));
  }
  for (const CollectiveSummary& item : summary.collectives) {
    json["collectives"].push_back({{"name", item.name},
                                   {"opcode", item.opcode},
                                   {"type", item.type},
                                   {"arrays", item.arrays},
                                   {"operand_bytes", item.operand_bytes},
                                   {"result_bytes", item.result_bytes},
                                   {"groups", item.groups},
                                   {"executions", item.executions}});
  }
  return json;
}

}  // namespace

void print_instruction_rows(const Module& module, ComputationId id,
                            const std::string& file, Format format) {
  Table table{
      {"instruction", "opcode", "shape", "operands", "users", "flops", "bytes"},
      {},
      {0, 1, 2}};
  Json json = {{"schema", "reprise.hlo/1"},
               {"file", file},
               {"computation", module.at(id).name},
               {"rows", Json::array()}};
  for (const InstructionSummary& row : summarize_instructions(module, id)) {
    table.rows.push_back(
        {row.name, row.opcode,
         format == Format::kTable ? shown_shape(row.shape) : row.shape,
         std::to_string(row.operands), std::to_string(row.users),
         count_text(row.cost.flops), bytes_text(row.cost.bytes)});
    Json item = {{"name", row.name},
                 {"opcode", row.opcode},
                 {"shape", row.shape},
                 {"operands", row.operands},
                 {"users", row.users}};
    item.update(cost_json(row.cost));
    json["rows"].push_back(std::move(item));
  }
  print_output(format, table, json);
}

void print_module_summary(const ModuleSummary& summary,
                          const Result<StepMemory>& memory,
                          const std::string& file, Format format) {
  if (format != Format::kTable) {
    print_output(format, opcode_table(summary),
                 summary_json(summary, memory, file));
    return;
  }
  show("{}: {} instructions in {} computations\n", summary.name,
       summary.instructions, summary.computations);
  show("parameters {} ({}), outputs {}\n", summary.parameters,
       bytes_text(static_cast<double>(summary.parameter_bytes)),
       bytes_text(static_cast<double>(summary.output_bytes)));
  show("a step: {} flops, {} transcendentals, {} moved\n",
       count_text(summary.cost.flops), count_text(summary.cost.transcendentals),
       bytes_text(summary.cost.bytes));
  show("{}\n", memory_text(memory));
  if (summary.loops > 0) {
    show("loops: {}, of unknown trip count and counted once: {}\n",
         summary.loops, summary.loops_of_unknown_trips);
  }
  show("{}\n\n{}", summary.fingerprint, table_text(opcode_table(summary)));
  if (summary.collectives.empty()) {
    show("\nno collectives\n");
    return;
  }
  size_t left_out = 0;
  const Table collectives = collective_table(summary, &left_out);
  show("\n{}", table_text(collectives));
  if (left_out > 0)
    show("{} more rows; --format json names every collective\n", left_out);
}

}  // namespace reprise
