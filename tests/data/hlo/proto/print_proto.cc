// Prints what hlo_proto_text spells for an HLO proto, for comparison with XLA.
//
//   print_proto FILE.pb
#include <cstdio>

#include "data/file.h"
#include "data/hlo/proto/hlo_proto.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto bytes = reprise::read_file(argv[1]);
  const auto text = bytes ? reprise::hlo_proto_text(*bytes, argv[1])
                          : tl::unexpected(bytes.error());
  if (!text) {
    std::fprintf(stderr, "%s\n", text.error().message.c_str());
    return 1;
  }
  std::fwrite(text->data(), 1, text->size(), stdout);
  return 0;
}
