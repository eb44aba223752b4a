// The records of a JSON text, one object at a time and whatever the size of
// the file: lines of objects, objects one after another, an array of objects,
// or the objects in one array of a document. Only quotes and braces are looked
// at, so a record that is no JSON costs nobody else: whoever parses it says so.
// Nothing recurses; memory is bounded by kLargestJsonObject.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/reader.h"
#include "data/io/byte_source.h"
#include "data/result.h"

namespace reprise {

/// A larger record is passed over and counted.
constexpr size_t kLargestJsonObject = 16u << 20;

class JsonObjects {
 public:
  /// With `arrays`, the text is one document and its records are the objects
  /// directly within its members of these names; without, every outermost
  /// object is a record. `source` must outlive this.
  explicit JsonObjects(ByteSource& source,
                       std::vector<std::string> arrays = {});

  using Take = std::function<void(std::string_view record)>;
  /// Hands over all records and counts what was lost as dropped: records larger
  /// than the limit; records that do not end in their line (a string never may,
  /// and none may where the first two were one line), after which reading goes
  /// on at the next line that opens an object; a record within which the text
  /// ended. Quotes and brackets too many between records are passed over and
  /// counted as repaired. Errors: those of the source.
  Status read(FileReport& report, const Take& take);

  /// The document without its records, as far as it was read (1 MB at most):
  /// "{"schema": "1.0.1", "nodes": [], "pid": 1}".
  const std::string& rest() const { return rest_; }

 private:
  enum class State { kOutside, kRecord, kResync };

  Result<const std::string*> next();
  void report_losses(FileReport& report) const;
  Result<bool> fill();
  bool scan();
  void scan_string(char c);
  bool scan_outside(char c);
  bool scan_record();
  void break_record();
  void keep_rest(char c);
  bool opens_record() const;
  bool resumes_array();
  void open_record();

  ByteSource& source_;
  std::vector<std::string> arrays_;
  std::string buffer_;
  size_t size_ = 0, at_ = 0;

  State state_ = State::kOutside;
  std::string record_;
  size_t record_depth_ = 0;  // Braces and brackets open within the record.
  bool record_too_large_ = false;
  bool in_string_ = false, escaped_ = false;
  bool line_is_blank_ = true;  // Of the line so far, while resyncing.
  bool record_has_break_ = false, lines_ = false;
  int one_line_records_ = 0;

  int64_t depth_ = 0;   // Outside records.
  std::string string_;  // The last string at depth 1, while it may be a key.
  std::string key_;     // The member at depth 1 that is being read.
  bool in_array_ = false, had_array_ = false;
  char last_ = 0;  // Not blank, outside strings.
  std::string rest_;

  int64_t oversized_ = 0, broken_ = 0, stray_ = 0;
  bool truncated_ = false;
};

}  // namespace reprise
