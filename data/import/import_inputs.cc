// Directory readers are asked from the outermost directory inwards; what one
// takes no other sees. Names are ordered with their numbers as numbers, so that
// rank10 stands behind rank9.
#include "data/import/import_inputs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace reprise {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The digits at the front, without leading zeros; removed from `text`.
std::string_view take_digits(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

std::string joined(const std::string& directory, const std::string& file) {
  return directory.ends_with('/') ? directory + file : directory + "/" + file;
}

fs::path canonical(const std::string& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : whole;
}

int64_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

/// Of the files of one directory, by name: HOST.xplane.pb of HOST.trace.json.gz
/// and the like, and of the perfetto_trace.json.gz that JAX makes of one
/// host's.
class ProfiledHosts {
 public:
  explicit ProfiledHosts(std::span<const std::string> files) {
    for (const std::string& file : files) {
      if (file.ends_with(kPlanes) && file.find('/') == std::string::npos)
        planes_.push_back(file);
    }
  }

  std::string planes_of(const std::string& file) const {
    if (file.ends_with(kPlanes)) return {};
    if (file.starts_with("perfetto_trace.json") && planes_.size() == 1)
      return planes_.front();
    for (const std::string& planes : planes_) {
      const std::string host = planes.substr(0, planes.size() - kPlanes.size());
      if (file.starts_with(host + ".")) return planes;
    }
    return {};
  }

 private:
  static constexpr std::string_view kPlanes = ".xplane.pb";
  std::vector<std::string> planes_;
};

class UnitSearch {
 public:
  UnitSearch(std::span<const DirectoryReader* const> readers,
             const std::string& output)
      : readers_(readers) {
    if (!output.empty()) output_ = canonical(output);
  }

  Status add(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      return fail(ErrorKind::kIo, "{}: cannot open: {}", path,
                  error ? error.message() : "No such file or directory");
    }
    if (!fs::is_directory(status)) {
      if (seen_.insert(canonical(path)).second) {
        units_.push_back({path, size_of(path), nullptr, {}});
      }
      return {};
    }
    Result<DirectoryListing> listing = list(path);
    if (!listing) return pass(listing.error());
    add_directory(std::move(*listing));
    // Links to nothing are files that cannot be opened, and are refused as
    // such.
    std::sort(broken_.begin(), broken_.end(), natural_less);
    for (const std::string& link : broken_) {
      if (seen_.insert(link).second) units_.push_back({link, 0, nullptr, {}});
    }
    broken_.clear();
    return {};
  }

  std::vector<ImportUnit> take() && { return std::move(units_); }

 private:
  Result<DirectoryListing> list(const std::string& path) {
    DirectoryListing listing{path, {}};
    std::error_code error;
    auto entry = fs::recursive_directory_iterator(
        path, fs::directory_options::skip_permission_denied, error);
    for (; !error && entry != fs::recursive_directory_iterator();
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      std::error_code ignored;
      if (name.starts_with('.')) {
        if (entry->is_directory(ignored)) entry.disable_recursion_pending();
      } else if (entry->is_regular_file(ignored)) {
        listing.files.push_back(
            entry->path().lexically_relative(path).string());
      } else if (entry->is_symlink(ignored) && !entry->exists(ignored)) {
        broken_.push_back(entry->path().string());
      }
    }
    if (error) {
      return fail(ErrorKind::kIo, "{}: cannot list: {}", path, error.message());
    }
    std::sort(listing.files.begin(), listing.files.end(), natural_less);
    return listing;
  }

  // The outermost directory first; a directory that no reader takes falls
  // apart into its files and directories.
  void add_directory(DirectoryListing root) {
    std::vector<DirectoryListing> open;
    open.push_back(std::move(root));
    while (!open.empty()) {
      DirectoryListing directory = std::move(open.back());
      open.pop_back();
      if (const DirectoryReader* reader = reader_of(directory)) {
        add_whole(std::move(directory), reader);
        continue;
      }
      std::vector<DirectoryListing> inner;
      std::map<std::string, size_t> places;
      const ProfiledHosts hosts(directory.files);
      for (const std::string& file : directory.files) {
        const size_t slash = file.find('/');
        if (slash == std::string::npos) {
          add_found(joined(directory.path, file), hosts.planes_of(file));
          continue;
        }
        const auto [place, added] =
            places.try_emplace(file.substr(0, slash), inner.size());
        if (added) inner.push_back({joined(directory.path, place->first), {}});
        inner[place->second].files.push_back(file.substr(slash + 1));
      }
      for (size_t i = inner.size(); i-- > 0;) {
        open.push_back(std::move(inner[i]));
      }
    }
  }

  const DirectoryReader* reader_of(const DirectoryListing& directory) const {
    for (const DirectoryReader* reader : readers_) {
      if (reader->recognizes(directory)) return reader;
    }
    return nullptr;
  }

  void add_whole(DirectoryListing directory, const DirectoryReader* reader) {
    ImportUnit unit{directory.path, 0, reader, std::move(directory)};
    for (const std::string& file : unit.listing.files) {
      const std::string path = joined(unit.path, file);
      unit.bytes += size_of(path);
      seen_.insert(canonical(path));
    }
    units_.push_back(std::move(unit));
  }

  void add_found(const std::string& path, std::string view_of) {
    const fs::path whole = canonical(path);
    if (whole == output_ || !seen_.insert(whole).second) return;
    units_.push_back({path, size_of(path), nullptr, {}, std::move(view_of)});
  }

  std::span<const DirectoryReader* const> readers_;
  fs::path output_;
  std::set<fs::path> seen_;
  std::vector<std::string> broken_;  // Links in the directory at hand.
  std::vector<ImportUnit> units_;
};

/// XLA's profilers write LOGDIR/plugins/profile/SESSION/HOST.xplane.pb, and a
/// later session beside an earlier one. A host of two sessions is not two
/// hosts.
Status check_sessions(const std::vector<ImportUnit>& units) {
  std::map<fs::path, std::set<std::string>> sessions;  // By folder and host.
  for (const ImportUnit& unit : units) {
    const fs::path path = unit.path;
    const fs::path session = path.parent_path(),
                   profile = session.parent_path();
    if (!unit.path.ends_with(".xplane.pb") || profile.filename() != "profile" ||
        profile.parent_path().filename() != "plugins")
      continue;
    sessions[profile / path.filename()].insert(session.filename().string());
  }
  for (const auto& [host, names] : sessions) {
    if (names.size() < 2) continue;
    const std::string folder = host.parent_path().string();
    return fail(ErrorKind::kInvalid,
                "{}: {} is there of {} profiling sessions; import one of them, "
                "say the last: {}",
                folder, host.filename().string(), names.size(),
                joined(folder, *std::max_element(names.begin(), names.end(),
                                                 natural_less)));
  }
  return {};
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view left = take_digits(a), right = take_digits(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      continue;
    }
    if (a[0] != b[0]) return a[0] < b[0];
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;
}

Result<std::vector<ImportUnit>> find_units(
    std::span<const std::string> paths,
    std::span<const DirectoryReader* const> readers,
    const std::string& output) {
  UnitSearch search(readers, output);
  for (const std::string& path : paths) {
    if (Status added = search.add(path); !added) return pass(added.error());
  }
  std::vector<ImportUnit> units = std::move(search).take();
  if (Status single = check_sessions(units); !single)
    return pass(single.error());
  return units;
}

}  // namespace reprise
