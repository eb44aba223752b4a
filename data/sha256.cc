#include "data/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "data/result.h"

namespace reprise {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  REPRISE_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length,
                           EVP_sha256(), nullptr) == 1);
  // By hand: a formatter takes as long for the digits as SHA-256 for a kernel.
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace reprise
