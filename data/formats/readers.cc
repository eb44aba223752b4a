// Each reader adds its line here: the more certain its magic, the earlier.
#include "data/formats/kineto_reader.h"
#include "data/formats/nsys_reader.h"
#include "data/formats/reader.h"

namespace reprise {

const std::vector<const TraceReader*>& trace_readers() {
  static const std::vector<const TraceReader*> readers = {
      &nsys_reader(),
      &kineto_reader(),
  };
  return readers;
}

const std::vector<const DirectoryReader*>& directory_readers() {
  static const std::vector<const DirectoryReader*> readers = {};
  return readers;
}

}  // namespace reprise
