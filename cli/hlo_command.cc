// reprise hlo: what a module holds and costs; its tables, drawings and
// manifest.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/hlo_output.h"
#include "cli/output.h"
#include "data/draw/hlo_graph.h"
#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/hlo/module_summary.h"
#include "data/hlo/proto/hlo_proto.h"
#include "data/io/printable_text.h"
#include "data/manifest/infer.h"
#include "data/program/dump_folder.h"
#include "data/program/refusals.h"
#include "data/program/step_memory.h"

namespace reprise {
namespace {

class HloCommand : public Command {
 public:
  std::string name() const override { return "hlo"; }
  std::string summary() const override {
    return "Show what an HLO module holds, or draw it";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("file", file_,
                    "HLO text as XLA dumps it, an HLO proto, or a dump folder")
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
      tell("reprise hlo: {}\n", wrong);
      return kExitUsage;
    }
    const Result<ChosenProgram> chosen = choose_program(file_);
    if (!chosen) return pass(chosen.error());
    file_ = chosen->path;
    if (!chosen->reason.empty())
      tell("reprise hlo: {}: {}\n", file_, chosen->reason);
    const auto module = read_hlo_file(file_);
    if (!module) return pass(module.error());
    if (dot_ || svg_) return draw(*module);
    if (manifest_) return write_manifest(*module);
    if (table_) return print_instructions(*module);
    print_module_summary(summarize(*module), step_memory(*module), file_,
                         format_);
    return kExitOk;
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

  // The skeleton, and what `train` would refuse.
  Result<int> write_manifest(const Module& module) const {
    const std::string program =
        std::filesystem::path(file_).filename().string();
    const Result<InlinedModule> inlined = inline_calls(module);
    Status runs = inlined ? check_runs(*inlined, ranks_of(*inlined))
                          : Status(pass(inlined.error()));
    const Module& one_rank = inlined ? *inlined : module;
    Result<int> written =
        write(printable_json(manifest_text(infer_manifest(one_rank, program))));
    if (!written || runs) return written;
    const std::string other = sibling_that_runs(file_);
    return fail(runs.error().kind, "{}: `train` would refuse it:\n  {}{}",
                file_, runs.error().message,
                other.empty() ? "" : "\n" + other + " runs");
  }

  Result<int> draw(const Module& module) const {
    const auto graph = around_.empty()
                           ? graph_of_computation(module, computation_)
                           : graph_around(module, around_, hops_);
    if (!graph) return pass(graph.error(), file_);
    return write(printable_lines(svg_ ? graph_svg(*graph) : graph_dot(*graph)));
  }

  Result<int> write(const std::string& text) const {
    if (output_.empty()) {
      write_out(text);
      return kExitOk;
    }
    if (const Status free = check_output(output_, force_); !free)
      return pass(free.error());
    if (const Status written =
            write_file_atomically(output_, text, existing_with(force_));
        !written) {
      return pass(written.error());
    }
    tell("wrote {}\n", output_);
    return kExitOk;
  }

  Result<int> print_instructions(const Module& module) const {
    ComputationId id = module.entry;
    if (!computation_.empty()) {
      const auto found = find_computation(module, computation_);
      if (!found) return pass(found.error(), file_);
      id = *found;
    }
    print_instruction_rows(module, id, file_, format_);
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
