// reprise hlo: what a module holds and costs; its tables, drawings and
// manifest.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "data/draw/hlo_graph.h"
#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/hlo/module_summary.h"
#include "data/hlo/proto/hlo_proto.h"
#include "data/manifest/infer.h"

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

Json summary_json(const ModuleSummary& summary, const std::string& file) {
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

class HloCommand : public Command {
 public:
  std::string name() const override { return "hlo"; }
  std::string summary() const override {
    return "Show what an HLO module holds, or draw it";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("file", file_,
                    "HLO text of any dialect that XLA dumps, or an HLO proto")
        .required();
    flags.add_flag("--table", table_,
                   "one row an instruction of the entry or of --computation");
    flags.add_flag("--dot", dot_, "graph of --around or --computation as DOT");
    flags.add_flag("--svg", svg_, "the same, drawn as SVG");
    flags.add_flag("--manifest", manifest_,
                   "skeleton of a manifest for this program");
    flags.add_option("--around", around_,
                     "instruction in the middle of the graph");
    flags.add_option("--hops", hops_, "edges from it, either way (default 2)")
        .not_negative();
    flags.add_option("--computation", computation_,
                     "a fused or called one, every edge that touches it");
    flags.add_option("-o,--output", output_,
                     "file for the graph or manifest (default stdout)");
    flags.add_flag("--force", force_, "replace an existing output");
    flags.add_format(format_);
  }

  Result<int> run() override {
    if (const char* wrong = misuse()) {
      fmt::print(stderr, "reprise hlo: {}\n", wrong);
      return kExitUsage;
    }
    const auto module = read_hlo_file(file_);
    if (!module) return pass(module.error());
    if (dot_ || svg_) return draw(*module);
    if (manifest_) {
      const std::string program =
          std::filesystem::path(file_).filename().string();
      return write(manifest_text(infer_manifest(*module, program)));
    }
    if (table_) return print_instructions(*module);
    return print_summary(*module);
  }

 private:
  /// What is wrong with the combination of flags, or null.
  const char* misuse() const {
    const bool graph = dot_ || svg_;
    if (table_ + dot_ + svg_ + manifest_ > 1) {
      return "--table, --dot, --svg and --manifest exclude each other";
    }
    if (!around_.empty() && !computation_.empty()) {
      return "--around and --computation exclude each other";
    }
    if (graph && around_.empty() && computation_.empty()) {
      return "--dot and --svg need --around INSTRUCTION or --computation "
             "COMPUTATION";
    }
    if (!around_.empty() && !graph) return "--around needs --dot or --svg";
    if (!computation_.empty() && !graph && !table_) {
      return "--computation needs --dot, --svg or --table";
    }
    if (!output_.empty() && !graph && !manifest_) {
      return "--output takes a graph or a manifest; the rest prints on stdout";
    }
    return nullptr;
  }

  Result<int> draw(const Module& module) const {
    const auto graph = around_.empty()
                           ? graph_of_computation(module, computation_)
                           : graph_around(module, around_, hops_);
    if (!graph) return pass(graph.error(), file_);
    return write(svg_ ? graph_svg(*graph) : graph_dot(*graph));
  }

  Result<int> write(const std::string& text) const {
    if (output_.empty()) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      return kExitOk;
    }
    if (const Status free = check_output(output_, force_); !free)
      return pass(free.error());
    if (const Status written = write_file_atomically(output_, text); !written) {
      return pass(written.error());
    }
    fmt::print(stderr, "wrote {}\n", output_);
    return kExitOk;
  }

  Result<int> print_instructions(const Module& module) const {
    ComputationId id = module.entry;
    if (!computation_.empty()) {
      const auto found = find_computation(module, computation_);
      if (!found) return pass(found.error(), file_);
      id = *found;
    }
    Table table{{"instruction", "opcode", "shape", "operands", "users", "flops",
                 "bytes"},
                {},
                {0, 1, 2}};
    Json json = {{"schema", "reprise.hlo/1"},
                 {"file", file_},
                 {"computation", module.at(id).name},
                 {"rows", Json::array()}};
    for (const InstructionSummary& row : summarize_instructions(module, id)) {
      table.rows.push_back(
          {row.name, row.opcode,
           format_ == Format::kTable ? shown_shape(row.shape) : row.shape,
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
    print_output(format_, table, json);
    return kExitOk;
  }

  Result<int> print_summary(const Module& module) const {
    const ModuleSummary summary = summarize(module);
    if (format_ != Format::kTable) {
      print_output(format_, opcode_table(summary),
                   summary_json(summary, file_));
      return kExitOk;
    }
    fmt::print("{}: {} instructions in {} computations\n", summary.name,
               summary.instructions, summary.computations);
    fmt::print("parameters {} ({}), outputs {}\n", summary.parameters,
               bytes_text(static_cast<double>(summary.parameter_bytes)),
               bytes_text(static_cast<double>(summary.output_bytes)));
    fmt::print("a step: {} flops, {} transcendentals, {} moved\n",
               count_text(summary.cost.flops),
               count_text(summary.cost.transcendentals),
               bytes_text(summary.cost.bytes));
    if (summary.loops > 0) {
      fmt::print("loops: {}, of unknown trip count and counted once: {}\n",
                 summary.loops, summary.loops_of_unknown_trips);
    }
    fmt::print("{}\n\n{}", summary.fingerprint,
               table_text(opcode_table(summary)));
    if (summary.collectives.empty()) {
      fmt::print("\nno collectives\n");
      return kExitOk;
    }
    size_t left_out = 0;
    const Table collectives = collective_table(summary, &left_out);
    fmt::print("\n{}", table_text(collectives));
    if (left_out > 0)
      fmt::print("{} more rows; --format json names every collective\n",
                 left_out);
    return kExitOk;
  }

  std::string file_;
  bool table_ = false;
  bool dot_ = false;
  bool svg_ = false;
  bool manifest_ = false;
  std::string around_;
  int64_t hops_ = 2;
  std::string computation_;
  std::string output_;
  bool force_ = false;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_hlo_command() {
  return std::make_unique<HloCommand>();
}

}  // namespace reprise
