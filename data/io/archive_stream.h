// What byte_source.h is made of: files, memory, a look ahead, and one layer of
// decompression. Only the archive walkers use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/byte_source.h"

namespace reprise {

/// Bytes of one buffer between two sources; large enough that calls cost
/// nothing, small enough to stay in the second-level cache.
/// Source: streamed inflate was twice as fast as inflate into one big buffer.
constexpr size_t kStreamBufferBytes = size_t{512} << 10;

/// What a decompressor reads: a source by buffers, and the first error that
/// there was.
class PackedInput {
 public:
  /// `name` is for messages.
  PackedInput(std::unique_ptr<ByteSource> packed, std::string name);

  /// The next buffer; empty at the end and after an error.
  std::span<char> next();
  /// `left`, the end of the last buffer, and what follows it.
  std::span<char> next_behind(std::span<const char> left);
  /// Whether `next` found nothing more.
  bool ended() const { return ended_; }
  const std::optional<Error>& error() const { return error_; }
  /// Sets an error kParse: what is wrong with the bytes.
  void fail_with(std::string_view what);

 private:
  std::unique_ptr<ByteSource> packed_;
  std::string name_;
  std::vector<char> buffer_;
  bool ended_ = false;
  std::optional<Error> error_;
};

/// A regular file or a pipe, opened for reading. `position` (optional) follows
/// how many bytes were read. Errors: kIo.
Result<std::unique_ptr<ByteSource>> file_source(
    const std::string& path, std::atomic<int64_t>* position = nullptr);

/// Lets one look at the first bytes of a source and still read them. Errors of
/// the source stay: once read has failed, it fails again.
class HeadSource : public ByteSource {
 public:
  explicit HeadSource(std::unique_ptr<ByteSource> source);

  /// The next bytes, `count` of them or all there are; a failure of the source
  /// behind them is left to `read`.
  std::string_view head(size_t count);
  Result<size_t> read(std::span<char> into) override;

 private:
  std::unique_ptr<ByteSource> source_;
  std::string head_;
  size_t taken_ = 0;  // Bytes of head_ that were read.
  bool ended_ = false;
  std::optional<Error> error_;
};

constexpr size_t kCompressionMagicBytes = 6;
/// Whether bytes start as gzip or xz.
bool is_compressed(std::string_view head);

/// Takes off one layer of gzip or xz, if there is one. `name` is for messages.
std::unique_ptr<HeadSource> decompressed(std::unique_ptr<ByteSource> source,
                                         const std::string& name);

/// A name from an archive as text for people: no control characters.
std::string printable_name(std::string_view name);

/// Fills `into` unless the source ends before; returns how many bytes came.
Result<size_t> read_fully(ByteSource& source, std::span<char> into);

}  // namespace reprise
