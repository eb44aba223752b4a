#include "data/io/archive_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/file.h"
#include "data/io/archive_gzip.h"
#include "data/io/archive_xz.h"

namespace reprise {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(std::string path, int descriptor, std::atomic<int64_t>* position)
      : path_(std::move(path)), descriptor_(descriptor), position_(position) {}
  ~FileSource() override { ::close(descriptor_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  Result<size_t> read(std::span<char> into) override {
    for (;;) {
      const ssize_t got = ::read(descriptor_, into.data(), into.size());
      if (got >= 0) {
        if (position_ != nullptr) *position_ += got;
        return static_cast<size_t>(got);
      }
      if (errno != EINTR) {
        return fail(ErrorKind::kIo, "{}: cannot read: {}", path_,
                    std::strerror(errno));
      }
    }
  }

 private:
  std::string path_;
  int descriptor_;
  std::atomic<int64_t>* position_;
};

}  // namespace

PackedInput::PackedInput(std::unique_ptr<ByteSource> packed, std::string name)
    : packed_(std::move(packed)),
      name_(std::move(name)),
      buffer_(kStreamBufferBytes) {}

std::span<char> PackedInput::next() {
  if (ended_ || error_) return {};
  const Result<size_t> got = packed_->read(buffer_);
  if (!got) {
    error_ = got.error();
    return {};
  }
  ended_ = *got == 0;
  return std::span(buffer_).first(*got);
}

std::span<char> PackedInput::next_behind(std::span<const char> left) {
  if (left.data() != buffer_.data()) {
    std::copy(left.begin(), left.end(), buffer_.begin());
  }
  const Result<size_t> got =
      read_fully(*packed_, std::span(buffer_).subspan(left.size()));
  if (!got) error_ = got.error();
  return std::span(buffer_).first(left.size() + got.value_or(0));
}

void PackedInput::fail_with(std::string_view what) {
  error_ = Error{ErrorKind::kParse, fmt::format("{}: {}", name_, what)};
}

Result<std::unique_ptr<ByteSource>> file_source(
    const std::string& path, std::atomic<int64_t>* position) {
  const Result<OpenFile> file = open_to_read(path, Readable::kAndFifos);
  if (!file) return pass(file.error());
  if (file->is_directory) {
    ::close(file->descriptor);
    return fail(ErrorKind::kIo, "{}: is a directory", path);
  }
  ::posix_fadvise(file->descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::make_unique<FileSource>(path, file->descriptor, position);
}

HeadSource::HeadSource(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)) {}

std::string_view HeadSource::head(size_t count) {
  while (head_.size() - taken_ < count && !ended_ && !error_) {
    const size_t have = head_.size(), want = count - (have - taken_);
    head_.resize(have + want);
    const Result<size_t> got = source_->read({head_.data() + have, want});
    head_.resize(have + got.value_or(0));
    if (!got) {
      error_ = got.error();
    } else {
      ended_ = *got == 0;
    }
  }
  return std::string_view(head_).substr(taken_, count);
}

Result<size_t> HeadSource::read(std::span<char> into) {
  if (taken_ < head_.size()) {
    const size_t count = std::min(into.size(), head_.size() - taken_);
    std::memcpy(into.data(), head_.data() + taken_, count);
    taken_ += count;
    if (taken_ == head_.size()) {
      head_.clear();
      taken_ = 0;
    }
    return count;
  }
  if (error_) return pass(*error_);
  if (ended_ || into.empty()) return size_t{0};
  Result<size_t> got = source_->read(into);
  if (!got) {
    error_ = got.error();
  } else {
    ended_ = *got == 0;
  }
  return got;
}

bool is_compressed(std::string_view head) {
  return is_gzip(head) || is_xz(head);
}

std::unique_ptr<HeadSource> decompressed(std::unique_ptr<ByteSource> source,
                                         const std::string& name) {
  auto plain = std::make_unique<HeadSource>(std::move(source));
  if (is_gzip(plain->head(kGzipMagicBytes))) {
    return std::make_unique<HeadSource>(gzip_source(std::move(plain), name));
  }
  if (is_xz(plain->head(kXzMagicBytes))) {
    return std::make_unique<HeadSource>(xz_source(std::move(plain), name));
  }
  return plain;
}

std::string printable_name(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

Result<size_t> read_fully(ByteSource& source, std::span<char> into) {
  size_t done = 0;
  while (done < into.size()) {
    const Result<size_t> got = source.read(into.subspan(done));
    if (!got) return pass(got.error());
    if (*got == 0) break;
    done += *got;
  }
  return done;
}

}  // namespace reprise
