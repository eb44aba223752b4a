#include "data/manifest/state_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "data/element.h"
#include "data/hlo/declared_type.h"
#include "data/manifest/filed_tensor.h"
#include "data/manifest/initial_values.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

constexpr const char* kSteps = "steps";
constexpr const char* kSchema = "reprise.state/1";

/// `shape`, behind an axis of ranks where it differs by rank.
std::vector<int64_t> stored_dimensions(const Shape& shape, bool per_rank,
                                       int64_t ranks) {
  std::vector<int64_t> dimensions = shape.dimensions;
  if (per_rank) dimensions.insert(dimensions.begin(), ranks);
  return dimensions;
}

/// What is wrong with a parameter's tensor, or "".
std::string mismatch(const TensorFile& file, const std::string& name,
                     const Shape& shape, bool per_rank, int64_t ranks) {
  const TensorEntry* tensor = file.find(name);
  if (tensor == nullptr)
    return fmt::format("{} has no '{}'", file.path(), name);
  const std::vector<int64_t> wanted = stored_dimensions(shape, per_rank, ranks);
  const std::string complaint = tensor_complaint(*tensor, shape.type, wanted);
  if (complaint.empty()) return {};
  return fmt::format("'{}' of {}{}{}", name, file.path(), complaint,
                     per_rank ? fmt::format(" ({} ranks first)", ranks) : "");
}

/// Everything that is wrong, the first few in words.
Status all_of(const std::vector<std::string>& wrongs) {
  constexpr size_t kShown = 5;
  if (wrongs.empty()) return {};
  const auto end =
      wrongs.begin() + static_cast<long>(std::min(wrongs.size(), kShown));
  return fail(ErrorKind::kInvalid, "{}{}",
              fmt::join(wrongs.begin(), end, "\n  "),
              wrongs.size() > kShown
                  ? fmt::format("\n  and {} more", wrongs.size() - kShown)
                  : "");
}

/// Calls `visit` with every state parameter and its declared_elements.
void each_state(
    const Manifest& manifest, const Computation& entry,
    const std::function<void(const ManifestParameter&, const Shape&)>& visit) {
  const std::vector<const Instruction*> parameters = parameters_of(entry);
  for (const ManifestParameter& parameter : manifest.parameters) {
    if (parameter.role != ParameterRole::kState) continue;
    visit(parameter,
          declared_elements(*parameters[static_cast<size_t>(parameter.index)]));
  }
}

}  // namespace

Result<InitialState> InitialState::open(const Manifest& manifest,
                                        const Computation& entry,
                                        const std::string& state_path) {
  InitialState state;
  std::vector<std::string> wrongs;
  each_state(
      manifest, entry,
      [&](const ManifestParameter& parameter, const Shape& shape) {
        if (has_plain_elements(stored_type(shape.type))) return;
        wrongs.push_back(fmt::format("state '{}' is {}: no numbers",
                                     parameter.name, shape_text(shape, false)));
      });
  Status opened = all_of(wrongs);
  if (opened) {
    opened = state_path.empty() ? state.open_tensors(manifest, entry)
                                : state.open_state(manifest, entry, state_path);
  }
  if (!opened) return pass(opened.error());
  return state;
}

Status InitialState::open_state(const Manifest& manifest,
                                const Computation& entry,
                                const std::string& path) {
  Result<TensorFile> opened = TensorFile::open(path);
  if (!opened) return pass(opened.error());
  const auto file = std::make_shared<const TensorFile>(*std::move(opened));
  std::vector<std::string> wrongs;
  each_state(manifest, entry,
             [&](const ManifestParameter& parameter, const Shape& shape) {
               const std::string name = state_name(manifest, parameter);
               const std::string wrong = mismatch(
                   *file, name, shape, parameter.per_rank, manifest.ranks);
               if (!wrong.empty()) wrongs.push_back(wrong);
               sources_[parameter.index] = {file, file->find(name),
                                            parameter.per_rank};
             });
  const auto steps = file->metadata().find(kSteps);
  if (steps != file->metadata().end()) {
    const std::string& text = steps->second;
    const auto read =
        std::from_chars(text.data(), text.data() + text.size(), steps_);
    if (read.ec != std::errc() || steps_ < 0 || steps_ > INT32_MAX) {
      return fail(ErrorKind::kParse, "{}: {} is '{}', expected a number", path,
                  kSteps, text);
    }
  }
  return all_of(wrongs);
}

Status InitialState::open_tensors(const Manifest& manifest,
                                  const Computation& entry) {
  if (manifest.folders.none()) return {};  // Made up.
  std::map<std::string, std::shared_ptr<const TensorFile>> files;
  std::vector<std::string> wrongs;
  Status failed;
  each_state(manifest, entry,
             [&](const ManifestParameter& parameter, const Shape& shape) {
               if (parameter.init != InitKind::kTensor || !failed) return;
               auto& file = files[parameter.file];
               if (file == nullptr) {
                 const Result<DataFile> found =
                     find_data_file(parameter.file, manifest.folders);
                 Result<TensorFile> opened =
                     found ? TensorFile::open(found->path)
                           : Result<TensorFile>(pass(found.error()));
                 if (!opened) {
                   failed = pass(opened.error(), "initial values");
                   return;
                 }
                 file = std::make_shared<const TensorFile>(*std::move(opened));
               }
               const std::string wrong =
                   mismatch(*file, parameter.tensor, shape, parameter.per_rank,
                            manifest.ranks);
               if (!wrong.empty()) wrongs.push_back(wrong);
               sources_[parameter.index] = {file, file->find(parameter.tensor),
                                            parameter.per_rank};
             });
  return failed ? all_of(wrongs) : failed;
}

void InitialState::fill(const ManifestParameter& parameter, const Shape& shape,
                        int64_t rank, std::span<std::byte> out) const {
  const auto found = sources_.find(parameter.index);
  if (found != sources_.end()) {
    const Source& source = found->second;
    const size_t place =
        source.per_rank ? static_cast<size_t>(rank) * out.size() : 0;
    return copy_elements(*source.tensor, shape.type, place, out);
  }
  if (parameter.init != InitKind::kTensor)
    return fill_initial(parameter, shape.type, out);
  ManifestParameter guessed = parameter;
  guess_initial_value(shape, &guessed);
  fill_initial(guessed, shape.type, out);
}

std::string state_name(const Manifest& manifest,
                       const ManifestParameter& parameter) {
  const auto same = [&](const ManifestParameter& other) {
    return other.role == ParameterRole::kState && other.name == parameter.name;
  };
  const bool alone = std::count_if(manifest.parameters.begin(),
                                   manifest.parameters.end(), same) <= 1;
  return alone && !parameter.name.starts_with("__")
             ? parameter.name
             : fmt::format("{}#{}", parameter.name, parameter.index);
}

Status write_state(const std::string& path, const Manifest& manifest,
                   const Computation& entry, const FinalState& state) {
  const std::vector<const Instruction*> parameters = parameters_of(entry);
  std::vector<TensorEntry> tensors;
  each_state(
      manifest, entry,
      [&](const ManifestParameter& parameter, const Shape& shape) {
        TensorEntry& tensor = tensors.emplace_back();
        tensor.name = state_name(manifest, parameter);
        tensor.type = filed_type(shape.type);
        tensor.element_bytes = static_cast<int64_t>(stored_bytes(shape.type));
        tensor.dimensions =
            stored_dimensions(shape, parameter.per_rank, manifest.ranks);
        tensor.bytes = state.tensors.at(parameter.index);
        const PrimitiveType type =
            declared_type(*parameters[static_cast<size_t>(parameter.index)]);
        // safetensors has no c128: it keeps f64[N,2].
        if (!is_complex(type) ||
            (type == PrimitiveType::kC128 && !path.ends_with(".npz")))
          return;
        tensor.type = type;
        tensor.element_bytes *= 2;
        tensor.dimensions.pop_back();
      });
  return write_tensor_file(path, tensors,
                           {{"schema", kSchema},
                            {"program", manifest.name},
                            {"ranks", std::to_string(manifest.ranks)},
                            {kSteps, std::to_string(state.steps)}});
}

}  // namespace reprise
