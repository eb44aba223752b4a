#include "data/formats/archive_xz.h"

#include <lzma.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "data/formats/archive_stream.h"

namespace reprise {
namespace {

// Four times what the largest preset (xz -9, 65 MB) takes.
constexpr uint64_t kMemoryLimitBytes = uint64_t{256} << 20;

std::string_view problem(lzma_ret code) {
  switch (code) {
    case LZMA_MEM_ERROR:
    case LZMA_MEMLIMIT_ERROR:
      return "decompressing it takes more than 256 MB of memory";
    case LZMA_BUF_ERROR:
      return "the file is truncated";
    case LZMA_OPTIONS_ERROR:
      return "it uses options of xz that are not known";
    default:
      return "the compressed data are damaged";
  }
}

class XzSource : public ByteSource {
 public:
  XzSource(std::unique_ptr<ByteSource> packed, std::string name)
      : packed_(std::move(packed)),
        name_(std::move(name)),
        buffer_(kStreamBufferBytes) {
    start_stream();
  }
  ~XzSource() override { lzma_end(&stream_); }
  XzSource(const XzSource&) = delete;
  XzSource& operator=(const XzSource&) = delete;

  Result<size_t> read(std::span<char> into) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(into.data());
    stream_.avail_out = into.size();
    while (stream_.avail_out > 0 && !finished_ && !error_) decode();
    const size_t done = into.size() - stream_.avail_out;
    if (done == 0 && error_) return pass(*error_);
    return done;
  }

 private:
  void start_stream() {
    const lzma_ret code =
        lzma_stream_decoder(&stream_, kMemoryLimitBytes, LZMA_TELL_NO_CHECK);
    if (code != LZMA_OK) set_error(problem(code));
  }

  void decode() {
    if (stream_.avail_in == 0) refill();
    if (error_) return;
    const lzma_ret code = lzma_code(&stream_, ended_ ? LZMA_FINISH : LZMA_RUN);
    if (code == LZMA_STREAM_END) {
      finish_stream();
    } else if (code != LZMA_OK && code != LZMA_NO_CHECK) {
      set_error(problem(code));
    }
  }

  void refill() {
    if (ended_) return;
    const Result<size_t> got = packed_->read(buffer_);
    if (!got) {
      error_ = got.error();
      return;
    }
    ended_ = *got == 0;
    stream_.next_in = reinterpret_cast<const uint8_t*>(buffer_.data());
    stream_.avail_in = *got;
  }

  // Another stream may follow, behind zero bytes of padding.
  void finish_stream() {
    finished_ = true;
    while (!error_) {
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in > 0 || ended_) break;
      refill();
    }
    if (stream_.avail_in == 0 || error_) return;
    gather_magic();
    if (is_xz({reinterpret_cast<const char*>(stream_.next_in),
               stream_.avail_in})) {
      finished_ = false;
      start_stream();
    }
  }

  // Moves what is left to the buffer's start and reads on behind it.
  void gather_magic() {
    if (stream_.avail_in >= kXzMagicBytes) return;
    const size_t kept = stream_.avail_in;
    std::copy_n(stream_.next_in, kept, buffer_.data());
    const Result<size_t> got =
        read_fully(*packed_, std::span(buffer_).subspan(kept));
    if (!got) error_ = got.error();
    stream_.next_in = reinterpret_cast<const uint8_t*>(buffer_.data());
    stream_.avail_in = kept + got.value_or(0);
  }

  void set_error(std::string_view what) {
    error_ = Error{ErrorKind::kParse, fmt::format("{}: {}", name_, what)};
  }

  std::unique_ptr<ByteSource> packed_;
  std::string name_;
  bool ended_ = false, finished_ = false;
  std::optional<Error> error_;
  std::vector<char> buffer_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace

bool is_xz(std::string_view head) {
  return head.starts_with(
      std::string_view("\xfd"
                       "7zXZ\0",
                       kXzMagicBytes));
}

std::unique_ptr<ByteSource> xz_source(std::unique_ptr<ByteSource> packed,
                                      std::string name) {
  return std::make_unique<XzSource>(std::move(packed), std::move(name));
}

}  // namespace reprise
