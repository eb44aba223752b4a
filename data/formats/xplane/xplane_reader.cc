#include "data/formats/xplane/xplane_reader.h"

#include <fmt/format.h>

#include "data/file.h"
#include "data/formats/xplane/xplane_import.h"
#include "data/formats/xplane/xplane_proto.h"

namespace reprise {
namespace {

/// U+FFFD in UTF-8: what a text conversion leaves of a byte that is no text.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_plane_name(std::string_view name) {
  return name.starts_with("/host:") || name.starts_with("/device:") ||
         name == "Task Environment";
}

int64_t count_replacements(std::string_view bytes) {
  int64_t count = 0;
  for (size_t at = bytes.find(kReplacement); at != bytes.npos;
       at = bytes.find(kReplacement, at + kReplacement.size())) {
    ++count;
  }
  return count;
}

/// Whether bytes above 127 became replacements: numbers are lost, and lengths
/// of messages among them. A sound profile has some such varint in its first
/// bytes.
bool went_through_text(std::string_view head) {
  const bool starts = head.starts_with(
      "\n"
      "\xEF\xBF\xBD");
  const bool names_planes =
      head.find("/device:") != head.npos || head.find("/host:") != head.npos;
  constexpr int64_t kOneIn = 64;
  return starts && names_planes &&
         count_replacements(head) > static_cast<int64_t>(head.size()) / kOneIn;
}

class XplaneReader : public TraceReader {
 public:
  std::string_view kind() const override { return "xplane"; }

  bool recognizes(const InputFile& input) const override {
    return is_plane_name(first_xplane_name(input.head)) ||
           went_through_text(input.head);
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    // A plane's names stand behind its events, so the file is gone through
    // more than once.
    Result<LocalFile> local = LocalFile::of(input);
    if (!local) return pass(local.error());
    const Result<MappedFile> file = MappedFile::open(local->path());
    if (!file) return pass(file.error(), input.name);
    if (went_through_text(input.head)) {
      report.refused = fmt::format(
          "damaged: the profile was passed through a UTF-8 text conversion, "
          "which replaced {} bytes by U+FFFD, so that lengths and times are "
          "lost; copy the original file as binary",
          count_replacements(file->bytes()));
      return {};
    }
    const Status read = XplaneImport(file->bytes(), spool, report).run();
    if (!read) return pass(read.error(), input.name);
    return {};
  }
};

}  // namespace

const TraceReader& xplane_reader() {
  static const XplaneReader reader;
  return reader;
}

}  // namespace reprise
