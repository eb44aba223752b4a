#include "data/io/archive_xz.h"

#include <lzma.h>

#include "data/io/archive_stream.h"

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
      : input_(std::move(packed), std::move(name)) {
    start_stream();
  }
  ~XzSource() override { lzma_end(&stream_); }
  XzSource(const XzSource&) = delete;
  XzSource& operator=(const XzSource&) = delete;

  Result<size_t> read(std::span<char> into) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(into.data());
    stream_.avail_out = into.size();
    while (stream_.avail_out > 0 && !finished_ && !input_.error()) decode();
    const size_t done = into.size() - stream_.avail_out;
    if (done == 0 && input_.error()) return pass(*input_.error());
    return done;
  }

 private:
  void start_stream() {
    const lzma_ret code =
        lzma_stream_decoder(&stream_, kMemoryLimitBytes, LZMA_TELL_NO_CHECK);
    if (code != LZMA_OK) input_.fail_with(problem(code));
  }

  void decode() {
    if (stream_.avail_in == 0) take(input_.next());
    if (input_.error()) return;
    const lzma_ret code =
        lzma_code(&stream_, input_.ended() ? LZMA_FINISH : LZMA_RUN);
    if (code == LZMA_STREAM_END) {
      finish_stream();
    } else if (code != LZMA_OK && code != LZMA_NO_CHECK) {
      input_.fail_with(problem(code));
    }
  }

  void take(std::span<const char> bytes) {
    stream_.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
  }
  std::span<const char> left() const {
    return {reinterpret_cast<const char*>(stream_.next_in), stream_.avail_in};
  }

  // Another stream may follow, behind zero bytes of padding.
  void finish_stream() {
    finished_ = true;
    while (!input_.error()) {
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in > 0 || input_.ended()) break;
      take(input_.next());
    }
    if (stream_.avail_in == 0 || input_.error()) return;
    if (stream_.avail_in < kXzMagicBytes) take(input_.next_behind(left()));
    if (is_xz({left().data(), left().size()})) {
      finished_ = false;
      start_stream();
    }
  }

  PackedInput input_;
  bool finished_ = false;
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
