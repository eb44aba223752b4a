// Spells a module proto as the text that XLA prints: names by id, and the
// attributes of each instruction by the table of hlo_proto_attributes.cc.
// Fields are read by number from the wire format (data/io/protobuf.h), so no
// schema is compiled in. Cost: linear in the bytes.
#include "data/hlo/proto/hlo_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/hlo/proto/hlo_proto_text.h"
#include "data/io/protobuf.h"

namespace reprise {
namespace {

/// Fields of HloModuleProto, HloComputationProto and HloInstructionProto that
/// tell the format.
constexpr uint32_t kName = 1;
constexpr uint32_t kComputations = 3;
constexpr uint32_t kInstructions = 2;
constexpr uint32_t kOpcode = 2;

/// The first field `number` of bytes kind of a message of which perhaps only
/// the beginning is there; what there is of it.
std::string_view first_bytes(std::string_view message, uint32_t number) {
  ProtoCursor cursor(message);
  while (const ProtoField* field = cursor.next()) {
    if (field->number == number && field->type == WireType::kBytes) {
      return field->bytes;
    }
  }
  if (!cursor.damaged()) return {};
  size_t at = cursor.offset();
  const auto key = read_varint(message, at);
  const auto size = key ? read_varint(message, at) : std::nullopt;
  const bool cut = size && key == (uint64_t{number} << 3 | 2);
  return cut ? message.substr(at, *size) : std::string_view();
}

bool is_opcode(std::string_view text) {
  return opcode_from_name(text).has_value();
}

bool starts_like_module(std::string_view bytes) {
  const std::string_view computation = first_bytes(bytes, kComputations);
  const std::string_view instruction = first_bytes(computation, kInstructions);
  return is_opcode(first_bytes(instruction, kOpcode)) &&
         !first_bytes(bytes, kName).empty();
}

/// The HloModuleProto within an HloModuleProto, HloProto or HloSnapshot.
std::string_view find_module(std::string_view bytes) {
  for (int depth = 0; depth < 3; ++depth) {
    if (starts_like_module(bytes)) return bytes;
    bytes = first_bytes(bytes, 1);
  }
  return {};
}

struct ComputationText {
  int64_t id = 0;
  std::string name;
  ProtoMessage proto;
};

class ModuleText {
 public:
  ModuleText(std::string_view module, const HloProtoOptions& options)
      : module_(module), options_(options) {}

  Result<std::string> run();

 private:
  Status read_computations();
  Status write_header();
  Status write_layout();
  void write_aliases();
  void write_donors();
  void write_tables();
  Status write_computation(const ComputationText& computation);
  Status write_signature(const ComputationText& computation);
  Status write_instructions(const ComputationText& computation);
  Status write_instruction(const ProtoMessage& proto, bool is_root);
  Status write_operands(const ProtoMessage& proto);
  void order_by_schedule(const ComputationText& computation);

  ProtoMessage module_;
  const HloProtoOptions& options_;
  std::string out_;
  std::vector<ComputationText> computations_;
  std::unordered_map<int64_t, std::string> computation_names_;
  /// Computation -> ids of its instructions in order.
  std::map<int64_t, std::vector<int64_t>> schedule_;
  // Of the computation being written.
  std::vector<ProtoMessage> instructions_;
  std::unordered_map<int64_t, std::string> names_;
  std::unordered_map<int64_t, int64_t> types_;
};

Result<std::string> ModuleText::run() {
  if (module_.damaged()) return fail(ErrorKind::kParse, "damaged");
  if (const Status read = read_computations(); !read) return pass(read.error());
  if (const Status written = write_header(); !written) {
    return pass(written.error());
  }
  for (const ComputationText& computation : computations_) {
    if (const Status written = write_computation(computation); !written) {
      return pass(written.error(),
                  fmt::format("computation `{}`", computation.name));
    }
  }
  write_tables();
  return std::move(out_);
}

Status ModuleText::read_computations() {
  for (const std::string_view bytes : module_.all_bytes(kComputations)) {
    ComputationText& computation = computations_.emplace_back();
    computation.proto = ProtoMessage(bytes);
    computation.id = computation.proto.integer(5);
    computation.name = hlo_name(computation.proto.bytes(kName));
    if (computation.proto.damaged()) {
      return fail(ErrorKind::kParse, "computation `{}` is damaged",
                  computation.name);
    }
    computation_names_[computation.id] = computation.name;
  }
  const ProtoMessage schedule(module_.bytes(7));
  for (const std::string_view entry : schedule.all_bytes(1)) {
    const ProtoMessage pair(entry);
    schedule_[pair.integer(1)] = ProtoMessage(pair.bytes(2)).integers(1);
  }
  return {};
}

Status ModuleText::write_header() {
  out_ = fmt::format("HloModule {}", hlo_name(module_.bytes(kName)));
  if (module_.has(7)) out_ += ", is_scheduled=true";
  write_aliases();
  write_donors();
  if (const Status written = write_layout(); !written) return written;
  const ProtoMessage devices(module_.bytes(15));
  if (const int64_t count = devices.integer(1); count > 1)
    out_ += fmt::format(", replica_count={}", count);
  if (const int64_t count = devices.integer(2); count > 1)
    out_ += fmt::format(", num_partitions={}", count);
  const std::string frontend = frontend_attributes_text(module_.bytes(19));
  if (!frontend.empty()) out_ += ", frontend_attributes=" + frontend;
  out_ += "\n";
  return {};
}

void ModuleText::write_aliases() {
  std::vector<std::string> entries;
  for (const std::string_view proto :
       ProtoMessage(module_.bytes(8)).all_bytes(1)) {
    const ProtoMessage entry(proto);
    entries.push_back(fmt::format(
        "{{{}}}: ({}, {{{}}}, {})", fmt::join(entry.integers(1), ", "),
        entry.integer(2), fmt::join(entry.integers(3), ", "),
        entry.integer(4) == 2 ? "must-alias" : "may-alias"));
  }
  if (entries.empty()) return;
  out_ +=
      fmt::format(", input_output_alias={{ {} }}", fmt::join(entries, ", "));
}

void ModuleText::write_donors() {
  std::vector<std::string> entries;
  for (const std::string_view proto :
       ProtoMessage(module_.bytes(18)).all_bytes(1)) {
    const ProtoMessage entry(proto);
    entries.push_back(fmt::format("({}, {{{}}})", entry.integer(1),
                                  fmt::join(entry.integers(2), ", ")));
  }
  if (entries.empty()) return;
  out_ += fmt::format(", buffer_donor={{ {} }}", fmt::join(entries, ", "));
}

Status ModuleText::write_layout() {
  if (!module_.has(4)) return {};
  const ProtoMessage program(module_.bytes(4));
  out_ += ", entry_computation_layout={(";
  size_t place = 0;
  for (const std::string_view shape : program.all_bytes(1)) {
    out_ += separator(place++);
    if (const Status written = append_shape_text(shape, true, out_); !written) {
      return written;
    }
  }
  out_ += ")->";
  if (const Status written = append_shape_text(program.bytes(2), true, out_);
      !written) {
    return written;
  }
  out_ += "}";
  return {};
}

/// Rows count from 1.
void ModuleText::write_tables() {
  if (!module_.has(17)) return;
  const ProtoMessage index(module_.bytes(17));
  const auto strings = [&](std::string_view title, uint32_t field) {
    out_ += fmt::format("\n{}\n", title);
    size_t row = 0;
    for (const std::string_view text : index.all_bytes(field)) {
      out_ += fmt::format("{} {}\n", ++row, quoted(text));
    }
  };
  strings("FileNames", 1);
  strings("FunctionNames", 2);
  out_ += "\nFileLocations\n";
  size_t row = 0;
  for (const std::string_view bytes : index.all_bytes(3)) {
    const ProtoMessage place(bytes);
    out_ += fmt::format(
        "{} {{file_name_id={} function_name_id={} line={} column={}}}\n", ++row,
        place.integer(1), place.integer(2), place.integer(3), place.integer(4));
  }
  out_ += "\nStackFrames\n";
  row = 0;
  for (const std::string_view bytes : index.all_bytes(4)) {
    const ProtoMessage frame(bytes);
    out_ += fmt::format("{} {{file_location_id={} parent_frame_id={}}}\n",
                        ++row, frame.integer(1), frame.integer(2));
  }
}

Status ModuleText::write_computation(const ComputationText& computation) {
  instructions_.clear();
  names_.clear();
  types_.clear();
  for (const std::string_view bytes :
       computation.proto.all_bytes(kInstructions)) {
    const ProtoMessage& proto = instructions_.emplace_back(bytes);
    if (proto.damaged()) {
      return fail(ErrorKind::kParse, "instruction {} is damaged",
                  instructions_.size());
    }
    names_[proto.integer(35)] = hlo_name(proto.bytes(kName));
    types_[proto.integer(35)] = ProtoMessage(proto.bytes(3)).integer(2);
  }
  order_by_schedule(computation);
  out_ += computation.id == module_.integer(6) ? "\nENTRY %" : "\n%";
  out_ += computation.name;
  if (const Status written = write_signature(computation); !written) {
    return written;
  }
  if (const Status written = write_instructions(computation); !written) {
    return written;
  }
  out_ += "}";
  const std::string_view thread = computation.proto.bytes(8);
  if (!thread.empty() && thread != "main") {
    out_ += ", execution_thread=" + quoted(thread);
  }
  out_ += "\n";
  return {};
}

/// A scheduled module stands in the order in which it runs.
void ModuleText::order_by_schedule(const ComputationText& computation) {
  const auto found = schedule_.find(computation.id);
  if (found == schedule_.end()) return;
  std::unordered_map<int64_t, size_t> places;
  for (size_t i = 0; i < found->second.size(); ++i) {
    places.emplace(found->second[i], i);
  }
  const auto place = [&](const ProtoMessage& proto) {
    const auto at = places.find(proto.integer(35));
    return at == places.end() ? places.size() : at->second;
  };
  std::stable_sort(instructions_.begin(), instructions_.end(),
                   [&](const ProtoMessage& a, const ProtoMessage& b) {
                     return place(a) < place(b);
                   });
}

Status ModuleText::write_signature(const ComputationText& computation) {
  std::map<int64_t, const ProtoMessage*> parameters;
  const ProtoMessage* root = nullptr;
  for (const ProtoMessage& proto : instructions_) {
    if (proto.bytes(kOpcode) == "parameter") {
      parameters[proto.integer(9)] = &proto;
    }
    if (proto.integer(35) == computation.proto.integer(6)) root = &proto;
  }
  if (root == nullptr) return fail(ErrorKind::kParse, "has no root");
  out_ += " (";
  bool first = true;
  for (const auto& [number, proto] : parameters) {
    if (!std::exchange(first, false)) out_ += ", ";
    out_ += hlo_name(proto->bytes(kName)) + ": ";
    if (const Status written = append_shape_text(proto->bytes(3), false, out_);
        !written) {
      return written;
    }
  }
  out_ += ") -> ";
  return append_shape_text(root->bytes(3), false, out_);
}

Status ModuleText::write_instructions(const ComputationText& computation) {
  out_ += " {\n";
  const int64_t root = computation.proto.integer(6);
  for (const ProtoMessage& proto : instructions_) {
    if (const Status written =
            write_instruction(proto, proto.integer(35) == root);
        !written) {
      return pass(written.error(),
                  fmt::format("instruction `{}`", proto.bytes(kName)));
    }
  }
  return {};
}

Status ModuleText::write_instruction(const ProtoMessage& proto, bool is_root) {
  const std::string_view opcode = proto.bytes(kOpcode);
  out_ += fmt::format("  {}%{} = ", is_root ? "ROOT " : "",
                      hlo_name(proto.bytes(kName)));
  if (const Status written = append_shape_text(proto.bytes(3), true, out_);
      !written) {
    return written;
  }
  out_ += fmt::format(" {}(", hlo_name(opcode));
  if (opcode == "parameter") {
    out_ += std::to_string(proto.integer(9));
  } else if (opcode == "constant") {
    if (const Status written = append_literal_text(
            proto.bytes(8), options_.max_literal_elements, out_);
        !written) {
      return written;
    }
  } else if (const Status written = write_operands(proto); !written) {
    return written;
  }
  out_ += ")";
  const std::vector<int64_t> operands = proto.integers(36);
  const auto type = operands.empty() ? types_.end() : types_.find(operands[0]);
  const auto name_in = [](const std::unordered_map<int64_t, std::string>& names,
                          int64_t id) {
    const auto found = names.find(id);
    return found == names.end() ? std::string_view() : found->second;
  };
  const HloProtoNames names{
      [&](int64_t id) { return name_in(names_, id); },
      [&](int64_t id) { return name_in(computation_names_, id); }};
  const HloProtoInstruction instruction{
      proto, names, type == types_.end() ? 0 : type->second};
  if (const Status written = append_attributes(instruction, out_); !written) {
    return written;
  }
  out_ += "\n";
  return {};
}

Status ModuleText::write_operands(const ProtoMessage& proto) {
  size_t place = 0;
  for (const int64_t id : proto.integers(36)) {
    const auto name = names_.find(id);
    if (name == names_.end()) {
      return fail(ErrorKind::kParse, "operand {} is not in its computation",
                  id);
    }
    out_ += separator(place++);
    out_ += "%" + name->second;
  }
  return {};
}

}  // namespace

bool starts_like_hlo_proto(std::string_view head) {
  return !find_module(head).empty();
}

Result<std::string> hlo_proto_text(std::string_view bytes,
                                   std::string_view file,
                                   const HloProtoOptions& options) {
  const std::string_view module = find_module(bytes);
  if (module.empty()) {
    return fail(ErrorKind::kParse,
                "{}: expected an HLO proto (HloProto, HloModuleProto)", file);
  }
  auto text = ModuleText(module, options).run();
  if (!text) return pass(text.error(), std::string(file));
  return text;
}

Result<Module> parse_hlo_proto(std::string_view bytes, std::string_view file,
                               const HloProtoOptions& options) {
  const auto text = hlo_proto_text(bytes, file, options);
  if (!text) return pass(text.error());
  return parse_hlo(*text, file);
}

Result<Module> read_hlo_file(const std::string& path) {
  const auto bytes = read_text_file(path, starts_like_hlo_proto);
  if (!bytes) return pass(bytes.error());
  if (starts_like_hlo_proto(*bytes)) return parse_hlo_proto(*bytes, path);
  return parse_hlo(*bytes, path);
}

}  // namespace reprise
