// SHA-256 for fingerprints, structural keys and cache names (OpenSSL's
// libcrypto).
#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// Returns the lower-case hexadecimal SHA-256 of `bytes` (64 characters).
std::string sha256_hex(std::string_view bytes);

}  // namespace reprise
