#include "data/io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "data/io/archive_members.h"
#include "data/io/archive_stream.h"
#include "data/io/archive_tar.h"
#include "data/io/archive_zip.h"

namespace reprise {
namespace {

constexpr size_t kHeadBytes = size_t{64} << 10;
// No trace is larger; a bomb shall not fill the disk for ever.
constexpr int64_t kLargestCopyBytes = int64_t{64} << 30;

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<size_t> read(std::span<char> into) override {
    const size_t count = std::min(into.size(), bytes_.size() - taken_);
    std::memcpy(into.data(), bytes_.data() + taken_, count);
    taken_ += count;
    return count;
  }

 private:
  std::string bytes_;
  size_t taken_ = 0;
};

bool is_regular_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string temporary_template() {
  const char* const folder = std::getenv("TMPDIR");
  return std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") +
         "/reprise-input-XXXXXX";
}

Status copy_to(ByteSource& source, int descriptor, const std::string& path) {
  std::vector<char> buffer(kStreamBufferBytes);
  for (int64_t total = 0;;) {
    const Result<size_t> got = source.read(buffer);
    if (!got) return pass(got.error());
    if (*got == 0) return {};
    total += static_cast<int64_t>(*got);
    if (total > kLargestCopyBytes) {
      return fail(ErrorKind::kUnsupported, "more than {} bytes",
                  kLargestCopyBytes);
    }
    for (size_t done = 0; done < *got;) {
      const ssize_t written =
          ::write(descriptor, buffer.data() + done, *got - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        return fail(ErrorKind::kIo, "{}: cannot write: {}", path,
                    std::strerror(errno));
      }
      done += static_cast<size_t>(written);
    }
  }
}

}  // namespace

std::unique_ptr<ByteSource> memory_source(std::string bytes) {
  return std::make_unique<MemorySource>(std::move(bytes));
}

Result<std::string> read_all(ByteSource& source, int64_t limit_bytes) {
  std::string bytes;
  std::vector<char> buffer(kStreamBufferBytes);
  for (;;) {
    const Result<size_t> got = source.read(buffer);
    if (!got) return pass(got.error());
    if (*got == 0) return bytes;
    if (static_cast<int64_t>(bytes.size() + *got) > limit_bytes) {
      return fail(ErrorKind::kUnsupported,
                  "more than {} bytes, and it has to be held in memory",
                  limit_bytes);
    }
    bytes.append(buffer.data(), *got);
  }
}

Status visit_member(const std::string& archive, std::string_view path,
                    std::unique_ptr<ByteSource> bytes,
                    const InputVisitor& visit) {
  const size_t slash = path.rfind('/');
  const std::string_view file =
      slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (file.empty() || file.starts_with("._")) return {};
  InputFile input;
  input.name = archive + ":" + printable_name(path);
  const std::unique_ptr<HeadSource> source =
      decompressed(std::move(bytes), input.name);
  input.source = source.get();
  input.head = source->head(kHeadBytes);
  return visit(input);
}

Status visit_unreadable(const std::string& archive, std::string_view path,
                        std::string reason, const InputVisitor& visit) {
  InputFile input;
  input.name = archive + ":" + printable_name(path);
  input.unreadable = std::move(reason);
  const std::unique_ptr<ByteSource> nothing = memory_source({});
  input.source = nothing.get();
  return visit(input);
}

Status visit_inputs(const std::string& path, const InputVisitor& visit,
                    std::atomic<int64_t>* position) {
  Result<std::unique_ptr<ByteSource>> file = file_source(path, position);
  if (!file) return pass(file.error());
  auto raw = std::make_unique<HeadSource>(std::move(*file));
  const bool regular = is_regular_file(path);
  if (is_zip(raw->head(4)) && regular) return visit_zip(path, path, visit);
  const bool packed = is_compressed(raw->head(kCompressionMagicBytes));
  const std::unique_ptr<HeadSource> source = decompressed(std::move(raw), path);
  if (is_tar(source->head(kTarBlockBytes))) {
    return visit_tar(*source, path, visit);
  }
  InputFile input;
  input.name = path;
  input.source = source.get();
  input.head = source->head(kHeadBytes);
  if (!packed && regular) input.path = path;
  return visit(input);
}

LocalFile::LocalFile(std::string path, bool owned)
    : path_(std::move(path)), owned_(owned) {}

LocalFile::LocalFile(LocalFile&& other) noexcept
    : path_(std::move(other.path_)),
      owned_(std::exchange(other.owned_, false)) {}

LocalFile::~LocalFile() {
  if (owned_) ::unlink(path_.c_str());
}

Result<LocalFile> LocalFile::of(InputFile& input) {
  if (!input.path.empty()) return LocalFile(input.path, false);
  std::string path = temporary_template();
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) {
    return fail(ErrorKind::kIo, "{}: cannot create: {}", path,
                std::strerror(errno));
  }
  LocalFile copy(path, true);
  const Status copied = copy_to(*input.source, descriptor, path);
  ::close(descriptor);
  if (!copied) return pass(copied.error(), input.name);
  return copy;
}

}  // namespace reprise
