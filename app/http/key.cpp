#include "app/http/key.h"

#include <algorithm>

#include "engine/core/base64.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/hash.h"

namespace ft {

std::string read_api_key(const std::string& file) {
  constexpr std::int64_t kLongest = 4096;
  std::string key = read_file(file, kLongest);
  key.resize(std::min(key.find('\n'), key.size()));
  if (key.ends_with('\r')) key.pop_back();
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (key.empty() || !plain)
    throw UserError(Exit::config, printable(file) +
                                      ": the first line is the key, in visible ASCII characters; make one "
                                      "with: openssl rand -hex 24");
  return key;
}

bool knows_key(const std::string& authorization, const std::string& key) {
  const auto given = hmac_sha256(key, authorization), right = hmac_sha256(key, "Bearer " + key);
  return given == right;
}

bool knows_password(const std::string& authorization, const std::string& key) {
  const std::string wanted = "Basic " + base64(std::string(kPageUser) + ":" + key);
  return hmac_sha256(key, authorization) == hmac_sha256(key, wanted);
}

}  // namespace ft
