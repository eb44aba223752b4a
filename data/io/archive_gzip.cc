#include "data/io/archive_gzip.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>

#include "data/io/archive_stream.h"

namespace reprise {
namespace {

std::string_view problem(int code) {
  switch (code) {
    case ISAL_INCORRECT_CHECKSUM:
      return "the checksum does not match";
    case ISAL_INVALID_WRAPPER:
      return "the header of a member is damaged";
    case ISAL_UNSUPPORTED_METHOD:
      return "a member is not deflated";
    default:
      return "the compressed data are damaged";
  }
}

class InflateSource : public ByteSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> packed, std::string name, bool gzip)
      : input_(std::move(packed), std::move(name)), gzip_(gzip) {
    start_member();
  }

  Result<size_t> read(std::span<char> into) override {
    size_t done = 0;
    while (done < into.size() && !finished_ && !input_.error()) {
      done += inflate(into.subspan(done));
    }
    if (done == 0 && input_.error()) return pass(*input_.error());
    return done;
  }

 private:
  void start_member() {
    uint8_t* const next = state_.next_in;
    const uint32_t available = state_.avail_in;
    isal_inflate_init(&state_);
    state_.crc_flag = gzip_ ? ISAL_GZIP : ISAL_DEFLATE;
    state_.next_in = next;
    state_.avail_in = available;
  }

  // One step: some input becomes some output. Returns the output's size.
  size_t inflate(std::span<char> into) {
    if (state_.avail_in == 0) take(input_.next());
    if (input_.error()) return 0;
    const uint32_t input = state_.avail_in;
    const auto room =
        static_cast<uint32_t>(std::min<size_t>(into.size(), size_t{1} << 30));
    state_.next_out = reinterpret_cast<uint8_t*>(into.data());
    state_.avail_out = room;
    const int code = isal_inflate(&state_);
    const size_t produced = room - state_.avail_out;
    if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT &&
        code != ISAL_OUT_OVERFLOW) {
      input_.fail_with(problem(code));
    } else if (state_.block_state == ISAL_BLOCK_FINISH) {
      finish_member();
    } else if (produced == 0 && state_.avail_in == input) {
      // No progress although the input was refilled: there is no more.
      input_.fail_with(input_.ended() ? "the file is truncated"
                                      : "the compressed data are damaged");
    }
    return produced;
  }

  void take(std::span<char> bytes) {
    state_.next_in = reinterpret_cast<uint8_t*>(bytes.data());
    state_.avail_in = static_cast<uint32_t>(bytes.size());
  }
  std::span<const char> left() const {
    return {reinterpret_cast<const char*>(state_.next_in), state_.avail_in};
  }

  void finish_member() {
    if (gzip_ && next_is_member()) {
      start_member();
    } else {
      finished_ = true;
    }
  }

  // Whether another member follows; what follows otherwise is garbage.
  bool next_is_member() {
    if (state_.avail_in < kGzipMagicBytes) take(input_.next_behind(left()));
    return is_gzip({left().data(), left().size()});
  }

  PackedInput input_;
  bool gzip_, finished_ = false;
  inflate_state state_{};
};

}  // namespace

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b\x08"); }

std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> packed,
                                        std::string name) {
  return std::make_unique<InflateSource>(std::move(packed), std::move(name),
                                         true);
}

std::unique_ptr<ByteSource> deflate_source(std::unique_ptr<ByteSource> packed,
                                           std::string name) {
  return std::make_unique<InflateSource>(std::move(packed), std::move(name),
                                         false);
}

}  // namespace reprise
