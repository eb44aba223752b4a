// An export of Nsight Systems through its reader, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "data/file.h"
#include "data/formats/nsys/nsys_reader.h"
#include "tests/testing/read_input.h"

namespace reprise {

/// What a reader made of a file.
struct Imported {
  Status status;
  FileReport report;
  Trace trace;
};

inline Imported import_path(const std::string& path) {
  ReadInput input =
      read_input(nsys_reader(), read_file(path).value(), path, path);
  EXPECT_TRUE(input.recognized) << path;
  Imported result{.status = input.status, .report = input.report, .trace = {}};
  if (input.status && input.report.refused.empty()) {
    result.trace = input.gather();
  }
  return result;
}

}  // namespace reprise
